/** A recipient as people name it: a phone number, its hash, or the receipt of an erasure. */
import { settings } from '@hub/config'
import { recipientHash } from '@hub/domain'
import { recipientOfErasure } from '@hub/store'
import { Effect, Redacted, Schema } from 'effect'
import { refused } from './failures.ts'
import { RecipientHash } from './fields.ts'
import { recognize } from './messages/recognize.ts'

/** It may be a phone number: it is never in a URL, a log or the audit trail. */
export const RecipientInput = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(100)).annotate({
  description: 'A phone number (+79…), its hash (64 hexadecimal digits), or the id of an erasure receipt.',
})

/**
 * A hash is a `RecipientInput` too. It stays an alternative of its own where the API had only the hash before,
 * because the contract gate cannot know that its pattern implies the length.
 */
export const HashOrRecipient = Schema.Union([RecipientHash, RecipientInput])

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/u

/** The recipient hash. No other code sees the number. */
export const hashOfRecipient = Effect.fnUntraced(function* (typed: string) {
  const recognized = recognize(typed)
  if (recognized.kind === 'recipient') return recognized.hash
  if (recognized.kind === 'number') {
    return recipientHash(Redacted.value(yield* settings.numberHashSecret.config), recognized.number)
  }
  if (UUID.test(typed.trim())) {
    const recipient = yield* recipientOfErasure(typed.trim())
    if (recipient !== null) return recipient
    return yield* refused(
      'unknown_receipt',
      'No erasure has this id. Use the hash in its receipt.',
      'recipient',
    )
  }
  return yield* refused(
    'recipient_invalid',
    'The recipient must be +79 and nine digits, a hash of 64 hexadecimal digits, or the id of a receipt.',
    'recipient',
  )
})

interface NamedRecipient {
  readonly recipient: string
}

/** A phone number stays out of the audit trail: the outcome has the hash. */
export const auditedRecipient = ({ recipient }: NamedRecipient) => {
  const recognized = recognize(recipient)
  return recognized.kind === 'recipient' ? { recipient: recognized.hash } : { by: recognized.kind }
}

/** Whether a recipient is named by the phone number. Such an operation finds the hash of the number. */
export const isNamedByNumber = ({ recipient }: NamedRecipient): boolean =>
  recognize(recipient).kind === 'number'
