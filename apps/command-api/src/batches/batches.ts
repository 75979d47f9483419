/**
 * Reads batches and their messages: from the read model, and from the ledger until the projector
 * has applied them. So a client can read a batch as soon as it has the response.
 */
import type { Page } from '@hub/contract'
import { decodeId, encodeId } from '@hub/domain'
import {
  type Queries,
  ReadBatches,
  ReadMessages,
  Sql,
  type SqlFragment,
  timeOfUuid,
  uuidFloor,
} from '@hub/store'
import { Effect } from 'effect'
import type { Owner } from '../accounts/account.ts'
import { STATEMENT_DEADLINE } from '../deadlines.ts'
import { Messages } from '../messages/messages.ts'

interface Row extends ReadBatches.CountColumns {
  readonly sealed: boolean
  readonly closed: boolean
}

const DAY_MS = 24 * 3_600_000
/**
 * The ids of a batch's messages, relative to the time in the batch's id. Only a code that another
 * batch publishes again has an older id, of at most a month (the ledger).
 */
const MEMBERS_BEFORE_MS = 31 * DAY_MS
const MEMBERS_AFTER_MS = DAY_MS

const firstOf = (batch: string): string => uuidFloor(timeOfUuid(batch) - MEMBERS_BEFORE_MS)
const lastOf = (batch: string): string => uuidFloor(timeOfUuid(batch) + MEMBERS_AFTER_MS)

/** An expression: the accepted messages of an open batch (UUID), by the ledger. */
const countMembers = (q: Queries, batch: string): SqlFragment => q`
  (SELECT count(*)::integer FROM command.acceptances WHERE batch_id = ${batch} AND NOT given_back)`

export const makeBatches = Effect.gen(function* () {
  const sql = yield* Sql
  const messages = yield* Messages

  const find = (owner: Owner, uuid: string) =>
    sql.run(async (q) => {
      const [row] = await q<Row[]>`
        SELECT coalesce(r.created_at, c.created_at) AS created_at, coalesce(r.total, c.total) AS total,
               CASE WHEN coalesce(r.sealed_at, c.sealed_at) IS NULL THEN ${countMembers(q, uuid)}
                    ELSE coalesce(r.accepted, c.accepted) END AS accepted,
               coalesce(r.duplicate, c.duplicate) AS duplicate,
               coalesce(r.rejected, c.rejected) AS rejected,
               coalesce(r.sealed_at, c.sealed_at) IS NOT NULL AS sealed,
               coalesce(r.delivered, 0) AS delivered, coalesce(r.undelivered, 0) AS undelivered,
               coalesce(r.rejected_by_operator, 0) AS rejected_by_operator, coalesce(r.expired, 0) AS expired,
               coalesce(r.closed, false) AS closed
          FROM (SELECT * FROM command.batches WHERE id = ${uuid}) AS c
          FULL JOIN (${ReadBatches.selectById(q, uuid)}) AS r ON r.id = c.id
         WHERE coalesce(c.account, r.account) = ${owner.accountUuid} AND coalesce(c.mode, r.mode) = ${owner.mode}
           AND coalesce(r.created_at, c.created_at) > now() - interval '3 years'`
      return row ?? null
    }, STATEMENT_DEADLINE)

  const page = (uuid: string, limit: number, after: string) =>
    sql.run(
      (q) => q<{ id: string }[]>`
        (${ReadMessages.selectIdsOfBatch(q, uuid, { after, before: lastOf(uuid), limit: limit + 1 })})
        UNION
        (SELECT message_id FROM command.acceptances
          WHERE batch_id = ${uuid} AND NOT given_back AND message_id > ${after} AND message_id < ${lastOf(uuid)}
          ORDER BY message_id LIMIT ${limit + 1})
        ORDER BY id LIMIT ${limit + 1}`,
      STATEMENT_DEADLINE,
    )

  /** Whether a message belongs to the batch. */
  const isMember = (uuid: string, message: string) =>
    sql.run(async (q) => {
      const rows = await q`
        ${ReadMessages.selectMembership(q, uuid, message)}
        UNION ALL SELECT 1 FROM command.acceptances WHERE message_id = ${message} AND batch_id = ${uuid}`
      return rows.length > 0
    }, STATEMENT_DEADLINE)

  return {
    /** `id`: `bat_…`. `null`: the owner has no such batch. */
    read: Effect.fnUntraced(function* (owner: Owner, id: string) {
      const uuid = decodeId('bat', id)
      const row = uuid === null ? null : yield* find(owner, uuid)
      if (row === null) return null
      // A batch without accepted messages has no open message.
      return ReadBatches.toProgress(id, row, row.closed || (row.sealed && row.accepted === 0))
    }),

    /** The accepted messages, in order. `null`: the batch or the cursor does not exist. */
    messages: Effect.fnUntraced(function* (owner: Owner, id: string, { limit, startingAfter }: Page) {
      const uuid = decodeId('bat', id)
      if (uuid === null || (yield* find(owner, uuid)) === null) return null
      let after = firstOf(uuid)
      if (startingAfter !== null) {
        const cursor = decodeId('msg', startingAfter)
        if (cursor === null || !(yield* isMember(uuid, cursor))) return null
        after = cursor
      }
      const rows = yield* page(uuid, limit, after)
      const ids = rows.slice(0, limit).map((row) => row.id)
      const found = yield* messages.readAll(owner, ids)
      return {
        data: ids.flatMap((one) => found.get(encodeId('msg', one)) ?? []),
        hasMore: rows.length > limit,
      }
    }),
  }
})
