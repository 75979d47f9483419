/** Recipient numbers: what is accepted, how they are shown, and the keyed hash that stands for them everywhere else. */
import { createHmac } from 'node:crypto'
import { Data, Result } from 'effect'

/**
 * E.164, Russian mobile. Nothing is trimmed or rewritten: what is not exactly this is refused.
 * The `u` flag keeps the pattern in the OpenAPI description.
 */
export const RECIPIENT_NUMBER_PATTERN = /^\+79\d{9}$/u

/** The number is not one that the service sends to: 422 `recipient_invalid`. It does not repeat the number. */
export class RecipientInvalid extends Data.TaggedError('RecipientInvalid')<{}> {
  readonly code = 'recipient_invalid'
}

/** True for a number that the service sends to. */
export const isRecipientNumber = (number: string): boolean => RECIPIENT_NUMBER_PATTERN.test(number)

/** The number itself, or `RecipientInvalid`. Source: specification, Rules of POST /v1/messages, 2. */
export const checkRecipient = (number: string): Result.Result<string, RecipientInvalid> =>
  isRecipientNumber(number) ? Result.succeed(number) : Result.fail(new RecipientInvalid())

/**
 * A number as responses and logs show it: `+7900***4567` (first five characters, `***`, last four). What is not an
 * accepted number has no harmless part that could be told apart: it is `***` as a whole. Source: contract, Message.
 */
export const maskNumber = (number: string): string =>
  isRecipientNumber(number) ? `${number.slice(0, 5)}***${number.slice(-4)}` : '***'

/**
 * HMAC-SHA-256 of the number under the deployment's secret, 64 lower-case hexadecimal digits. It is the key of
 * recipient-keyed topics and what counters, opt-outs and reports know of a recipient.
 * Source: contract, General (number hash): a bare SHA-256 of a phone number is reversed in minutes.
 */
export const recipientHash = (secret: string | Uint8Array, number: string): string =>
  createHmac('sha256', secret).update(number).digest('hex')
