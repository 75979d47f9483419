/** Operator ids. Some SMSCs write an id differently in answer and receipt; both are converted. */
import { isOperatorId } from '../foreign.ts'

/**
 * The relation between ids in answers and in receipts:
 * - `opaque`: the same string in both. The adapter does not change it.
 * - `hexadecimal_answer`: hexadecimal in the answer, decimal in the receipt (common).
 * - `decimal_answer`: decimal in the answer, hexadecimal in the receipt.
 * - `decimal`: decimal in both, but one may be padded with zeros.
 * - `hexadecimal`: hexadecimal in both, but case or padding may differ.
 */
export const ID_FORMATS = [
  'opaque',
  'hexadecimal_answer',
  'decimal_answer',
  'decimal',
  'hexadecimal',
] as const
export type IdFormat = (typeof ID_FORMATS)[number]

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

const digitsOf = (format: IdFormat, where: 'answer' | 'receipt', id: string): string | null => {
  const notations = NOTATIONS[format]
  return notations === null ? null : (DIGITS[notations[where]].exec(id)?.[1] ?? null)
}

/** Returns true if the id is a number in the notation of answers or of receipts. */
export const hasNotation = (format: IdFormat, where: 'answer' | 'receipt', id: string): boolean =>
  digitsOf(format, where, id) !== null

/**
 * Converts an id to the form of facts and reports: numbers without leading zeros in decimal, other
 * ids unchanged. Returns `null` if the text is no id.
 */
export const canonicalId = (format: IdFormat, where: 'answer' | 'receipt', id: string): string | null => {
  const trimmed = id.trim()
  if (!isOperatorId(trimmed)) return null
  const digits = digitsOf(format, where, trimmed)
  if (digits === null) return trimmed
  return BigInt(NOTATIONS[format]?.[where] === 'hexadecimal' ? `0x${digits}` : digits).toString()
}
