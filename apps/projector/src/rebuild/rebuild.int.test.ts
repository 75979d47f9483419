import { assert, describe, it } from '@effect/vitest'
import { decodeId, encodeId, type MessageAccepted, newId } from '@hub/domain'
import { batchSealedRecord } from '@hub/kafka'
import {
  cancelRebuild,
  eraseRecipient,
  type Queries,
  readRebuild,
  type Rebuild,
  type RebuildPolicy,
  RebuildInProgress,
  requestRebuild,
  Sql,
} from '@hub/store'
import { Deferred, Effect, Exit, Fiber, Schedule, Scope } from 'effect'
import { randomBytes } from 'node:crypto'
import {
  acceptanceOf,
  account,
  append,
  applied,
  deliveryOf,
  follow,
  laneRecord,
  logRecords,
  openTransaction,
  snapshot,
  startProcess,
  startProjector,
  startRebuilds,
  subscribe,
  until,
  useTestEnvironment,
} from '../testing/harness.ts'

const environment = await useTestEnvironment('rebuild')

/**
 * Bounds a test that hangs. Joining a group takes seconds, the expiry of a lease ten.
 */
const WITHIN_MS = 180_000

/**
 * Appends messages of an account (delivered, rejected and open, some of them in a batch), and waits
 * until they are applied.
 */
const traffic = Effect.fnUntraced(function* (owner: string, count: number) {
  const batch = newId('bat', Date.now(), randomBytes(10))
  const facts = yield* Effect.forEach(Array.from({ length: count }), (_, i) =>
    acceptanceOf({
      account: owner,
      mode: i % 3 === 0 ? 'test' : 'live',
      class: i % 2 === 0 ? 'service' : 'otp',
      batch: i % 3 === 1 ? batch : null,
    }),
  )
  const records = facts.flatMap((fact, i) => [
    laneRecord(environment, fact),
    ...logRecords(
      environment,
      fact,
      i % 5 === 0
        ? [
            {
              type: 'MessageRejected',
              messageId: fact.messageId,
              at: fact.at + 5,
              reason: 'spam_filter_content',
            },
          ]
        : i % 7 === 0
          ? deliveryOf(fact).slice(0, 2)
          : deliveryOf(fact),
    ),
  ])
  const members = facts.filter((fact) => fact.batch !== null).length
  const seal = batchSealedRecord(environment.topics, {
    type: 'BatchSealed',
    batch,
    account: owner,
    mode: 'live',
    at: Date.now(),
    createdAt: Date.now(),
    total: members + 1,
    accepted: members,
    duplicate: 0,
    rejected: 1,
  })
  yield* applied(environment.prefix, yield* append([...records, seal]))
  return facts
})

const ended = (id: string) =>
  readRebuild(id).pipe(
    Effect.repeat({
      until: (rebuild) => rebuild?.endedAt != null,
      schedule: Schedule.spaced('20 millis'),
    }),
    Effect.map((rebuild) => rebuild as Rebuild),
  )
const rebuilt = (policy: RebuildPolicy) => Effect.flatMap(requestRebuild(policy), ({ id }) => ended(id))
const sqlRun = <A>(body: (q: Queries) => Promise<A>) =>
  Effect.flatMap(Sql, (sql) => sql.run(body, { deadline: '20 seconds' }))

/**
 * The tables by name, with their object id. The id changes when a table is replaced.
 */
const tableOids = sqlRun(async (q) => {
  const rows = await q<{ name: string; oid: number }[]>`
    SELECT c.oid::regclass::text AS name, c.oid::int AS oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = 'read' AND c.relkind = 'r' ORDER BY 1`
  return new Map(rows.map(({ name, oid }) => [name, oid]))
})
/** Stores the history of about half of the messages as an earlier version did. */
const storeAsEarlier = sqlRun(
  (q) => q`
    WITH earlier AS (
      UPDATE read.messages SET sent_at = NULL, timed_out_at = NULL, final_at = NULL
       WHERE get_byte(uuid_send(id), 15) % 2 = 0 RETURNING id)
    INSERT INTO read.earlier_history
    SELECT message_id, gen_random_uuid(), status, reason_code, at FROM read.message_history
     WHERE message_id IN (SELECT id FROM earlier)`,
)
const cleared = until(async (q) => {
  const [row] = await q<{ left: number }[]>`
    SELECT (SELECT count(*) FROM command.rebuilds WHERE ended_at IS NOT NULL AND cleared_at IS NULL)::int
         + (SELECT count(*) FROM pg_namespace WHERE nspname IN ('rebuild', 'rebuild_before'))::int AS left`
  return row?.left === 0
})
const uuid = (fact: MessageAccepted) => decodeId('msg', fact.messageId)
const at = <A>(all: ReadonlyArray<A>, index: number): A => {
  const one = all[index]
  assert.isDefined(one)
  return one as A
}

const openRow = (state: string, records: number) =>
  until(async (q) => {
    const rows =
      await q`SELECT 1 FROM command.rebuilds WHERE state = ${state} AND records >= ${records} AND ended_at IS NULL`
    return rows.length > 0
  })
/** Whether a session waits for a lock on a table. */
const isWaitedFor = async (q: Queries, table: string, mode: string | null = null): Promise<boolean> => {
  const rows = await q`
    SELECT 1 FROM pg_locks WHERE relation = to_regclass(${table}) AND mode = coalesce(${mode}, mode) AND NOT granted`
  return rows.length > 0
}
/** The examples of all tables. */
const differences = (rebuild: Rebuild) =>
  (rebuild.compared ?? []).flatMap(({ examples, table }) => examples.map((one) => ({ table, ...one })))

describe('a rebuild', () => {
  it.live(
    'replaces the live tables by equal ones during sends, and records no events',
    () =>
      Effect.gen(function* () {
        for (const mode of ['live', 'test'] as const) yield* subscribe(account(1), mode)
        const published = yield* follow(`${environment.prefix}first`, [environment.topics.webhooks])
        yield* startProjector(environment)
        const facts = yield* traffic(account(1), 60)
        const { history } = yield* snapshot
        yield* storeAsEarlier
        yield* startRebuilds(environment)
        const before = yield* tableOids
        const sending = yield* Effect.forkChild(Effect.forEach([1, 2, 3, 4], () => traffic(account(1), 20)))
        const rebuild = yield* rebuilt('swap_if_equal')
        const later = (yield* Fiber.join(sending)).flat()
        const after = yield* tableOids

        assert.deepInclude(rebuild, { state: 'ended', outcome: 'swapped', since: null, failure: null })
        assert.isAbove(rebuild.records, 3 * 60)
        assert.deepStrictEqual(
          rebuild.compared?.map(({ differences: found, table }) => ({ found, table })),
          [
            'messages',
            'operator_ids',
            'batches',
            'charges',
            'daily_stats',
            'hourly_stats',
            'range_stats',
          ].map((table) => ({ found: 0, table: `read.${table}` })),
        )
        for (const { live, rebuilt: folded } of rebuild.compared ?? []) {
          assert.isAbove(live, 0)
          assert.strictEqual(folded, live)
        }
        const swapped =
          /^read\.(messages|operator_ids)_\d|^read\.(batches|daily_stats|hourly_stats|range_stats)$/u
        for (const [name, oid] of after) {
          assert.strictEqual(oid === before.get(name), !swapped.test(name), name)
        }

        // All messages are there, and later facts go into the new tables.
        const last = yield* traffic(account(1), 20)
        const stored = yield* snapshot
        assert.sameMembers(
          stored.messages.map((row) => row['id']),
          [...facts, ...later, ...last].map(uuid),
        )
        assert.isTrue(stored.batches.every((row) => row['sealed_at'] !== null))
        assert.includeDeepMembers(stored.history, history)
        assert.deepStrictEqual([...(yield* sqlRun((q) => q`SELECT 1 FROM read.earlier_history`))], [])
        // A complete replay finds no difference, and no event was recorded or published twice.
        const again = yield* rebuilt('compare_only')
        assert.deepInclude(again, { outcome: 'compared' })
        assert.deepStrictEqual(differences(again), [])
        yield* until(async () => published.length >= stored.events.length)
        const publishedIds = published.filter(({ type }) => type === 'EventRecorded').map(({ id }) => id)
        assert.strictEqual(publishedIds.length, stored.events.length)
        assert.strictEqual(new Set(publishedIds).size, publishedIds.length)
        assert.deepStrictEqual(yield* snapshot, stored)
        yield* cleared
      }).pipe(Effect.scoped, Effect.provide(environment.layer)),
    WITHIN_MS,
  )

  it.live(
    'finds differences, swaps only with the policy `swap`, and then repairs them',
    () =>
      Effect.gen(function* () {
        yield* startProjector(environment)
        yield* traffic(account(2), 30)
        const right = yield* snapshot
        const [changed, late, gone] = [0, 1, 2].map((i) => String(right.messages[i]?.['id']))
        const charge = right.charges[0]
        assert.isDefined(charge)
        yield* sqlRun(async (q) => {
          await q`UPDATE read.messages SET attempts = attempts + 1, seen = true WHERE id = ${changed ?? ''}`
          await q`UPDATE read.messages SET final_at = final_at - interval '1 second' WHERE id = ${late ?? ''}`
          await q`DELETE FROM read.messages WHERE id = ${gone ?? ''}`
          await q`
          INSERT INTO read.operator_ids (operator, operator_id, message_id, sent_at)
          VALUES ('http', 'nobody said so', ${changed ?? ''}, now())`
          await q`UPDATE read.batches SET expired = expired + 1 WHERE account = ${decodeId('acc', account(2))}`
          await q`
          UPDATE read.daily_stats SET price = price + 0.01, sent = sent - 1
           WHERE account = ${decodeId('acc', account(2))} AND mode = 'test' AND class = 'otp'`
          await q`
          UPDATE read.hourly_stats SET parts = parts + 1 WHERE ctid = (
            SELECT ctid FROM read.hourly_stats
             WHERE account = ${decodeId('acc', account(2))} AND mode = 'test' AND reason_code = '' LIMIT 1)`
          await q`
          UPDATE read.range_stats SET delivered = delivered + 1 WHERE ctid = (
            SELECT ctid FROM read.range_stats WHERE account = ${decodeId('acc', account(2))} AND accepted > 0 LIMIT 1)`
          // A row that counts no message is no difference.
          await q`
          INSERT INTO read.hourly_stats
          VALUES (date_trunc('hour', now()), ${decodeId('acc', account(2))}, 'test', 'recipient_blocked', 'RUB', 0, 0, 0, 0, 0, 0, 0, 0)`
        })
        const wrong = yield* snapshot
        const before = yield* tableOids
        yield* startRebuilds(environment)

        const expected = [
          { table: 'read.messages', missing: null, columns: ['attempts', 'seen'] },
          { table: 'read.messages', missing: null, columns: ['final_at'] },
          { table: 'read.messages', missing: 'live', columns: [] },
          { table: 'read.operator_ids', missing: 'rebuilt', columns: [] },
          { table: 'read.batches', missing: null, columns: ['expired'] },
          { table: 'read.daily_stats', missing: null, columns: ['price', 'sent'] },
          { table: 'read.hourly_stats', missing: null, columns: ['parts'] },
          { table: 'read.range_stats', missing: null, columns: ['delivered'] },
        ]
        for (const [policy, outcome] of [
          ['compare_only', 'compared'],
          ['swap_if_equal', 'refused'],
        ] as const) {
          const rebuild = yield* rebuilt(policy)
          assert.strictEqual(rebuild.outcome, outcome)
          const found = differences(rebuild)
          assert.deepStrictEqual(
            found.map(({ columns, missing, table }) => ({ table, missing, columns })),
            expected as typeof found extends ReadonlyArray<infer One> ? Array<Omit<One & {}, 'key'>> : never,
          )
          assert.deepStrictEqual(
            found.slice(0, 3).map(({ key }) => key),
            [changed, late, gone].map((id) => encodeId('msg', id ?? '')),
          )
          assert.match(found[5]?.key ?? '', /^acc_\w+ test \d{4}-\d\d-\d\d otp order_ready RUB$/u)
          assert.match(found[6]?.key ?? '', /^acc_\w+ test \d{4}-\d\d-\d\dT\d\d:00:00\+00:00 {2}RUB$/u)
          assert.deepStrictEqual(yield* snapshot, wrong)
          assert.deepStrictEqual(yield* tableOids, before)
        }
        const healed = yield* rebuilt('swap')
        assert.strictEqual(healed.outcome, 'swapped')
        assert.strictEqual(differences(healed).length, expected.length)
        assert.deepStrictEqual(yield* snapshot, right)
      }).pipe(Effect.scoped, Effect.provide(environment.layer)),
    WITHIN_MS,
  )

  it.live(
    'restores a number that was lost, and never that of an erased person',
    () =>
      Effect.gen(function* () {
        yield* startProjector(environment)
        const facts = yield* traffic(account(3), 12)
        const [lost, forgotten] = [at(facts, 1), at(facts, 2)]
        yield* eraseRecipient(forgotten.recipient)
        yield* sqlRun((q) => q`DELETE FROM read.personal_data WHERE message_id = ${uuid(lost)}`)
        const stored = Effect.map(snapshot, ({ personal }) => personal.map((row) => row['message_id']))
        yield* startRebuilds(environment)

        const looked = yield* rebuilt('compare_only')
        assert.strictEqual(looked.restored, 0)
        assert.notInclude(yield* stored, uuid(lost))
        const rebuild = yield* rebuilt('swap_if_equal')
        assert.deepInclude(rebuild, { outcome: 'swapped', restored: 1 })
        const ids = yield* stored
        assert.include(ids, uuid(lost))
        assert.notInclude(ids, uuid(forgotten))
      }).pipe(Effect.scoped, Effect.provide(environment.layer)),
    WITHIN_MS,
  )

  it.live(
    'continues in another projector after the first has ended',
    () =>
      Effect.gen(function* () {
        yield* startProjector(environment)
        yield* traffic(account(4), 200)
        const right = yield* snapshot
        const scope = yield* Scope.make()
        yield* Scope.provide(startRebuilds(environment, 20), scope)
        const { id } = yield* requestRebuild('swap_if_equal')
        yield* openRow('folding', 20)
        yield* Scope.close(scope, Exit.void)
        const half = yield* readRebuild(id)
        assert.deepInclude(half, { state: 'folding', outcome: null })
        yield* startRebuilds(environment)
        const rebuild = yield* ended(id)
        assert.deepInclude(rebuild, { outcome: 'swapped' })
        assert.deepStrictEqual(differences(rebuild), [])
        // The records that the first projector folded were not folded again.
        const [held] = yield* sqlRun(
          (q) => q<{ records: string }[]>`
          SELECT sum(position) AS records FROM read.checkpoints WHERE projection = 'messages'`,
        )
        assert.strictEqual(rebuild.records, Number(held?.records))
        assert.deepStrictEqual(yield* snapshot, right)
      }).pipe(Effect.scoped, Effect.provide(environment.layer)),
    WITHIN_MS,
  )

  it.live(
    'is free for another projector if the first is stopped while it acquires the lease',
    () =>
      Effect.gen(function* () {
        const sql = yield* Sql
        const [acquired, answered] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        // The answer to the acquisition arrives after the projector is told to stop.
        const late: Sql['Service'] = {
          ...sql,
          run: (body, options) =>
            Effect.tap(sql.run(body, options), (answer) =>
              typeof answer === 'object' && answer !== null && 'policy' in answer
                ? Effect.andThen(Deferred.succeed(acquired, undefined), Deferred.await(answered))
                : Effect.void,
            ),
        }
        const { id } = yield* requestRebuild('compare_only')
        const scope = yield* Scope.make()
        yield* startRebuilds(environment).pipe(Effect.provideService(Sql, late), Scope.provide(scope))
        yield* Deferred.await(acquired)
        const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
        yield* Deferred.succeed(answered, undefined)
        yield* Fiber.join(closing)
        const rows = yield* sqlRun((q) => q`SELECT owner FROM command.rebuilds WHERE id = ${id}`)
        assert.deepStrictEqual([...rows], [{ owner: null }])
        yield* startRebuilds(environment)
        assert.deepInclude(yield* ended(id), { outcome: 'compared' })
      }).pipe(Effect.scoped, Effect.provide(environment.layer)),
    WITHIN_MS,
  )

  it.live(
    'continues in another projector after the first was killed',
    () =>
      Effect.gen(function* () {
        const process = yield* startProcess(environment, 'killed')
        yield* traffic(account(5), 30)
        const right = yield* snapshot
        const { id } = yield* requestRebuild('swap_if_equal')
        yield* until(async (q) => {
          const [row] = await q<
            { made: boolean }[]
          >`SELECT to_regclass('rebuild.operator_ids') IS NOT NULL AS made`
          return row?.made ?? false
        })
        // It stops during its first batch.
        const letGo = yield* openTransaction(
          (q) => q`LOCK TABLE rebuild.operator_ids IN ACCESS EXCLUSIVE MODE`,
        )
        yield* until((q) => isWaitedFor(q, 'rebuild.operator_ids'))
        yield* process.kill('SIGKILL')
        yield* letGo
        yield* startProjector(environment)
        yield* startRebuilds(environment)
        const rebuild = yield* ended(id)
        assert.deepInclude(rebuild, { outcome: 'swapped' })
        assert.deepStrictEqual(differences(rebuild), [])
        assert.deepStrictEqual(yield* snapshot, right)
      }).pipe(Effect.scoped, Effect.provide(environment.layer)),
    WITHIN_MS,
  )

  it.live(
    'waits for a reader of the live tables without blocking other readers',
    () =>
      Effect.gen(function* () {
        yield* startProjector(environment)
        yield* traffic(account(6), 20)
        const right = yield* snapshot
        yield* startRebuilds(environment)
        const letGo = yield* openTransaction((q) => q`SELECT count(*) FROM read.messages`)
        const { id } = yield* requestRebuild('swap_if_equal')
        yield* until((q) => isWaitedFor(q, 'read.messages', 'AccessExclusiveLock'))
        // It gives up and retries: readers are answered within their usual time meanwhile.
        for (let attempt = 0; attempt < 2; attempt++) {
          assert.strictEqual((yield* snapshot).messages.length, right.messages.length)
          yield* until(async (q) => !(await isWaitedFor(q, 'read.messages', 'AccessExclusiveLock')))
          yield* until((q) => isWaitedFor(q, 'read.messages', 'AccessExclusiveLock'))
        }
        assert.deepInclude(yield* readRebuild(id), { state: 'swapping', endedAt: null })
        yield* traffic(account(6), 5)
        yield* letGo
        assert.deepInclude(yield* ended(id), { outcome: 'swapped' })
        assert.strictEqual((yield* snapshot).messages.length, right.messages.length + 5)
      }).pipe(Effect.scoped, Effect.provide(environment.layer)),
    WITHIN_MS,
  )

  it.live(
    'runs one at a time, and leaves nothing after its cancellation',
    () =>
      Effect.gen(function* () {
        yield* startProjector(environment)
        yield* traffic(account(7), 20)
        const [right, before] = [yield* snapshot, yield* tableOids]
        assert.isNull(yield* cancelRebuild)
        yield* startRebuilds(environment, 20)
        const { id } = yield* requestRebuild('swap')
        assert.deepStrictEqual(yield* Effect.flip(requestRebuild('swap')), new RebuildInProgress({ id }))
        yield* openRow('folding', 20)
        assert.deepInclude(yield* cancelRebuild, { id, outcome: 'cancelled' })
        yield* cleared
        assert.deepInclude(yield* readRebuild(id), { id, state: 'ended', outcome: 'cancelled' })
        assert.deepStrictEqual([yield* snapshot, yield* tableOids], [right, before])
      }).pipe(Effect.scoped, Effect.provide(environment.layer)),
    WITHIN_MS,
  )

  it.live(
    'copies rows from before the beginning of the topics',
    () =>
      Effect.gen(function* () {
        const sql = yield* Sql
        // Simulates topics that have lost the earlier months: their records are not read.
        const day = 24 * 3_600_000
        const now = new Date()
        const since = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 9, 1)
        const sumsSince = since + 31 * day
        yield* sqlRun((q) => q`SELECT command.ensure_months('read.messages', ${new Date(since)}, 3)`)
        yield* startProjector(environment)
        const owner = account(8)
        const [old, between, recent] = yield* Effect.all([
          acceptanceOf({ account: owner, at: since - 5 * day }),
          acceptanceOf({ account: owner, at: since + 5 * day }),
          acceptanceOf({ account: owner, at: sumsSince + 5 * day }),
        ])
        yield* applied(
          environment.prefix,
          yield* append(
            [old, between, recent].flatMap((fact) => [
              laneRecord(environment, fact),
              ...logRecords(environment, fact, deliveryOf(fact)),
            ]),
          ),
        )
        yield* sql.run(async (q) => {
          await q`UPDATE read.messages SET attempts = 9 WHERE id IN (${uuid(old) ?? ''}, ${uuid(between) ?? ''})`
          await q`UPDATE read.daily_stats SET price = 77 WHERE account = ${decodeId('acc', owner)}`
          await q`UPDATE read.hourly_stats SET price = 77 WHERE account = ${decodeId('acc', owner)}`
          await q`UPDATE read.range_stats SET price = 77 WHERE account = ${decodeId('acc', owner)}`
        })
        yield* until(async (q) => {
          const [row] = await q<
            { next: Date | null }[]
          >`SELECT min(next_at) AS next FROM command.retention_jobs`
          return row !== undefined
        })
        const { id } = yield* requestRebuild('swap')
        yield* sql.run(async (q) => {
          await q`SELECT command.open_rebuild()`
          await q`
          UPDATE command.rebuilds SET state = 'folding', since = ${new Date(since)}, sums_since = ${new Date(sumsSince)}
           WHERE id = ${id}`
        })
        yield* startRebuilds(environment)
        const rebuild = yield* ended(id)
        assert.deepInclude(rebuild, { outcome: 'swapped', since })
        assert.deepStrictEqual(
          differences(rebuild).map(({ columns, key, table }) => ({ table, key: key.slice(0, 30), columns })),
          [
            { table: 'read.messages', key: between.messageId, columns: ['attempts'] },
            { table: 'read.daily_stats', key: owner, columns: ['price'] },
            { table: 'read.hourly_stats', key: owner, columns: ['price'] },
            { table: 'read.range_stats', key: owner, columns: ['price'] },
          ],
        )
        const [attempts, prices, hourly, ranges] = yield* sql.run(async (q) => {
          const messages = await q<{ id: string; attempts: number }[]>`
          SELECT id, attempts FROM read.messages WHERE account = ${decodeId('acc', owner)} ORDER BY id`
          const stats = await q<{ price: string }[]>`
          SELECT price FROM read.daily_stats WHERE account = ${decodeId('acc', owner)} ORDER BY day`
          const hours = await q<{ price: string }[]>`
          SELECT price FROM read.hourly_stats WHERE account = ${decodeId('acc', owner)} AND accepted <> 0 ORDER BY hour`
          const inRanges = await q<{ price: string }[]>`
          SELECT price FROM read.range_stats WHERE account = ${decodeId('acc', owner)} AND accepted <> 0 ORDER BY hour`
          return [messages, stats, hours, inRanges] as const
        })
        assert.deepStrictEqual(
          attempts.map((row) => [row.id, row.attempts]),
          [
            [uuid(old), 9],
            [uuid(between), 1],
            [uuid(recent), 1],
          ],
        )
        for (const sums of [prices, hourly, ranges]) {
          assert.deepStrictEqual(
            sums.map(({ price }) => price),
            ['77.00', '77.00', '2.00'],
          )
        }
      }).pipe(Effect.scoped, Effect.provide(environment.layer)),
    WITHIN_MS,
  )
})
