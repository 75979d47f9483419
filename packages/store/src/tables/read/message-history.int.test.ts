/** Messages of all versions have the same history, also while programs of two versions write it. */
import { randomUUID } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import type { ReasonCode, Status } from '@hub/domain'
import { freshDatabase } from '@hub/testkit'
import { Effect, Layer, Redacted } from 'effect'
import { afterAll } from 'vitest'
import {
  makeSql,
  migrate,
  type Queries,
  ReadInsights,
  ReadMessageMinutes,
  ReadMessages,
  Sql,
  uuidFloor,
} from '../../index.ts'

const { drop, url } = await freshDatabase()
afterAll(drop)
const layer = Layer.effect(Sql, makeSql(Redacted.make(url), 2, 'message-history-test'))

/** Bounds a call that hangs. */
const WITHIN = { deadline: '60 seconds' } as const

const AT = Date.UTC(2026, 10, 21, 10, 0, 0, 123)
const ACCOUNT = randomUUID()
const OWNER = { account: ACCOUNT, mode: 'live' } as const
const MIGRATION = '0094_history_in_messages.sql'

type Change = readonly [status: Status, reason: ReasonCode | null, at: number]
const ACCEPTED: Change = ['accepted', null, AT]
const SENT: Change = ['sent', null, AT + 1]
const TIMED_OUT: Change = ['expired', 'dlr_timeout_local', AT + 2]
const DELIVERED: Change = ['delivered', null, AT + 3]
const REJECTED: Change = ['rejected', 'operator_rejected', AT + 3]

/** Writes what a program of the version before does: the row with its status, and each change. */
const writeAsBefore = async (q: Queries, id: string, changes: ReadonlyArray<Change>): Promise<void> => {
  const [status, reason] = changes.at(-1) ?? ACCEPTED
  const isAccepted = changes.includes(ACCEPTED)
  await q`
    INSERT INTO read.messages (id, account, mode, class, recipient, template, sender, parts, price, currency, variables,
                               created_at, updated_at, status, rank, final, reason_code)
    VALUES (${id}, ${isAccepted ? ACCOUNT : null}, 'live', 'service', '\\x00', 'usual', 'HUB', 1, 2, 'RUB', '{}',
            ${isAccepted ? new Date(AT) : null}, now(), ${status}, 0, false, ${reason})
    ON CONFLICT (id) DO UPDATE SET status = excluded.status, reason_code = excluded.reason_code`
  for (const [changed, why, at] of changes) {
    await q`
      INSERT INTO read.message_history (message_id, fact_id, status, reason_code, at)
      SELECT * FROM unnest(${[id]}::uuid[], ${[randomUUID()]}::uuid[], ${[changed]}::text[], ${[why]}::text[],
                           ${[new Date(at).toISOString()]}::timestamptz[])
      ON CONFLICT DO NOTHING`
  }
}

const historyOf = async (q: Queries, id: string): Promise<ReadonlyArray<Change>> => {
  const [message] = await ReadMessages.readAll(q, [id])
  return (message?.history ?? [])
    .map(({ at, reason, status }): Change => [status, reason, at])
    .toSorted((a, b) => a[2] - b[2])
}

describe('the history of a message', () => {
  it.live('is the same, whichever version wrote each of its changes', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const [complete, open, handedOn, late, waiting, during] = Array.from({ length: 6 }, () => randomUUID())
      yield* sql.run(async (q) => {
        // The schema of the version before.
        await q`DROP VIEW read.message_history`
        await q`ALTER TABLE read.earlier_history RENAME TO message_history`
        await q`ALTER TABLE read.messages DROP COLUMN sent_at, DROP COLUMN timed_out_at, DROP COLUMN final_at`
        await q`DROP FUNCTION read.record_status_change`
        await q`DELETE FROM public.hub_migrations WHERE name = ${MIGRATION}`
        await writeAsBefore(q, complete!, [ACCEPTED, SENT, TIMED_OUT, DELIVERED])
        for (const id of [open!, handedOn!]) await writeAsBefore(q, id, [ACCEPTED, SENT])
        await writeAsBefore(q, late!, [ACCEPTED, SENT, TIMED_OUT])
        await writeAsBefore(q, waiting!, [SENT, REJECTED])
      }, WITHIN)
      assert.deepStrictEqual(yield* migrate(url), [MIGRATION])

      yield* sql.run(async (q) => {
        // A program of the version before continues.
        await writeAsBefore(q, open!, [REJECTED])
        await writeAsBefore(q, during!, [ACCEPTED, SENT, TIMED_OUT, DELIVERED])
        // A program of this version continues others.
        for (const id of [handedOn!, late!]) {
          await q`
            UPDATE read.messages SET status = 'delivered', reason_code = NULL, final_at = ${new Date(AT + 3)}
             WHERE id = ${id}`
        }
        assert.deepStrictEqual(await historyOf(q, complete!), [ACCEPTED, SENT, TIMED_OUT, DELIVERED])
        assert.deepStrictEqual(await historyOf(q, open!), [ACCEPTED, SENT, REJECTED])
        assert.deepStrictEqual(await historyOf(q, handedOn!), [ACCEPTED, SENT, DELIVERED])
        assert.deepStrictEqual(await historyOf(q, late!), [ACCEPTED, SENT, TIMED_OUT, DELIVERED])
        assert.deepStrictEqual(await historyOf(q, during!), [ACCEPTED, SENT, TIMED_OUT, DELIVERED])
        // The projector finds the changes that wait for the acceptance in the row.
        const rows = await q`
          SELECT sent_at, timed_out_at, final_at,
                 (SELECT count(*)::int FROM read.message_history WHERE message_id = m.id) AS changes
            FROM read.messages m WHERE id = ${waiting!}`
        assert.deepStrictEqual(
          [...rows],
          [{ sent_at: new Date(AT + 1), timed_out_at: null, final_at: new Date(AT + 3), changes: 2 }],
        )
      }, WITHIN)
    }).pipe(Effect.provide(layer)),
  )

  it.live('is found by index in each statement that reads it', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      yield* sql.transaction(async (q) => {
        // PostgreSQL would rather read the few rows without an index.
        await q`SELECT set_config('enable_seqscan', 'off', true)`
        const id = uuidFloor(AT + 1)
        await writeAsBefore(q, id, [ACCEPTED, SENT, DELIVERED])
        await q`UPDATE read.messages SET handed_over = true WHERE id = ${id}`
        const period = { from: AT, to: AT + 1000 }
        const filter = { account: ACCOUNT, mode: 'live', class: null, range: null } as const

        assert.lengthOf(await historyOf(q, id), 3)
        const latencies = await ReadMessages.readLatencies(q, OWNER, 'usual', '2026-11-21', '2026-11-21')
        assert.isAbove(latencies.measured, 0)
        assert.lengthOf(await ReadMessageMinutes.readSubmissionTimes(q, period, 10), 1)
        assert.lengthOf(await ReadInsights.readTimes(q, filter, [AT], 1000), 1)
        const scanned = await q<{ name: string }[]>`
          SELECT i.inhrelid::regclass::text AS name FROM pg_inherits i
           WHERE i.inhparent IN ('read.messages'::regclass, 'read.earlier_history'::regclass)
             AND pg_stat_get_xact_numscans(i.inhrelid) > 0`
        assert.deepStrictEqual([...scanned], [])
      }, WITHIN)
    }).pipe(Effect.provide(layer)),
  )
})
