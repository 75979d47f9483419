/**
 * Parses delivery receipts: a `deliver_sm` with the outcome of a part, in TLVs or in the text (SMPP
 * 3.4, appendix B). SMSCs differ in order, case and missing fields. A delivery is a receipt only if
 * the SMSC marks it as one (`esm_class`, or the TLV of the id), because a person can write the text
 * `id:1 stat:DELIVRD`.
 */
import { REJECTED_REASONS, type RejectedReason, type UndeliveredReason } from '@hub/domain'
import type { OperatorReport } from '../port.ts'
import { isOperatorId } from '../foreign.ts'
import { canonicalErrorCode, meaningOfState, type SmppErrors } from './errors.ts'
import { canonicalId, hasNotation, type IdFormat } from './ids.ts'
import type { Pdu } from './pdu/index.ts'
import { DATA_CODING, parseHeader, UDHI } from './text.ts'

/** Bits 5 to 2 of `esm_class`. Source: SMPP 3.4, 5.2.12. */
const MESSAGE_TYPE = 0x3c
/** No type: a message of a person. */
const NONE = 0x00
/** The recipient confirmed the message, so it was read. */
const USER_ACKNOWLEDGEMENT = 0x10
/** The end of a session of Korean CDMA. */
const CONVERSATION_ABORT = 0x18
const INTERMEDIATE = 0x20

/** The content of a receipt. */
export interface Receipt {
  /** The ids in the operator's notation: that of the TLV, that of the text. At least one. */
  readonly ids: ReadonlyArray<string>
  /** The states that the receipt names: the number of the TLV, the upper-case state of the text. */
  readonly states: ReadonlyArray<string>
  /** The error code in upper case without leading zeros, or `null`. */
  readonly error: string | null
  /** The time in the operator's time zone, read as UTC. `null` if the receipt contains none. */
  readonly doneAt: number | null
}

const messageType = (pdu: Pdu): number => (pdu.number('esm_class') ?? 0) & MESSAGE_TYPE

/**
 * Returns true if the SMSC marks the delivery as a receipt. SMSCs combine the types, too. Some forget the
 * type, and send the TLV of the id and a state. Others put a ticket of an inbound message into this TLV.
 */
export const isReceipt = (pdu: Pdu): boolean => {
  const type = messageType(pdu)
  if (type !== NONE) return type !== CONVERSATION_ABORT
  if (pdu.text('receipted_message_id') === '') return false
  const fields = fieldsOf(pdu)
  return pdu.number('message_state') !== null || (fields.has('id') && fields.has('stat'))
}

/** Returns true if `esm_class` marks an intermediate notification. */
export const isIntermediate = (pdu: Pdu): boolean => messageType(pdu) === INTERMEDIATE

/** Returns the octets of the text, from `short_message` or `message_payload`. */
export const bodyOf = (pdu: Pdu): Uint8Array => {
  const short = pdu.octets('short_message')
  return short !== null && short.length > 0
    ? short
    : (pdu.octets('message_payload') ?? short ?? new Uint8Array())
}

/** A delivery that cannot be understood, for the log: the field that is missing or unknown. */
export interface Unreadable {
  readonly field: 'id' | 'stat' | 'data_coding' | 'source_addr'
  /** The unknown value. `null`: there is none, or it may contain personal data. */
  readonly value: string | null
}

/**
 * The field names of a textual receipt. Two of them contain an optional space or underscore. Fields are
 * separated by spaces and line breaks. SMSCs written in C add NUL.
 */
const NAMES = '(id|sub|dlvrd|submit[\\s_]?date|done[\\s_]?date|stat|err|text)\\s*:'
const NAME = new RegExp(`(?:^|[\\s\\0,;])${NAMES}`, 'giu')
/** The field of the quoted message, unless it is empty and another field follows. */
const SAMPLE = new RegExp(`(?:^|[\\s\\0,;])text\\s*:(?!\\s+${NAMES})`, 'iu')

/** A final state that stands without its name. Some SMSCs leave out `stat:`. */
const BARE_STATE = /(?:^|[\s\0])(DELIVRD|UNDELIV|EXPIRED|DELETED|REJECTD)(?:[\s\0]|$)/u

/** Parses the fields of a textual receipt, by their lower-case names without spaces. */
export const receiptFields = (text: string): ReadonlyMap<string, string> => {
  const fields = new Map<string, string>()
  // The field `text` is the last one. It quotes the message, which may itself look like fields.
  const sample = SAMPLE.exec(text)
  const fieldText = sample === null ? text : text.slice(0, sample.index)
  const names = Array.from(fieldText.matchAll(NAME))
  for (const [i, match] of names.entries()) {
    const name = match[1]!.toLowerCase().replace(/[\s_]/gu, '')
    const value = fieldText.slice(match.index + match[0].length, names[i + 1]?.index ?? fieldText.length)
    if (!fields.has(name)) fields.set(name, value.trim().split(/[\s\0,;]/u)[0] ?? '')
  }
  const bare = BARE_STATE.exec(fieldText)?.[1]
  if (fields.has('id') && !fields.has('stat') && bare !== undefined) fields.set('stat', bare)
  return fields
}

/**
 * `YYMMDDhhmm` or `YYMMDDhhmmss`, in some receipts with a year of four digits, or with tenths of a second
 * and an offset as in the times of SMPP 3.4, 7.1.1.
 */
const doneAtOf = (text: string): number | null => {
  const found = /^(?:20)?(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)?(?:\d{3}[+\-R])?$/u.exec(text)
  if (found === null) return null
  const [year, month, day, hour, minute, second] = found.slice(1).map((digits) => Number(digits ?? 0))
  const at = Date.UTC(2000 + year!, month! - 1, day, hour, minute, second)
  // Date.UTC accepts impossible dates such as 31 February and moves them.
  return new Date(at).getUTCDate() === day && month! <= 12 && hour! < 24 ? at : null
}

/** `network_error_code`: one octet for the network type, two for the code. */
const networkError = (octets: Uint8Array | null): string | null =>
  octets === null || octets.length < 3 ? null : String((octets[1]! << 8) | octets[2]!)

/** ASCII, whatever the `data_coding`: an underscore differs in GSM 03.38. */
const asAscii = (octets: Uint8Array): string => Buffer.from(octets).toString('latin1')
const asUtf16 = (order: 'be' | 'le') => {
  const decoder = new TextDecoder(`utf-16${order}`)
  return (octets: Uint8Array): string => decoder.decode(octets)
}
const [asUcs2, asLittleEndian] = [asUtf16('be'), asUtf16('le')]

/**
 * The fields of a receipt. SMSCs write ASCII with the `data_coding` of UCS-2, and the reverse, and set
 * the flag of a user data header without one. So each reading is tried, until one has fields.
 */
const fieldsOf = (pdu: Pdu): ReadonlyMap<string, string> => {
  const body = bodyOf(pdu)
  const header = ((pdu.number('esm_class') ?? 0) & UDHI) === 0 ? null : parseHeader(body)
  const isUcs2 = pdu.number('data_coding') === DATA_CODING.ucs2
  const decoders = isUcs2 ? [asUcs2, asAscii, asLittleEndian] : [asAscii, asUcs2, asLittleEndian]
  for (const octets of header === null ? [body] : [header.rest, body]) {
    for (const decode of decoders) {
      const fields = receiptFields(decode(octets))
      if (fields.has('id') || fields.has('stat')) return fields
    }
  }
  return new Map()
}

/** Letters only: the value of a field may be anything, such as a number. */
const loggable = (state: string): string | null => (/^(?:[A-Z]{1,10}|\d{1,3})$/u.test(state) ? state : null)

/**
 * Parses a receipt. A TLV overrides the text, unless it cannot be read. A receipt needs an id and a
 * state that `errors` knows.
 */
export const readReceipt = (pdu: Pdu, errors: SmppErrors): Receipt | Unreadable => {
  const fields = fieldsOf(pdu)
  const ids = [pdu.text('receipted_message_id'), fields.get('id') ?? '']
    .map((candidate) => candidate.trim())
    .filter(isOperatorId)
  const number = pdu.number('message_state')
  const states = [
    number === null ? '' : String(number),
    fields.get('stat')?.toUpperCase() ?? '',
    messageType(pdu) === USER_ACKNOWLEDGEMENT ? 'READ' : '',
  ].filter((state) => state !== '')
  if (ids.length === 0) return { field: 'id', value: null }
  if (!states.some((state) => meaningOfState(errors, state) !== null)) {
    return { field: 'stat', value: states.map(loggable).find((state) => state !== null) ?? null }
  }
  const error = fields.get('err') || networkError(pdu.octets('network_error_code'))
  return {
    ids,
    states,
    error: error === null ? null : canonicalErrorCode(error),
    doneAt: doneAtOf(fields.get('donedate') ?? ''),
  }
}

const isRejectedReason = (reason: string): reason is RejectedReason =>
  REJECTED_REASONS.some((known) => known === reason)

type ReportedOutcome = Pick<OperatorReport, 'outcome' | 'reason'>

/**
 * Returns the outcome and reason of a receipt, from the first state that is known, or `intermediate` if
 * it is no final one. A configured error code decides between `undelivered` and `rejected`.
 */
export const outcomeOf = (receipt: Receipt, errors: SmppErrors): ReportedOutcome | 'intermediate' => {
  const meanings = receipt.states.map((state) => meaningOfState(errors, state))
  const meaning = meanings.find((known) => known !== null) ?? 'intermediate'
  switch (meaning) {
    case 'intermediate':
      return meaning
    case 'delivered':
    case 'seen':
    case 'expired':
      return { outcome: meaning, reason: null }
    case 'undelivered':
    case 'rejected': {
      const reason: UndeliveredReason | RejectedReason =
        (receipt.error === null ? undefined : errors.receiptError.get(receipt.error)) ??
        (meaning === 'rejected' ? 'operator_rejected' : 'delivery_failed')
      return { outcome: isRejectedReason(reason) ? 'rejected' : 'undelivered', reason }
    }
  }
}

/**
 * Returns the id in the form of the answer to the submit. The TLV often repeats the id of the answer (SMPP
 * 3.4, 5.3.2.12), beside a text with the notation of receipts. Then both are the same number. Otherwise
 * the TLV overrides the text.
 */
export const reportedId = ({ ids }: Receipt, format: IdFormat): string | null => {
  const [first, second] = ids
  if (first === undefined) return null
  const repeated = canonicalId(format, 'answer', first)
  if (second !== undefined && repeated === canonicalId(format, 'receipt', second)) return repeated
  return hasNotation(format, 'receipt', first) ? canonicalId(format, 'receipt', first) : repeated
}
