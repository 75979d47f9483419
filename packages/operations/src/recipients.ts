/** The recipient hash, for programs without the secret of the hub. */
import { Effect, Schema } from 'effect'
import { RecipientHash } from './fields.ts'
import { auditedRecipient, hashOfRecipient, RecipientInput } from './recipient.ts'
import { defineUseCase } from './use-case.ts'

/** Who can hash each number can find out the number of each hash, so it is a way to reveal numbers. */
export const hash = defineUseCase({
  name: 'hash',
  permission: 'messages.reveal',
  input: Schema.Struct({ recipient: RecipientInput }),
  output: Schema.Struct({ object: Schema.Literal('recipient'), hash: RecipientHash }),
  audit: auditedRecipient,
  result: ({ hash: recipient }) => ({ recipient }),
  counts: () => true,
  run: ({ recipient }) =>
    Effect.map(hashOfRecipient(recipient), (found) => ({ object: 'recipient' as const, hash: found })),
})
