/** Finds messages by one exact criterion, as `hubctl messages find` does: newest first. */
import { CommandClientRefs, type Queries, ReadMessages, ReadOperatorIds, uuidOf } from '@hub/store'
import { Effect, Schema } from 'effect'
import { Mode, publicId } from '../fields.ts'
import { pageFields } from '../pages.ts'
import { auditedRecipient, hashOfRecipient, HashOrRecipient, isNamedByNumber } from '../recipient.ts'
import { query } from '../sql.ts'
import { defineUseCase } from '../use-case.ts'
import { Message, toMessage } from './message.ts'

/** The SMS operators whose ids can be looked up. */
export const OPERATORS = ['smpp', 'http', 'sandbox'] as const

const Criterion = Schema.Union([
  Schema.Struct({ recipient: HashOrRecipient }),
  Schema.Struct({ client_ref: Schema.String, account: publicId('acc') }),
  Schema.Struct({ operator_id: Schema.String, operator: Schema.Literals(OPERATORS) }),
])

export const findBy = defineUseCase({
  name: 'messages find',
  permission: 'messages.read',
  members: 'named',
  input: Schema.Struct({
    by: Criterion,
    account: Schema.NullOr(publicId('acc')),
    mode: Schema.NullOr(Mode),
    limit: pageFields.limit,
  }),
  output: Schema.Struct({ object: Schema.Literal('list'), data: Schema.Array(Message) }),
  // A client_ref may contain personal data, against the documentation: the audit trail omits it.
  audit: ({ by }) =>
    'recipient' in by ? auditedRecipient(by) : { by: 'client_ref' in by ? 'client_ref' : 'operator_id' },
  result: ({ data }) => ({ messages: data.length }),
  counts: ({ by }) => 'recipient' in by && isNamedByNumber(by),
  run: Effect.fnUntraced(function* ({ account, by, limit, mode }) {
    const owner = account === null ? null : uuidOf('acc', account)
    const criterion = 'recipient' in by ? { recipient: yield* hashOfRecipient(by.recipient) } : by
    const idsIn = async (q: Queries): Promise<ReadonlyArray<string>> => {
      if ('recipient' in criterion) {
        return ReadMessages.findOfRecipient(q, criterion.recipient, owner, limit)
      }
      if ('client_ref' in criterion) {
        return CommandClientRefs.findMessages(q, uuidOf('acc', criterion.account), mode, criterion.client_ref)
      }
      const asked = { operator: criterion.operator, operatorId: criterion.operator_id, recipient: null }
      return (await ReadOperatorIds.findMessages(q, [asked])).map(({ message_id }) => message_id)
    }
    const found = yield* query(async (q) => ReadMessages.readAll(q, await idsIn(q)))
    const data = found
      .filter((row) => row.is_shown)
      .filter((row) => owner === null || row.account === owner)
      .filter((row) => mode === null || row.mode === mode)
      .toSorted((a, b) => b.created_at.getTime() - a.created_at.getTime())
      .slice(0, limit)
      .map(toMessage)
    return { object: 'list' as const, data }
  }),
})
