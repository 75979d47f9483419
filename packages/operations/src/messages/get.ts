/** One message of any account, with the ids of its parts at the SMS operator. */
import { ReadMessages } from '@hub/store'
import { Effect, Schema } from 'effect'
import { publicId } from '../fields.ts'
import { query } from '../sql.ts'
import { defineUseCase } from '../use-case.ts'
import { Message, toMessage } from './message.ts'
import { readMessage } from './read-message.ts'

export const get = defineUseCase({
  name: 'messages show',
  permission: 'messages.read',
  members: 'named',
  input: Schema.Struct({ id: publicId('msg') }),
  output: Schema.Struct({
    ...Message.fields,
    operator: Schema.NullOr(Schema.String),
    operator_ids: Schema.Array(Schema.String).annotate({
      description:
        'The ids of the message and of its parts at the operator. The hub stores them for 90 days.',
    }),
  }).annotate({ identifier: 'MessageDetails' }),
  audit: ({ id }) => ({ message: id }),
  run: ({ id }) =>
    Effect.gen(function* () {
      const { row } = yield* readMessage(id)
      const [ids] = yield* query((q) => ReadMessages.readWithOperatorIds(q, [row.id]))
      return {
        ...toMessage(row),
        operator: ids?.operator ?? null,
        operator_ids: ids?.operator_ids ?? [],
      }
    }),
})
