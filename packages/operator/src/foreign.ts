/**
 * Values that an operator chose. Topics, tables and logs of the hub contain them, so every adapter
 * keeps to these rules, and the boundary of the port (`boundary.ts`) checks them again.
 */
import { Result, Schema } from 'effect'

/**
 * 1 to 255 printable ASCII characters without spaces. SMPP 3.4 allows 64, and some SMSCs use more. A
 * NUL cannot be stored in PostgreSQL, and a text of some kilobytes does not fit into its index.
 */
const OPERATOR_ID = /^[\x21-\x7e]{1,255}$/u

/** An operator's id of a message, a part or an inbound message. */
export const OperatorId = Schema.String.pipe(Schema.check(Schema.isPattern(OPERATOR_ID)))
export const isOperatorId = (id: string): boolean => OPERATOR_ID.test(id)

/** The longest address that an operator may write. An SMPP address has at most 20 characters. */
export const ADDRESS_LENGTH = 255

/** Returns an address without control characters, lone surrogates and the like. */
export const cleanAddress = (address: string): string =>
  address.replaceAll(/\p{C}/gu, '').slice(0, ADDRESS_LENGTH).toWellFormed()

/** Deeper values are no message of an operator, and a recursion over them can end a process. */
const MAX_DEPTH = 32

const QUOTE = 0x22
const BACKSLASH = 0x5c
/** `[` and `{`, and what closes them. */
const OPENING = new Set([0x5b, 0x7b])
const CLOSING = new Set([0x5d, 0x7d])

const isTooDeep = (json: Uint8Array): boolean => {
  let depth = 0
  let isInString = false
  for (let at = 0; at < json.length; at++) {
    const octet = json[at]!
    if (isInString) {
      if (octet === BACKSLASH) at++
      else if (octet === QUOTE) isInString = false
    } else if (octet === QUOTE) isInString = true
    else if (OPENING.has(octet)) {
      if (++depth > MAX_DEPTH) return true
    } else if (CLOSING.has(octet)) depth--
  }
  return false
}

/** Parses the JSON of an operator. `null`: it is no JSON, or nested too deep. */
export const parseForeignJson = (json: Uint8Array): { readonly value: unknown } | null =>
  isTooDeep(json)
    ? null
    : Result.getOrElse(
        Result.try(() => ({ value: JSON.parse(Buffer.from(json).toString('utf8')) as unknown })),
        () => null,
      )
