/** Whether a recipient is opted out, and the record of each change: when, and by which word or by whom. */
import { CommandOptOuts } from '@hub/store'
import { Effect, Schema } from 'effect'
import { Timestamp } from './fields.ts'
import { auditedRecipient, hashOfRecipient, RecipientInput } from './recipient.ts'
import { query } from './sql.ts'
import { defineUseCase } from './use-case.ts'

const SOURCES = ['inbound', 'operator', 'import'] as const

/** A recipient changes an opt-out a few times. */
const MOST_CHANGES = 100

export const check = defineUseCase({
  name: 'opt-outs check',
  permission: 'opt_outs.read',
  input: Schema.Struct({ recipient: RecipientInput }),
  output: Schema.Struct({
    object: Schema.Literal('opt_out_check'),
    recipient: Schema.String.annotate({ description: 'The recipient hash.' }),
    opted_out: Schema.Boolean,
    opt_out: Schema.NullOr(
      Schema.Struct({
        recipient: Schema.String,
        object: Schema.Literal('opt_out'),
        source: Schema.Literals(SOURCES),
        created_at: Timestamp,
      }),
    ),
    history: Schema.Array(
      Schema.Struct({
        change: Schema.Literals(['opted_out', 'opted_in']),
        at: Timestamp,
        source: Schema.Literals(SOURCES).annotate({
          description: 'inbound: a word of the recipient; operator: hub staff; import: a list of numbers.',
        }),
        word: Schema.NullOr(Schema.String),
        actor: Schema.NullOr(Schema.String),
      }),
    ).annotate({ description: `The newest ${MOST_CHANGES} changes, oldest first.` }),
  }).annotate({ identifier: 'OptOutCheck' }),
  audit: auditedRecipient,
  counts: () => true,
  result: ({ opted_out, recipient }) => ({ recipient, opted_out }),
  run: ({ recipient: typed }) =>
    Effect.gen(function* () {
      const recipient = yield* hashOfRecipient(typed)
      const [row, changes] = yield* query(
        async (q) =>
          [
            await CommandOptOuts.read(q, recipient),
            await CommandOptOuts.readHistory(q, recipient, MOST_CHANGES),
          ] as const,
      )
      return {
        object: 'opt_out_check' as const,
        recipient,
        opted_out: row !== null,
        opt_out:
          row === null
            ? null
            : {
                recipient,
                object: 'opt_out' as const,
                source: row.source,
                created_at: row.created_at.toISOString(),
              },
        history: changes.map((change) => ({ ...change, at: change.at.toISOString() })),
      }
    }),
})
