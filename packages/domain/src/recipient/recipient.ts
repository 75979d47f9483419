/** Recipient numbers: validation, masking and the keyed hash. */
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

/**
 * HMAC-SHA-256 of the number under the deployment's secret: 64 lower-case hexadecimal digits. It is
 * the record key of topics and identifies the recipient in counters, opt-outs and reports. A plain
 * SHA-256 would not protect the number: trying all numbers takes minutes.
 */
export const recipientHash = (secret: string | Uint8Array, number: string): string =>
  createHmac('sha256', secret).update(number).digest('hex')
