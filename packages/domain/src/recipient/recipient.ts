/** Recipient numbers: validation, masking, the number range and the keyed hash. */
import { createHmac } from 'node:crypto'

/**
 * E.164 number of a Russian mobile phone. The hub does not trim or normalize numbers.
 * OpenAPI output contains the pattern only if it has the `u` flag.
 * Source: MSG-3.
 */
export const RECIPIENT_NUMBER_PATTERN = /^\+79\d{9}$/u

/** True if the hub can send to this number. */
export const isRecipientNumber = (number: string): boolean => RECIPIENT_NUMBER_PATTERN.test(number)

/**
 * Masks a number for responses and logs: `+7900***4567`. Any other text becomes `***`, because no
 * part of it is known to be harmless. Source: MSG-16.
 */
export const maskNumber = (number: string): string =>
  isRecipientNumber(number) ? `${number.slice(0, 5)}***${number.slice(-4)}` : '***'

/** A number of a Russian mobile phone, or its masked form. Both begin with the range. */
const RANGE_PATTERN = /^\+7(9\d{2})[\d*]{7}$/u

/**
 * The number range of a number, or of its masked form: the three digits after +7, `912`. They name a
 * network and a region when the number was given out, and each range has ten million numbers. Any other
 * text has none (`null`): elsewhere the length of the network code depends on the country, so a fixed
 * number of digits could name a small network or a part of a subscriber's number.
 */
export const numberRangeOf = (numberOrMask: string): string | null =>
  RANGE_PATTERN.exec(numberOrMask)?.[1] ?? null

/**
 * HMAC-SHA-256 of the number under the deployment's secret: 64 lower-case hexadecimal digits. It is
 * the record key of topics and identifies the recipient in counters, opt-outs and reports. A plain
 * SHA-256 would not protect the number: trying all numbers takes minutes.
 */
export const recipientHash = (secret: string | Uint8Array, number: string): string =>
  createHmac('sha256', secret).update(number).digest('hex')
