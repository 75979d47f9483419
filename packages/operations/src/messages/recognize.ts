/**
 * Recognizes what somebody typed into the search: a phone number, an id of the hub, or another text,
 * which is a `client_ref` or the id of a message at an SMS operator.
 */
import { decodeId, ID_PREFIXES, type IdPrefix, isRecipientNumber, withoutSeparators } from '@hub/domain'

export type Recognized =
  /** `text`: only digits, so it may also be a `client_ref` or an operator's id; `null`: it is none. */
  | { readonly kind: 'number'; readonly number: string; readonly text: string | null }
  /** A recipient hash, 64 hexadecimal digits. */
  | { readonly kind: 'recipient'; readonly hash: string }
  | { readonly kind: 'id'; readonly prefix: IdPrefix; readonly id: string; readonly uuid: string }
  /** It begins like an id of the hub, and is none. */
  | { readonly kind: 'malformed_id'; readonly prefix: IdPrefix }
  | { readonly kind: 'text'; readonly text: string }

const HASH = /^[0-9a-f]{64}$/u
const PREFIX = /^([a-z]{2,3})_/u

/**
 * The number in E.164 form; `null` for other texts. People write the country code of Russia as +7,
 * as 7 or as 8, or leave it out.
 */
const numberIn = (text: string): string | null => {
  const digits = withoutSeparators(text)
  const [, national] = /^(?:\+?7|8)?(9\d{9})$/u.exec(digits) ?? []
  const number = `+7${national}`
  return national !== undefined && isRecipientNumber(number) ? number : null
}

export const recognize = (typed: string): Recognized => {
  const text = typed.trim()
  const number = numberIn(text)
  if (number !== null) return { kind: 'number', number, text: /^\d+$/u.test(text) ? text : null }
  if (HASH.test(text)) return { kind: 'recipient', hash: text }
  // Programs that show ids in upper case do not change which id it is.
  const lower = text.toLowerCase()
  const [, found] = PREFIX.exec(lower) ?? []
  const prefix = (Object.keys(ID_PREFIXES) as ReadonlyArray<IdPrefix>).find((known) => known === found)
  if (prefix === undefined) return { kind: 'text', text }
  const uuid = decodeId(prefix, lower)
  return uuid === null ? { kind: 'malformed_id', prefix } : { kind: 'id', prefix, id: lower, uuid }
}
