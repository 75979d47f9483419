import { assert, describe, it } from '@effect/vitest'
import { decodeId, encodeId, eventIdOf, type LogFact, type MessageAccepted, newId } from '@hub/domain'
import { batchSealedRecord, type BatchSealed } from '@hub/kafka'
import { migrate, Sql } from '@hub/store'
import { Effect, Fiber } from 'effect'
import fc from 'fast-check'
import { randomBytes } from 'node:crypto'
import { applyBatch, type DecodedBatch } from './transaction.ts'
import type { OwnedPartition } from './record-buffer.ts'
import { ProjectionStore } from '../store/projection-store.port.ts'
import { acquireCheckpoints } from '../tables/checkpoints.ts'
import {
  acceptanceOf,
  account,
  append,
  applied,
  deliveryOf,
  laneRecord,
  logRecords,
  snapshot,
  startProcess,
  startProjector,
  until,
  useTestEnvironment,
} from '../testing/harness.ts'

const environment = await useTestEnvironment('aggregates')

const newBatch = () => newId('bat', Date.now(), randomBytes(10))

const sealOf = (owner: string, batch: string, counts: Partial<BatchSealed> = {}): BatchSealed => {
  const at = Date.now()
  return {
    type: 'BatchSealed',
    batch,
    account: owner,
    mode: 'live',
    total: counts.accepted ?? 0,
    accepted: 0,
    duplicate: 0,
    rejected: 0,
    createdAt: at,
    at,
    ...counts,
  }
}

const batchRow = (batch: string) =>
  Effect.flatMap(Sql, (sql) =>
    sql.run(async (q) => {
      const [row] = await q`SELECT * FROM read.batches WHERE id = ${decodeId('bat', batch)}`
      return row
    }),
  )
const eventsOf = (owner: string, type: string) =>
  Effect.flatMap(Sql, (sql) =>
    sql.run(async (q) => {
      const rows = await q<{ id: string; sequence: string; body: string }[]>`
        SELECT id, sequence, body FROM read.events
         WHERE account = ${decodeId('acc', owner)} AND type = ${type} ORDER BY sequence`
      return rows.map(({ body, id, sequence }) => ({
        id: encodeId('evt', id),
        sequence: Number(sequence),
        object: (JSON.parse(body) as { data: { object: unknown } }).data.object,
      }))
    }),
  )
const statsOf = (owner: string) =>
  Effect.flatMap(Sql, (sql) =>
    sql.run(
      (q) => q`
        SELECT mode, class, template, accepted, sent, delivered, undelivered, rejected, expired, parts, price
          FROM read.daily_stats WHERE account = ${decodeId('acc', owner)} ORDER BY mode, class, template`,
    ),
  )
/** Messages by reason code, over all hours. */
const reasonsOf = (owner: string) =>
  Effect.flatMap(Sql, (sql) =>
    sql.run(
      (q) => q`
        SELECT mode, reason_code, sum(accepted)::integer AS accepted, sum(delivered)::integer AS delivered,
               sum(rejected)::integer AS rejected, sum(expired)::integer AS expired, sum(price)::text AS price
          FROM read.hourly_stats WHERE account = ${decodeId('acc', owner)}
         GROUP BY 1, 2 HAVING sum(accepted) <> 0 ORDER BY 1, 2`,
    ),
  )
const chargesOf = (owner: string) =>
  Effect.flatMap(Sql, (sql) =>
    sql.run(
      (q) => q<{ kind: string; message_id: string; period: string; amount: string; currency: string }[]>`
        SELECT kind, message_id, period::text, amount, currency FROM read.charges
         WHERE account = ${decodeId('acc', owner)} ORDER BY message_id, kind`,
    ),
  )

/** The transactions of a projector, without Kafka: applies facts as records of one partition. */
const makeWriter = Effect.fnUntraced(function* (topic: string, partition: number) {
  const sql = yield* Sql
  const [checkpoint] = yield* sql.run((q) => acquireCheckpoints(q, [{ topic, partition }]))
  assert.isDefined(checkpoint)
  const owned: OwnedPartition = { ...checkpoint, source: topic, nextOffset: 0, buffered: [] }
  return Effect.fnUntraced(function* (content: Partial<Pick<DecodedBatch, 'facts' | 'seals'>>) {
    const { position } = owned
    const outcome = yield* applyBatch(environment.topics, {
      facts: [],
      seals: [],
      ...content,
      advances: [{ owned, to: position + 1, fence: 0 }],
      personalData: new Map(),
    })
    assert.strictEqual(outcome.kind, 'applied')
    owned.position = position + 1
  })
})

/** Creates an account that has spent an amount of its limit in this month. */
const createSpender = (owner: string, spent: string, settings: { limit: string; percent?: number }) =>
  Effect.flatMap(Sql, (sql) =>
    sql.transaction(async (q) => {
      const id = decodeId('acc', owner)
      await q`INSERT INTO command.accounts (id, name) VALUES (${id}, 'Shop')`
      await q`INSERT INTO command.account_settings (account, mode, spend_limit, soft_threshold_percent)
              VALUES (${id}, 'live', ${settings.limit}, ${settings.percent ?? null})`
      await q`INSERT INTO command.spend_periods (account, period, spent)
              VALUES (${id}, date_trunc('month', now() AT TIME ZONE 'UTC'), ${spent})`
    }),
  )
const spentBy = (owner: string) =>
  Effect.flatMap(Sql, (sql) =>
    sql.run(async (q) => {
      const [row] = await q<{ spent: string; threshold_told: boolean }[]>`
        SELECT spent, threshold_told FROM command.spend_periods WHERE account = ${decodeId('acc', owner)}`
      return row
    }),
  )

const sent = ({ at, messageId }: MessageAccepted): LogFact => ({
  type: 'MessageSent',
  messageId,
  at: at + 1,
  operator: 'http',
  operatorIds: [],
  reportDeadline: at + 1000,
})

describe('a batch', () => {
  // Rules: MSG-23
  it.live('keeps a code that a request of another batch publishes again', () =>
    Effect.gen(function* () {
      const owner = account(31)
      const [first, second] = [newBatch(), newBatch()]
      const appended = yield* acceptanceOf({ account: owner, batch: first })
      yield* startProjector(environment)
      yield* applied(environment.prefix, yield* append([laneRecord(environment, appended)]))
      yield* applied(
        environment.prefix,
        yield* append([
          laneRecord(environment, { ...appended, batch: second, at: appended.at + 5, republished: true }),
          batchSealedRecord(environment.topics, sealOf(owner, first, { total: 1, accepted: 1 })),
        ]),
      )
      assert.deepInclude(yield* batchRow(first), { members: 1, closed: false })
      yield* applied(
        environment.prefix,
        yield* append(
          logRecords(environment, appended, [
            sent(appended),
            { type: 'MessageDelivered', messageId: appended.messageId, at: appended.at + 9 },
          ]),
        ),
      )
      assert.deepInclude(yield* batchRow(first), { members: 1, final: 1, delivered: 1, closed: true })
      const recorded = yield* eventsOf(owner, 'batch.completed')
      assert.deepStrictEqual(
        recorded.map(({ id }) => id),
        [eventIdOf(first, 'batch.completed')],
      )
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )

  // Rules: BAT-12, BAT-13
  it.live('closes when it is sealed and all messages are final, with one event', () =>
    Effect.gen(function* () {
      const owner = account(1)
      const batch = newBatch()
      const facts = yield* Effect.forEach([1, 2, 3, 4], () => acceptanceOf({ account: owner, batch }))
      const [delivered, undelivered, rejected, silent] = facts
      assert.isDefined(delivered)
      assert.isDefined(undelivered)
      assert.isDefined(rejected)
      assert.isDefined(silent)
      yield* startProjector(environment)
      yield* applied(environment.prefix, yield* append(facts.map((fact) => laneRecord(environment, fact))))
      assert.deepInclude(yield* batchRow(batch), { members: 4, final: 0, closed: false, sealed_at: null })

      const seal = sealOf(owner, batch, { total: 7, accepted: 4, duplicate: 1, rejected: 2 })
      const ends: ReadonlyArray<readonly [MessageAccepted, LogFact]> = [
        [delivered, { type: 'MessageDelivered', messageId: delivered.messageId, at: delivered.at + 2 }],
        [
          undelivered,
          {
            type: 'MessageUndelivered',
            messageId: undelivered.messageId,
            at: undelivered.at + 2,
            reason: 'recipient_blocked',
          },
        ],
        [
          rejected,
          {
            type: 'MessageRejected',
            messageId: rejected.messageId,
            at: rejected.at + 2,
            reason: 'operator_rejected',
          },
        ],
      ]
      yield* applied(
        environment.prefix,
        yield* append([
          batchSealedRecord(environment.topics, seal),
          ...facts.flatMap((fact) => logRecords(environment, fact, [sent(fact)])),
          ...ends.flatMap(([fact, end]) => logRecords(environment, fact, [end])),
        ]),
      )
      assert.deepInclude(yield* batchRow(batch), { final: 3, closed: false })
      assert.deepStrictEqual(yield* eventsOf(owner, 'batch.completed'), [])

      yield* applied(
        environment.prefix,
        yield* append(
          logRecords(environment, silent, [
            {
              type: 'MessageExpired',
              messageId: silent.messageId,
              at: silent.at + 9,
              reason: 'dlr_timeout_local',
            },
          ]),
        ),
      )
      assert.deepInclude(yield* batchRow(batch), { final: 4, closed: true })
      const [recorded, ...more] = yield* eventsOf(owner, 'batch.completed')
      assert.deepStrictEqual(more, [])
      assert.deepStrictEqual(recorded?.object, {
        id: batch,
        object: 'batch',
        created_at: new Date(seal.createdAt).toISOString(),
        closed: true,
        counts: {
          total: 7,
          accepted: 4,
          duplicate: 1,
          rejected: 3,
          delivered: 1,
          undelivered: 1,
          expired: 1,
        },
      })
      assert.strictEqual(recorded?.id, eventIdOf(batch, 'batch.completed'))
      // Directly after the event of its last message.
      assert.strictEqual(recorded?.sequence, (yield* eventsOf(owner, 'message.expired'))[0]!.sequence + 1)

      // A late report corrects the counts. The batch stays closed, without a second event.
      yield* applied(
        environment.prefix,
        yield* append(
          logRecords(environment, silent, [
            { type: 'MessageDelivered', messageId: silent.messageId, at: silent.at + 99 },
          ]),
        ),
      )
      assert.deepInclude(yield* batchRow(batch), { delivered: 2, expired: 0, final: 4, closed: true })
      assert.strictEqual((yield* eventsOf(owner, 'batch.completed')).length, 1)
      assert.deepStrictEqual(
        [...(yield* statsOf(owner))],
        [
          {
            mode: 'live',
            class: 'service',
            template: 'order_ready',
            accepted: 4,
            sent: 4,
            delivered: 2,
            undelivered: 1,
            rejected: 1,
            expired: 0,
            parts: '4',
            price: '6.00',
          },
        ],
      )
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )

  // Rules: BAT-10
  it.live('closes at once when every element was rejected', () =>
    Effect.gen(function* () {
      const owner = account(2)
      const batch = newBatch()
      const apply = yield* makeWriter('rejected', 0)
      yield* apply({ seals: [sealOf(owner, batch, { total: 3, rejected: 3, mode: 'test' })] })
      assert.deepInclude(yield* batchRow(batch), { closed: true, mode: 'test' })
      const [recorded] = yield* eventsOf(owner, 'batch.completed')
      assert.deepInclude(recorded?.object, {
        closed: true,
        counts: {
          total: 3,
          accepted: 0,
          duplicate: 0,
          rejected: 3,
          delivered: 0,
          undelivered: 0,
          expired: 0,
        },
      })
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )

  it.live('keeps its first seal, and waits for a message that was appended although it was refused', () =>
    Effect.gen(function* () {
      const owner = account(3)
      const batch = newBatch()
      const apply = yield* makeWriter('appended', 0)
      const known = yield* acceptanceOf({ account: owner, batch })
      const appended = yield* acceptanceOf({ account: owner, batch })
      yield* apply({ facts: [known, appended], seals: [sealOf(owner, batch, { total: 2, accepted: 1 })] })
      yield* apply({ facts: deliveryOf(appended), seals: [sealOf(owner, batch, { total: 9 })] })
      assert.deepInclude(yield* batchRow(batch), { total: 2, final: 1, closed: false })
      yield* apply({ facts: deliveryOf(known) })
      assert.deepInclude(yield* batchRow(batch), { final: 2, closed: true })
      assert.strictEqual((yield* eventsOf(owner, 'batch.completed')).length, 1)
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )

  // Rules: BAT-13
  it.live('is closed by exactly one of two projectors that apply its last two messages concurrently', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const owner = account(4)
      const batch = newBatch()
      const store = yield* ProjectionStore
      const [one, two] = [yield* makeWriter('race', 0), yield* makeWriter('race', 1)]
      const [first, second] = yield* Effect.forEach([1, 2], () => acceptanceOf({ account: owner, batch }))
      assert.isDefined(first)
      assert.isDefined(second)
      yield* one({ facts: [first], seals: [sealOf(owner, batch, { accepted: 2 })] })
      yield* two({ facts: [second] })
      // Both transactions wait for the row of the batch before one of them has counted its message.
      const racing = yield* sql.transaction(
        async (q) => {
          await q`SELECT 1 FROM read.batches WHERE id = ${decodeId('bat', batch)} FOR UPDATE`
          const fibers = [one({ facts: deliveryOf(first) }), two({ facts: deliveryOf(second) })].map(
            (effect) => Effect.runFork(Effect.provideService(effect, ProjectionStore, store)),
          )
          for (let waiting = 0; waiting < 2;) {
            // A transaction caches its statistics, so the test clears them to see the waiting
            // sessions.
            const [row] = await q<{ waiting: number }[]>`
            SELECT pg_stat_clear_snapshot(), (
              SELECT count(*)::integer FROM pg_stat_activity
               WHERE datname = current_database() AND wait_event_type = 'Lock'
                 AND query ~ 'INSERT INTO "read"[.]"batches"') AS waiting`
            waiting = row?.waiting ?? 0
          }
          return fibers
        },
        { deadline: '10 seconds' },
      )
      yield* Effect.forEach(racing, Fiber.join)
      assert.deepInclude(yield* batchRow(batch), { final: 2, delivered: 2, closed: true })
      assert.strictEqual((yield* eventsOf(owner, 'batch.completed')).length, 1)
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )

  it.live('is closed once for any distribution and order of its facts and its seal over projectors', () =>
    Effect.gen(function* () {
      const owner = account(5)
      const writers = yield* Effect.forEach([0, 1, 2], (partition) => makeWriter('spread', partition))
      const plans = fc.sample(
        fc.array(
          fc.record({
            writer: fc.nat(2),
            lateAcceptance: fc.boolean(),
            end: fc.constantFrom('delivered', 'expired', 'corrected'),
          }),
          { minLength: 0, maxLength: 6 },
        ),
        { numRuns: 12, seed: 4 },
      )
      for (const plan of plans) {
        const batch = newBatch()
        const members = yield* Effect.forEach(plan, ({ end, lateAcceptance, writer }) =>
          Effect.map(acceptanceOf({ account: owner, batch }), (fact) => {
            const { at, messageId } = fact
            const expiry: LogFact = {
              type: 'MessageExpired',
              messageId,
              at: at + 3,
              reason: 'dlr_timeout_local',
            }
            const life: ReadonlyArray<LogFact> = [
              sent(fact),
              ...(end === 'delivered' ? [] : [expiry]),
              ...(end === 'expired' ? [] : [{ type: 'MessageDelivered', messageId, at: at + 4 } as const]),
            ]
            return { writer, steps: lateAcceptance ? [...life, fact] : [fact, ...life] }
          }),
        )
        const sealing = plan.length % writers.length
        // The writers run concurrently. Each applies its own facts, one fact per transaction.
        yield* Effect.forEach(
          writers,
          Effect.fnUntraced(function* (apply, index) {
            if (index === sealing) yield* apply({ seals: [sealOf(owner, batch, { accepted: plan.length })] })
            for (const { steps, writer } of members) {
              if (writer !== index) continue
              for (const step of steps) yield* apply({ facts: [step] })
            }
          }),
          { concurrency: 'unbounded' },
        )
        const expired = plan.filter(({ end }) => end === 'expired').length
        assert.deepInclude(yield* batchRow(batch), {
          members: plan.length,
          final: plan.length,
          expired,
          delivered: plan.length - expired,
          closed: true,
        })
      }
      const recorded = yield* eventsOf(owner, 'batch.completed')
      assert.strictEqual(recorded.length, plans.length)
      const accepted = plans.flat().length
      const [stats] = yield* statsOf(owner)
      assert.deepInclude(stats, { accepted, sent: accepted, parts: String(accepted) })
      const expired = plans.flat().filter(({ end }) => end === 'expired').length
      assert.deepStrictEqual(
        (yield* reasonsOf(owner)).map(({ accepted: all, delivered, reason_code }) => [
          reason_code,
          all,
          delivered,
        ]),
        [
          ['', accepted - expired, accepted - expired],
          ['dlr_timeout_local', expired, 0],
        ] as never,
      )
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )
})

describe('the hourly statistics', () => {
  it.live('are filled by their migration as the projection counts them', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const projected = yield* snapshot
      assert.isTrue(projected.hourlyStats.some((row) => row['reason_code'] === 'dlr_timeout_local'))
      yield* sql.run(async (q) => {
        await q`DROP TABLE read.hourly_stats`
        await q`DELETE FROM public.hub_migrations WHERE name = '0035_hourly_stats.sql'`
      })
      assert.deepStrictEqual(yield* migrate(environment.url), ['0035_hourly_stats.sql'])
      assert.deepStrictEqual(yield* snapshot, projected)
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )
})

describe('the statistics by number range', () => {
  const rangesOf = (owner: string) =>
    Effect.flatMap(Sql, (sql) =>
      sql.run(
        (q) => q`
          SELECT class, number_range, reason_code, accepted, sent, delivered, expired, price::text
            FROM read.range_stats WHERE account = ${decodeId('acc', owner)} AND accepted <> 0
           ORDER BY number_range, reason_code`,
      ),
    )

  it.live('count each message with a range once, and follow a late report', () =>
    Effect.gen(function* () {
      const owner = account(60)
      const apply = yield* makeWriter('ranges', 0)
      const [code, late] = [
        yield* acceptanceOf({ account: owner, class: 'otp', number: '+79120000001' }),
        yield* acceptanceOf({ account: owner, number: '+79770000001' }),
      ]
      const expiry: LogFact = {
        type: 'MessageExpired',
        messageId: late.messageId,
        at: late.at + 5,
        reason: 'dlr_timeout_local',
      }
      yield* apply({ facts: [code, ...deliveryOf(code), late, sent(late), expiry] })
      // A repetition counts nothing.
      yield* apply({ facts: [code, ...deliveryOf(code), late] })
      const row = { accepted: 1, sent: 1, delivered: 1, expired: 0, price: '2.00' }
      const ofCode = { class: 'otp', number_range: '912', reason_code: '', ...row }
      const ofLate = { class: 'service', number_range: '977', reason_code: '', ...row }
      assert.deepStrictEqual(yield* rangesOf(owner), [
        ofCode,
        { ...ofLate, reason_code: 'dlr_timeout_local', delivered: 0, expired: 1 },
      ] as never)
      yield* apply({ facts: [{ type: 'MessageDelivered', messageId: late.messageId, at: late.at + 9 }] })
      assert.deepStrictEqual(yield* rangesOf(owner), [ofCode, ofLate] as never)
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )

  it.live('leave out messages that a projector of the previous version has accepted', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const owner = account(61)
      const apply = yield* makeWriter('previous', 0)
      const [old, next] = [
        yield* acceptanceOf({ account: owner, number: '+79120000001' }),
        yield* acceptanceOf({ account: owner, number: '+79120000001' }),
      ]
      yield* apply({ facts: [old] })
      // The previous version knows neither the column nor the table.
      yield* sql.run(async (q) => {
        await q`UPDATE read.messages SET number_range = NULL WHERE account = ${decodeId('acc', owner)}`
        await q`DELETE FROM read.range_stats WHERE account = ${decodeId('acc', owner)}`
      })
      yield* apply({ facts: [...deliveryOf(old), next] })
      const [counted, ...more] = yield* rangesOf(owner)
      assert.deepStrictEqual(more, [])
      assert.deepInclude(counted, { number_range: '912', accepted: 1, sent: 0, delivered: 0 })
      const [all] = yield* reasonsOf(owner)
      assert.deepInclude(all, { accepted: 2, delivered: 1 })
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )

  it.live('cost at most 20 bytes for the range in a row', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      // The value in the row and in the primary key, each with the padding before the next value.
      const [size] = yield* sql.run(
        (q) => q<{ bytes: number }[]>`
          SELECT 2 * (pg_column_size(ROW (class, number_range, reason_code, currency))
                      - pg_column_size(ROW (class, reason_code, currency))) AS bytes
            FROM read.range_stats LIMIT 1`,
      )
      assert.isAtMost(size?.bytes ?? Infinity, 20)
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )
})

describe('spend', () => {
  it.live(
    'is charged in live mode, and refunded to the period of acceptance for messages that are not billed',
    () =>
      Effect.gen(function* () {
        const owner = account(10)
        yield* createSpender(owner, '6.00', { limit: '1000.00' })
        const apply = yield* makeWriter('spend', 0)
        const [billed, refused, unsent] = yield* Effect.forEach([1, 2, 3], () =>
          acceptanceOf({ account: owner }),
        )
        assert.isDefined(billed)
        assert.isDefined(refused)
        assert.isDefined(unsent)
        const free = yield* acceptanceOf({ account: owner, mode: 'test' })
        const end: ReadonlyArray<LogFact> = [
          {
            type: 'MessageRejected',
            messageId: refused.messageId,
            at: refused.at + 5,
            reason: 'operator_rejected',
          },
          {
            type: 'MessageRejected',
            messageId: free.messageId,
            at: free.at + 5,
            reason: 'operator_rejected',
          },
          {
            type: 'MessageExpired',
            messageId: unsent.messageId,
            at: unsent.at + 5,
            reason: 'ttl_expired_before_submit',
          },
        ]
        yield* apply({ facts: [billed, refused, free, ...end, ...deliveryOf(billed)] })
        assert.strictEqual((yield* spentBy(owner))?.spent, '4.00')
        yield* apply({ facts: [unsent] })
        assert.strictEqual((yield* spentBy(owner))?.spent, '2.00')
        yield* apply({ facts: [billed, refused, unsent, ...end] })
        assert.strictEqual((yield* spentBy(owner))?.spent, '2.00')

        const period = `${new Date(billed.at).toISOString().slice(0, 7)}-01`
        const line = (fact: MessageAccepted, kind: string) => ({
          kind,
          message_id: decodeId('msg', fact.messageId),
          period,
          amount: '2.00',
          currency: 'RUB',
        })
        assert.sameDeepMembers(
          [...(yield* chargesOf(owner))],
          [
            line(billed, 'charge'),
            line(refused, 'charge'),
            line(refused, 'reversal'),
            line(unsent, 'charge'),
            line(unsent, 'reversal'),
          ],
        )
        const modes = (yield* statsOf(owner)).map(({ accepted, mode, price, rejected }) => ({
          accepted: accepted as number,
          mode: mode as string,
          price: price as string,
          rejected: rejected as number,
        }))
        assert.deepStrictEqual(modes, [
          { accepted: 3, mode: 'live', price: '2.00', rejected: 1 },
          { accepted: 1, mode: 'test', price: '0.00', rejected: 1 },
        ])
        const none = { accepted: 1, delivered: 0, rejected: 0, expired: 0, price: '0.00' }
        const rejected = { ...none, reason_code: 'operator_rejected', rejected: 1 }
        assert.deepStrictEqual(yield* reasonsOf(owner), [
          { ...none, mode: 'live', reason_code: '', delivered: 1, price: '2.00' },
          { ...rejected, mode: 'live' },
          { ...none, mode: 'live', reason_code: 'ttl_expired_before_submit', expired: 1 },
          { ...rejected, mode: 'test' },
        ] as never)
      }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )

  it.live('is refunded once, also when the messages are folded into empty tables again', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const owner = account(11)
      yield* createSpender(owner, '2.00', { limit: '1000.00' })
      const apply = yield* makeWriter('again', 0)
      const fact = yield* acceptanceOf({ account: owner })
      const { at, messageId } = fact
      const facts = [
        fact,
        { type: 'MessageRejected', messageId, at: at + 1, reason: 'operator_rejected' },
      ] as const
      yield* apply({ facts })
      yield* sql.run((q) => q`DELETE FROM read.messages WHERE account = ${decodeId('acc', owner)}`)
      yield* apply({ facts })
      assert.strictEqual((yield* spentBy(owner))?.spent, '0.00')
      assert.strictEqual((yield* chargesOf(owner)).length, 2)
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )

  // Rules: EVT-8, EVT-9
  it.live('causes one event per period when it crosses the soft threshold, with several projectors', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const owner = account(12)
      yield* createSpender(owner, '79.99', { limit: '100.00' })
      const writers = yield* Effect.forEach([0, 1, 2], (partition) => makeWriter('threshold', partition))
      const messages = Effect.forEach(
        writers,
        Effect.fnUntraced(function* (apply) {
          yield* apply({ facts: [yield* acceptanceOf({ account: owner })] })
        }),
        { concurrency: 'unbounded' },
      )
      const recorded = eventsOf(owner, 'account.spend_threshold')
      yield* messages
      assert.deepStrictEqual(yield* recorded, [])
      yield* sql.run(
        (q) => q`UPDATE command.spend_periods SET spent = 80 WHERE account = ${decodeId('acc', owner)}`,
      )
      yield* messages
      yield* messages
      const [event, ...more] = yield* recorded
      assert.deepStrictEqual(more, [])
      const now = new Date()
      const month = (n: number) =>
        new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + n, 1)).toISOString()
      assert.deepStrictEqual(event?.object, {
        object: 'spend_limit',
        limit: { amount: '100.00', currency: 'RUB' },
        spent: { amount: '80.00', currency: 'RUB' },
        period: { from: month(0), to: month(1) },
        soft_threshold_percent: 80,
      })
      assert.isTrue((yield* spentBy(owner))?.threshold_told)
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )

  it.live('uses the threshold of the account, and has none without a limit', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const [early, free] = [account(13), account(14)]
      yield* createSpender(early, '10.00', { limit: '100.00', percent: 10 })
      yield* createSpender(free, '10.00', { limit: '100.00', percent: 10 })
      yield* sql.run(
        (q) =>
          q`UPDATE command.account_settings SET spend_limit = NULL WHERE account = ${decodeId('acc', free)}`,
      )
      const apply = yield* makeWriter('percent', 0)
      const refused = yield* acceptanceOf({ account: free })
      const { at, messageId } = refused
      yield* apply({
        facts: [
          yield* acceptanceOf({ account: early }),
          refused,
          { type: 'MessageRejected', messageId, at: at + 1, reason: 'operator_rejected' },
        ],
      })
      assert.strictEqual((yield* spentBy(early))?.spent, '10.00')
      assert.strictEqual((yield* spentBy(free))?.spent, '8.00')
      const [event] = yield* eventsOf(early, 'account.spend_threshold')
      assert.deepInclude(event?.object, { soft_threshold_percent: 10 })
      assert.deepStrictEqual(yield* eventsOf(free, 'account.spend_threshold'), [])
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )
})

describe('two projectors, one of them killed', () => {
  it.live(
    'close every batch once and count every message once, also after a complete replay',
    () =>
      Effect.gen(function* () {
        const sql = yield* Sql
        const [batches, size] = [30, 20]
        const owner = account(20)
        yield* createSpender(owner, '1200.00', { limit: '1000.00' })
        const first = yield* startProcess(environment, 'one')
        const second = yield* startProcess(environment, 'two')
        const positions = []
        for (let n = 0; n < batches; n++) {
          const batch = newBatch()
          const facts = yield* Effect.forEach(Array.from({ length: size }), () =>
            acceptanceOf({ account: owner, batch }),
          )
          positions.push(
            ...(yield* append([
              ...facts.map((fact) => laneRecord(environment, fact)),
              ...facts.flatMap((fact, i) =>
                logRecords(
                  environment,
                  fact,
                  i % 10 === 0
                    ? [
                        {
                          type: 'MessageRejected',
                          messageId: fact.messageId,
                          at: fact.at + 1,
                          reason: 'operator_rejected',
                        },
                      ]
                    : deliveryOf(fact, 1000),
                ),
              ),
              batchSealedRecord(environment.topics, sealOf(owner, batch, { accepted: size })),
            ])),
          )
          if (n === batches / 2) {
            yield* until(
              async (q) =>
                (await q`SELECT 1 FROM read.events WHERE account = ${decodeId('acc', owner)} LIMIT 100`)
                  .length === 100,
            )
            yield* first.kill('SIGKILL')
          }
        }
        yield* applied(environment.prefix, positions)
        const all = batches * size
        const refused = all / 10
        const assertSums = Effect.gen(function* () {
          const recorded = yield* eventsOf(owner, 'batch.completed')
          assert.strictEqual(recorded.length, batches)
          assert.strictEqual(new Set(recorded.map(({ id }) => id)).size, batches)
          assert.strictEqual((yield* eventsOf(owner, 'account.spend_threshold')).length, 1)
          const [stats, ...more] = yield* statsOf(owner)
          assert.deepStrictEqual(more, [])
          assert.deepInclude(stats, {
            accepted: all,
            sent: all - refused,
            delivered: all - refused,
            rejected: refused,
            parts: String(all),
            price: `${2 * (all - refused)}.00`,
          })
          assert.strictEqual((yield* spentBy(owner))?.spent, `${1200 - 2 * refused}.00`)
        })
        yield* assertSums

        yield* second.kill('SIGTERM')
        const before = yield* snapshot
        yield* sql.run((q) => q`UPDATE read.checkpoints SET position = 0, fence = 0 WHERE topic LIKE 'hub.%'`)
        yield* startProjector(environment, 53)
        yield* applied(environment.prefix, positions)
        assert.deepStrictEqual(yield* snapshot, before)
        yield* assertSums
      }).pipe(Effect.scoped, Effect.provide(environment.layer)),
    90_000,
  )
})
