/**
 * Senders: the names that recipients see. Hub staff registers them with the operator. Source: SND-1 to
 * SND-9.
 */
import { apiError, type DeletedSender, type Sender, type SenderToCreate } from '@hub/contract'
import { decodeId, encodeId, newSenderStatus, toTimestamp } from '@hub/domain'
import { CommandSenders, CommandTemplates, Sql, uuidOf } from '@hub/store'
import { Clock, Effect } from 'effect'
import type { Owner } from '../accounts/account.ts'
import { STATEMENT_DEADLINE } from '../deadlines.ts'
import { freshId } from '../ids/ids.ts'
import { makeResourceReader } from '../paging/page.ts'

const senderBody = (row: Omit<CommandSenders.SenderRow, 'account'>): Sender => ({
  id: encodeId('snd', row.id),
  object: 'sender',
  name: row.name,
  registration: row.registration,
  status: row.status,
  reason: row.reason,
  created_at: toTimestamp(row.created_at.getTime()),
  mode: row.mode,
})

/** The templates that a refusal names. The others follow in the next refusal. */
const NAMED_TEMPLATES = 5

const namedBy = (templates: ReadonlyArray<string>): string =>
  `Templates name this sender. First delete them with DELETE /v1/templates/{id}: ${templates.join(', ')}.`

export const makeSenders = Effect.gen(function* () {
  const sql = yield* Sql
  const reader = makeResourceReader(sql, {
    table: 'command.senders',
    superseded: 'command.superseded_senders',
    prefix: 'snd',
    columns: (q) => q`id, mode, name, registration, status, reason, created_at`,
    toResource: senderBody,
  })
  return {
    /**
     * In test mode the sender is registered at once, else pending. It supersedes a declined one of the
     * same name. Fails with `duplicate_rejected`.
     */
    create: Effect.fnUntraced(function* (owner: Owner, { name, registration }: SenderToCreate) {
      const sender = {
        id: uuidOf('snd', freshId('snd', yield* Clock.currentTimeMillis)),
        account: owner.accountUuid,
        mode: owner.mode,
        name,
        registration: registration === null ? null : JSON.stringify(registration),
        status: newSenderStatus(owner.mode),
      }
      const row = yield* sql.run(
        async (q) => (await CommandSenders.insert(q, sender)) ?? (await CommandSenders.supersede(q, sender)),
        STATEMENT_DEADLINE,
      )
      return row === null ? yield* apiError('duplicate_rejected') : senderBody(row)
    }),
    /**
     * Removes a pending or declined sender that no template names. `null`: the owner has none with
     * this public id.
     */
    remove: Effect.fnUntraced(function* (owner: Owner, id: string) {
      const uuid = decodeId('snd', id)
      if (uuid === null) return null
      const sender = { id: uuid, account: owner.accountUuid, mode: owner.mode }
      const removed = yield* Effect.catchTag(
        sql.run((q) => CommandSenders.removeUnregistered(q, sender), STATEMENT_DEADLINE),
        'StorageRejected',
        (error) =>
          error.constraint === CommandTemplates.SENDER_FOREIGN_KEY
            ? Effect.flatMap(
                sql.run(
                  (q) => CommandTemplates.namesWithSender(q, sender, NAMED_TEMPLATES),
                  STATEMENT_DEADLINE,
                ),
                (templates) => Effect.fail(apiError('deletion_not_allowed', { message: namedBy(templates) })),
              )
            : Effect.fail(error),
      )
      if (removed) return { id, object: 'sender', deleted: true } satisfies DeletedSender
      return (yield* reader.read(owner, id)) === null ? null : yield* apiError('deletion_not_allowed')
    }),
    ...reader,
  }
})
