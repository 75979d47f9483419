/**
 * Senders: the names that recipients see. Hub staff registers them with the operator. Source:
 * specification, Endpoints; contract, Templates and senders.
 */
import { type ApiError, apiError, type Page, type Sender, type SenderToCreate } from '@hub/contract'
import { decodeId, encodeId, newSenderStatus, toTimestamp } from '@hub/domain'
import { insertSender, type Queries, Sql, type StorageError, type StoredSender, uuidOf } from '@hub/store'
import { Clock, Context, Duration, Effect, Layer } from 'effect'
import type { Owner } from '../accounts/account.ts'
import type { MakeId } from '../ids/ids.ts'
import { type ResourcePage, toResourcePage } from '../paging/page.ts'

const DEADLINE = { deadline: Duration.millis(1200) }

const senderBody = (row: StoredSender): Sender => ({
  id: encodeId('snd', row.id),
  object: 'sender',
  name: row.name,
  registration: row.registration,
  status: row.status,
  reason: row.reason,
  created_at: toTimestamp(row.created_at.getTime()),
  mode: row.mode,
})

const columns = (q: Queries) => q`id, mode, name, registration, status, reason, created_at`

export class Senders extends Context.Service<
  Senders,
  {
    /** In test mode the sender is registered at once, else pending. Fails with `duplicate_rejected`. */
    readonly create: (owner: Owner, wanted: SenderToCreate) => Effect.Effect<Sender, ApiError | StorageError>
    readonly read: (owner: Owner, id: string) => Effect.Effect<Sender | null, StorageError>
    /** Newest first; `null` when `startingAfter` names no sender of the owner. */
    readonly page: (owner: Owner, page: Page) => Effect.Effect<ResourcePage<Sender> | null, StorageError>
  }
>()('@hub/command-api/Senders') {
  static readonly layer = (makeSenderId: MakeId): Layer.Layer<Senders, never, Sql> =>
    Layer.effect(
      Senders,
      Effect.gen(function* () {
        const sql = yield* Sql

        const find = Effect.fnUntraced(function* (owner: Owner, id: string) {
          const uuid = decodeId('snd', id)
          if (uuid === null) return null
          const [row] = yield* sql.run(
            (q) => q<StoredSender[]>`
              SELECT ${columns(q)} FROM command.senders
               WHERE id = ${uuid} AND account = ${owner.accountUuid} AND mode = ${owner.mode}`,
            DEADLINE,
          )
          return row ?? null
        })

        return {
          create: Effect.fnUntraced(function* (owner, { name, registration }) {
            const uuid = uuidOf('snd', makeSenderId(yield* Clock.currentTimeMillis))
            const row = yield* sql.run(
              (q) =>
                insertSender(q, {
                  id: uuid,
                  account: owner.accountUuid,
                  mode: owner.mode,
                  name,
                  registration: registration === null ? null : JSON.stringify(registration),
                  status: newSenderStatus(owner.mode),
                }),
              DEADLINE,
            )
            return row === null ? yield* apiError('duplicate_rejected') : senderBody(row)
          }),

          read: (owner, id) => Effect.map(find(owner, id), (row) => (row === null ? null : senderBody(row))),

          page: Effect.fnUntraced(function* (owner, { limit, startingAfter }) {
            const after = startingAfter === null ? null : yield* find(owner, startingAfter)
            if (startingAfter !== null && after === null) return null
            const rows = yield* sql.run(
              (q) => q<StoredSender[]>`
                SELECT ${columns(q)} FROM command.senders
                 WHERE account = ${owner.accountUuid} AND mode = ${owner.mode}
                   ${after === null ? q`` : q`AND (created_at, id) < (${after.created_at}, ${after.id})`}
                 ORDER BY created_at DESC, id DESC LIMIT ${limit + 1}`,
              DEADLINE,
            )
            return toResourcePage(rows, limit, senderBody)
          }),
        }
      }),
    )
}
