/** The recipient hash, for programs without the secret of the hub. */
import { Effect, Schema } from 'effect'
import { RecipientHash } from './fields.ts'
import { hashOfRecipient, RecipientInput } from './recipient.ts'
import { defineUseCase } from './use-case.ts'

export const hash = defineUseCase({
  name: 'hash',
  permission: 'messages.read',
  input: Schema.Struct({ recipient: RecipientInput }),
  output: Schema.Struct({ object: Schema.Literal('recipient'), hash: RecipientHash }),
  audit: null,
  run: ({ recipient }) =>
    Effect.map(hashOfRecipient(recipient), (found) => ({ object: 'recipient' as const, hash: found })),
})
