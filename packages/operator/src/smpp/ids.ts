/**
 * Operator ids. Centres answer a submission with an id in one notation and report it in another; what leaves the adapter
 * is the same string in both cases.
 */

/**
 * How ids in answers and in receipts relate:
 * - `opaque`: both are the same string (UUIDs, leading zeros and all). Nothing is touched.
 * - `hexadecimal_answer`: hexadecimal in the answer, decimal in the receipt, as many centres do.
 * - `decimal_answer`: the other way round.
 * - `decimal`: decimal in both, but padded with zeros in one of them.
 * - `hexadecimal`: hexadecimal in both, in other letters or padded.
 */
export const ID_FORMATS = [
  'opaque',
  'hexadecimal_answer',
  'decimal_answer',
  'decimal',
  'hexadecimal',
] as const
export type IdFormat = (typeof ID_FORMATS)[number]

/** SMPP 3.4 allows 64 characters; some centres use more. A longer one is not an id. */
const MAX_ID_LENGTH = 128
/** Printable ASCII: an id goes into topics and logs. */
const ID = /^[\x21-\x7e]+$/u

type Notation = 'hexadecimal' | 'decimal'

const NOTATIONS: Readonly<
  Record<IdFormat, { readonly answer: Notation; readonly receipt: Notation } | null>
> = {
  opaque: null,
  hexadecimal_answer: { answer: 'hexadecimal', receipt: 'decimal' },
  decimal_answer: { answer: 'decimal', receipt: 'hexadecimal' },
  decimal: { answer: 'decimal', receipt: 'decimal' },
  hexadecimal: { answer: 'hexadecimal', receipt: 'hexadecimal' },
}

const DIGITS = { hexadecimal: /^(?:0[xX])?([0-9a-fA-F]+)$/u, decimal: /^(\d+)$/u } as const

/**
 * The id as facts and reports have it: decimal without leading zeros where the format is a number of any size; else, and
 * where it is no such number, the string itself. `null` for what is no id.
 */
export const canonicalId = (format: IdFormat, where: 'answer' | 'receipt', id: string): string | null => {
  const trimmed = id.trim()
  if (trimmed.length > MAX_ID_LENGTH || !ID.test(trimmed)) return null
  const notations = NOTATIONS[format]
  if (notations === null) return trimmed
  const notation = notations[where]
  const digits = DIGITS[notation].exec(trimmed)?.[1]
  if (digits === undefined) return trimmed
  return BigInt(notation === 'hexadecimal' ? `0x${digits}` : digits).toString()
}
