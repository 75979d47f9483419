/** Builds the `deliver_sm` PDUs for receipts and inbound messages. */
import { type Behaviour, ERROR_CODES, type ReportStatus } from '../behaviour.ts'
import type { Receipt } from '../operator.ts'

/** The fields of a PDU. */
export type Fields = Readonly<Record<string, unknown>>

export interface Inbound {
  /** E.164. */
  readonly from: string
  /** The address of the service: a short code, a number or a name. */
  readonly to: string
  readonly text: string
}

/** `esm_class` (SMPP 3.4, 5.2.12). */
const DELIVERY_RECEIPT = 0x04
const USER_ACKNOWLEDGEMENT = 0x10
const UDH_INDICATOR = 0x40

/** `data_coding`: the default alphabet, and UCS-2. */
const DEFAULT_ALPHABET = 0x00
const UCS2 = 0x08

/** Type of number and numbering plan: international E.164, and alphanumeric. */
const NUMBER = { ton: 1, npi: 1 }
const NAME = { ton: 5, npi: 0 }

/**
 * `stat` and `message_state` of each status (SMPP 3.4, 5.2.28 and Appendix B). SMPP has no state
 * for read messages. SMSCs that forward to messengers use the `stat` READ without a
 * `message_state`.
 */
const STATES: Readonly<Record<ReportStatus, { readonly stat: string; readonly state: number | null }>> = {
  delivered: { stat: 'DELIVRD', state: 2 },
  expired: { stat: 'EXPIRED', state: 3 },
  undelivered: { stat: 'UNDELIV', state: 5 },
  rejected: { stat: 'REJECTD', state: 8 },
  seen: { stat: 'READ', state: null },
}

const digits = (n: number, width: number): string => String(n).padStart(width, '0')

/** `YYMMDDhhmm`, UTC. */
const date = (ms: number): string => new Date(ms).toISOString().replace(/\D/gu, '').slice(2, 12)

const addresses = (from: string, to: string): Fields => {
  const [source, destination] = [from, to].map((address) => (/^\+?\d+$/u.test(address) ? NUMBER : NAME))
  return {
    source_addr_ton: source?.ton,
    source_addr_npi: source?.npi,
    source_addr: from.replace('+', ''),
    dest_addr_ton: destination?.ton,
    dest_addr_npi: destination?.npi,
    destination_addr: to.replace('+', ''),
  }
}

/** The PDU of a receipt. By default it omits the text of the message, as many SMSCs do. */
export const receiptFields = (
  receipt: Receipt,
  {
    receipt_error,
    receipt_form: form,
    receipt_text,
  }: Pick<Behaviour, 'receipt_error' | 'receipt_form' | 'receipt_text'>,
): Fields => {
  const { due, reason, receipt_id, sender, status, to } = receipt
  const { stat, state } = STATES[status]
  const error = reason === null ? 0 : ERROR_CODES[reason]
  const delivered = status === 'delivered' || status === 'seen' ? '001' : '000'
  const text = `id:${receipt_id} sub:001 dlvrd:${delivered} submit date:${date(due)} done date:${date(due)} stat:${stat} err:${receipt_error ?? digits(error, 3)} text:${receipt_text}`
  const networkError = Buffer.from([3, error >> 8, error & 0xff])
  return {
    ...addresses(to, sender),
    esm_class: status === 'seen' ? USER_ACKNOWLEDGEMENT : DELIVERY_RECEIPT,
    data_coding: DEFAULT_ALPHABET,
    short_message: form === 'parameters' ? '' : text,
    ...(form === 'text'
      ? {}
      : {
          receipted_message_id: receipt_id,
          network_error_code: networkError,
          ...(state === null ? {} : { message_state: state }),
        }),
  }
}

/** The characters that have the same code in ASCII and in the default alphabet. */
const ALPHABET = /^[\n\r A-Za-z0-9!"#%&'()*+,\-./:;<=>?]*$/u
/** The maximum of characters of a single message and of a part. */
const LENGTHS = { alphabet: { alone: 160, part: 153 }, ucs2: { alone: 70, part: 67 } }

/** Divides a text into parts, none of which ends inside a surrogate pair. */
const partsOf = (text: string, length: number): ReadonlyArray<string> => {
  const parts: Array<string> = []
  for (let start = 0; start < text.length;) {
    const end = start + length
    const isPair = (text.codePointAt(end - 1) ?? 0) > 0xffff
    parts.push(text.slice(start, isPair ? end - 1 : end))
    start = isPair ? end - 1 : end
  }
  return parts
}

/** The PDUs of an inbound message, one per part. `reference` (0 to 255) identifies it. */
export const inboundFields = ({ from, text, to }: Inbound, reference: number): ReadonlyArray<Fields> => {
  const isPlain = ALPHABET.test(text)
  const { alone, part } = isPlain ? LENGTHS.alphabet : LENGTHS.ucs2
  const common = { ...addresses(from, to), data_coding: isPlain ? DEFAULT_ALPHABET : UCS2 }
  if (text.length <= alone) return [{ ...common, esm_class: 0, short_message: text }]
  const parts = partsOf(text, part)
  return parts.map((message, i) => ({
    ...common,
    esm_class: UDH_INDICATOR,
    short_message: { udh: Buffer.from([5, 0, 3, reference, parts.length, i + 1]), message },
  }))
}
