/**
 * Delivery receipts: a deliver_sm that says what became of a part. By TLV (`receipted_message_id`, `message_state`,
 * `network_error_code`) or by text, as in appendix B of SMPP 3.4; centres differ in order, case and what they leave out.
 *
 * Only what the centre marks as a receipt is one (`esm_class`, or the TLV of the id): a person can write `id:1 stat:DELIVRD`.
 */
import { REJECTED_REASONS, type RejectedReason, type UndeliveredReason } from '@hub/domain'
import type { OperatorReport } from '../port.ts'
import { canonicalErrorCode, meaningOfState, type SmppErrors } from './errors.ts'
import { canonicalId, type IdFormat } from './ids.ts'
import type { Pdu } from './pdu.ts'
import { decodeText, readHeader, UDHI } from './text.ts'

/** Bits 5 to 2 of `esm_class`. Source: SMPP 3.4, 5.2.12. */
const MESSAGE_TYPE = 0x3c
const RECEIPT = 0x04
const DELIVERY_ACKNOWLEDGEMENT = 0x08
/** The recipient acknowledged it by hand: it was read. */
const USER_ACKNOWLEDGEMENT = 0x10
const INTERMEDIATE = 0x20

/** `data_coding` of UCS-2. */
const UCS2 = 8

/** What a receipt says of one part. */
export interface Receipt {
  /** As the operator wrote it. */
  readonly id: string
  /** The word of the text in upper case, or the number of the TLV. */
  readonly state: string
  /** Error code without leading zeros, upper case, or `null`. */
  readonly error: string | null
  /** When it was done by the operator's clock and in its time zone, taken for UTC; `null` where it does not say. */
  readonly doneAt: number | null
}

/** A deliver_sm or data_sm that the centre marks as a receipt. */
export const isReceipt = (pdu: Pdu): boolean => {
  const type = (pdu.number('esm_class') ?? 0) & MESSAGE_TYPE
  return (
    type === RECEIPT ||
    type === DELIVERY_ACKNOWLEDGEMENT ||
    type === USER_ACKNOWLEDGEMENT ||
    type === INTERMEDIATE ||
    pdu.text('receipted_message_id') !== ''
  )
}

/** The octets of the text, wherever they are. */
export const bodyOf = (pdu: Pdu): Uint8Array => {
  const short = pdu.octets('short_message')
  return short !== null && short.length > 0
    ? short
    : (pdu.octets('message_payload') ?? short ?? new Uint8Array())
}

/** The names of the text; `text` is the last one and takes the rest. Two of them have a space, or none. */
const NAME = /(?:^|[\s,;])(id|sub|dlvrd|submit\s?date|done\s?date|stat|err|text)\s*:/giu

/** The fields of a textual receipt by their names in lower case, without spaces. */
export const receiptFields = (text: string): ReadonlyMap<string, string> => {
  const fields = new Map<string, string>()
  // The sample of the message comes last, and may itself look like fields.
  const sample = /(?:^|[\s,;])text\s*:/iu.exec(text)
  const told = sample === null ? text : text.slice(0, sample.index)
  const names = Array.from(told.matchAll(NAME))
  for (const [i, match] of names.entries()) {
    const name = match[1]!.toLowerCase().replace(/\s/gu, '')
    const value = told.slice(match.index + match[0].length, names[i + 1]?.index ?? told.length)
    if (!fields.has(name)) fields.set(name, value.trim().split(/[\s,;]/u)[0] ?? '')
  }
  return fields
}

/** `YYMMDDhhmm` or `YYMMDDhhmmss`, some with the whole year. */
const doneAtOf = (text: string): number | null => {
  const found = /^(?:20)?(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)?$/u.exec(text)
  if (found === null) return null
  const [year, month, day, hour, minute, second] = found.slice(1).map((digits) => Number(digits ?? 0))
  const at = Date.UTC(2000 + year!, month! - 1, day, hour, minute, second)
  // The 31st of February is nobody's date.
  return new Date(at).getUTCDate() === day && month! <= 12 && hour! < 24 ? at : null
}

/** `network_error_code`: one octet of network type, two of code. */
const networkError = (octets: Uint8Array | null): string | null =>
  octets === null || octets.length < 3 ? null : String((octets[1]! << 8) | octets[2]!)

/** Whatever alphabet they announce, centres write receipts in ASCII: an id may have an underscore, which GSM 03.38 has elsewhere. */
const wordsOf = (octets: Uint8Array, dataCoding: number): string =>
  dataCoding === UCS2 ? (decodeText(octets, UCS2) ?? '') : Buffer.from(octets).toString('latin1')

/** What a receipt says, or `null` when it has no id or no state. TLVs go before the text. */
export const readReceipt = (pdu: Pdu): Receipt | null => {
  const body = bodyOf(pdu)
  const rest = ((pdu.number('esm_class') ?? 0) & UDHI) === 0 ? body : (readHeader(body)?.rest ?? body)
  const fields = receiptFields(wordsOf(rest, pdu.number('data_coding') ?? 0))
  const id = pdu.text('receipted_message_id') || (fields.get('id') ?? '')
  const type = (pdu.number('esm_class') ?? 0) & MESSAGE_TYPE
  const told = fields.get('stat')?.toUpperCase() || (type === USER_ACKNOWLEDGEMENT ? 'READ' : '')
  const number = pdu.number('message_state')
  const state = number === null ? told : String(number)
  if (id === '' || state === '') return null
  const error = fields.get('err') || networkError(pdu.octets('network_error_code'))
  return {
    id,
    state,
    error: error === null ? null : canonicalErrorCode(error),
    doneAt: doneAtOf(fields.get('donedate') ?? ''),
  }
}

const isRejectedReason = (reason: string): reason is RejectedReason =>
  REJECTED_REASONS.some((known) => known === reason)

type Told = Pick<OperatorReport, 'outcome' | 'reason'>

/**
 * What a receipt means: the outcome with its reason; `intermediate` when there is nothing to tell; `null` for a state
 * that is not known. An error code with a meaning decides between `undelivered` and `rejected` too.
 */
export const outcomeOf = (receipt: Receipt, errors: SmppErrors): Told | 'intermediate' | null => {
  const meaning = meaningOfState(errors, receipt.state)
  switch (meaning) {
    case null:
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

/** Whether a deliver_sm speaks of a stage on the way, by its `esm_class`. */
export const isIntermediate = (pdu: Pdu): boolean =>
  ((pdu.number('esm_class') ?? 0) & MESSAGE_TYPE) === INTERMEDIATE

/** The id as it was in the answer to the submission. */
export const reportedId = (receipt: Receipt, format: IdFormat): string | null =>
  canonicalId(format, 'receipt', receipt.id)
