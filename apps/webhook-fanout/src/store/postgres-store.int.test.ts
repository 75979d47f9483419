/**
 * The suite of the store: random lives of a subscription on PostgreSQL and on the store in memory,
 * which calls the domain. Both must return the same due batches, delivery log and endpoint health,
 * so the SQL follows the domain.
 */
import { setTimeout } from 'node:timers/promises'
import { describe, expect, it } from '@effect/vitest'
import type { Queries } from '@hub/store'
import { Context, Effect, Layer, Scope } from 'effect'
import { TestClock } from 'effect/testing'
import * as fc from 'fast-check'
import { makeDeployment, makeDeploymentInRealTime } from '../testing/harness.ts'
import { FANOUT_DEFAULTS, FanoutSettings, type Settings } from '../config.ts'
import type { BatchCursor } from '../subscriptions/pending-batch.ts'
import { acquirePosition, lockOwnership } from './positions.ts'
import { type DueRequest, FanoutStore, type FanoutStoreShape, type FoundBatches } from './store.port.ts'
import type { SubscriptionRecord } from '../subscriptions/subscription.ts'
import { MemoryStore } from '../testing/memory-store.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const START = Date.UTC(2026, 0, 5, 12)
const PARTITION = 0
const ALL = 1000
const PAGE = 7

/** Without jitter, because the two stores would draw different random numbers. */
const settings: Settings = {
  ...FANOUT_DEFAULTS,
  nextAttemptAt: (failure) => FANOUT_DEFAULTS.nextAttemptAt({ ...failure, random: 0.5 }),
}

type Step =
  | { readonly kind: 'pass'; readonly ms: number }
  | { readonly kind: 'store'; readonly batches: number }
  | {
      readonly kind: 'attempts'
      readonly most: number
      readonly fail: boolean
      readonly tookMs: number
      /** Another process takes the partition over before the outcomes are recorded. */
      readonly takenOver?: boolean | undefined
    }
  | { readonly kind: 'enable' }

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('pass' as const),
      ms: fc.constantFrom(1000, MINUTE, 10 * MINUTE, HOUR, 9 * HOUR),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('store' as const), batches: fc.integer({ min: 1, max: 8 }) }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('attempts' as const),
      most: fc.integer({ min: 1, max: 25 }),
      fail: fc.boolean(),
      tookMs: fc.nat({ max: 5000 }),
      takenOver: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('enable' as const) }) },
)

const store = (batches: number): Step => ({ kind: 'store', batches })
const pass = (ms: number): Step => ({ kind: 'pass', ms })
const attempts = (most: number, fail: boolean): Step => ({ kind: 'attempts', most, fail, tookMs: 5 })
const takenOver = (fail: boolean): Step => ({ kind: 'attempts', most: 2, fail, tookMs: 5, takenOver: true })

/**
 * One batch fails each time. It is attempted early because others succeed, until the limit of early
 * attempts. Then all batches fail until the subscription is disabled. After it is enabled, that
 * batch is attempted once more, though not first.
 */
const REFUSED_TOO_OFTEN: ReadonlyArray<Step> = [
  store(1),
  attempts(1, true),
  ...Array.from({ length: 12 }, () => [
    store(1),
    pass(1000),
    attempts(1, false),
    pass(1000),
    attempts(1, true),
  ]).flat(),
  store(8),
  ...Array.from({ length: 4 }, (): ReadonlyArray<Step> => [
    attempts(25, true),
    { kind: 'pass', ms: HOUR },
  ]).flat(),
  pass(MINUTE),
  { kind: 'enable' },
  attempts(25, false),
]

/** The partition changes hands while nothing fails, and while something does. */
const TAKEN_OVER: ReadonlyArray<Step> = [
  store(6),
  takenOver(false),
  attempts(1, true),
  takenOver(false),
  takenOver(true),
  attempts(25, false),
]

describe('the store on PostgreSQL', () => {
  it.effect(
    'returns what the domain decides for every batch and subscription',
    () =>
      Effect.gen(function* () {
        yield* TestClock.setTime(START)
        const hub = yield* makeDeploymentInRealTime
        const context = yield* Layer.build(Layer.fresh(hub.storeLayer)).pipe(
          Effect.provideService(FanoutSettings, settings),
        )
        const real = Context.get(context, FanoutStore)
        let owner = { partition: PARTITION, epoch: (yield* real.acquire(PARTITION)).epoch }
        const run = Effect.runPromiseWith(yield* Effect.context<Scope.Scope>())
        let lives = 0

        const runLife = Effect.fnUntraced(function* (steps: ReadonlyArray<Step>) {
          lives += 1
          const account = yield* hub.account()
          const { id, uuid } = yield* hub.subscribe(account, 'https://127.0.0.1:1/', { announce: false })
          // Batches of the lives before.
          const earlier = yield* real.waiting
          const memory = new MemoryStore({ settings, random: () => 0.5 })
          memory.subscribe(uuid, account.id)
          memory.positions.set(PARTITION, { epoch: owner.epoch, position: -1 })
          const double = memory.shape()
          let now = START
          let sequence = 0
          yield* TestClock.setTime(now)

          const both = <A>(ask: (store: FanoutStoreShape) => Effect.Effect<A, unknown>) =>
            Effect.all([ask(real), ask(double)])
          const request = () =>
            Effect.map(
              both((store) => store.subscription(uuid)),
              ([stored, doubled]) => {
                expect({ ...stored, url: null, secret: null, id: null }).toEqual({
                  ...doubled,
                  url: null,
                  secret: null,
                  id: null,
                })
                return stored!
              },
            )
          const plain = (found: FoundBatches) => ({
            ...found,
            batches: found.batches.map((batch) => ({ ...batch, body: batch.body?.toString() ?? null })),
          })
          const dueOf = (
            record: SubscriptionRecord,
            paging: Pick<DueRequest, 'cursor' | 'without' | 'limit'>,
          ) =>
            both((store) =>
              store.due({
                subscriptionId: uuid,
                releasedAt: record.backlogReleasedAt,
                probe: paging.cursor === null ? record.disabledByBatch : null,
                withBodies: true,
                ...paging,
              }),
            )
          /** Due batches, read in pages as a backlog is. */
          const paged = Effect.fnUntraced(function* (record: SubscriptionRecord) {
            const read = new Set<string>()
            let cursor: BatchCursor | null = null
            do {
              const [stored, doubled]: readonly [FoundBatches, FoundBatches] = yield* dueOf(record, {
                cursor,
                without: read,
                limit: PAGE,
              })
              expect(plain(stored)).toEqual(plain(doubled))
              for (const { uuid } of stored.batches) read.add(uuid)
              cursor = stored.cursor
            } while (cursor !== null)
            return [...read]
          })
          const due = Effect.fnUntraced(function* () {
            const record = yield* request()
            const enabled = record.status === 'enabled'
            const [stored, doubled] = yield* enabled
              ? dueOf(record, { cursor: null, without: new Set(), limit: ALL })
              : both((store) => store.expired({ subscriptionId: uuid, without: new Set(), limit: ALL }))
            expect(plain(stored)).toEqual(plain(doubled))
            if (enabled) expect(yield* paged(record)).toEqual(stored.batches.map((batch) => batch.uuid))
            return { record, batches: stored.batches }
          })

          for (const step of steps) {
            if (step.kind === 'pass') {
              now += step.ms
              yield* TestClock.setTime(now)
            } else if (step.kind === 'store') {
              const batches = Array.from({ length: step.batches }, () => {
                sequence += 1
                const event = {
                  id: `evt_${String(lives * 10_000 + sequence).padStart(26, '0')}`,
                  sequence,
                  body: `{"n":${sequence}}`,
                  offset: sequence,
                }
                return { subscription: { id, uuid }, events: [event] }
              })
              const [stored, doubled] = yield* both((store) => store.storeBatches(owner, sequence, batches))
              expect(stored).toEqual(doubled)
            } else if (step.kind === 'enable') {
              memory.enable(uuid, now)
              const { backlogReleasedAt, status } = memory.subscriptions.get(uuid)!.health
              yield* hub.sql.run(
                (q) => q`
                  UPDATE webhooks.endpoints SET status = ${status}, consecutive_failures = 0, first_failure_at = NULL,
                         last_disabled_at = disabled_at, last_enabled_at = ${new Date(now)}, disabled_at = NULL,
                         backlog_released_at = ${backlogReleasedAt === null ? null : new Date(backlogReleasedAt)}
                  WHERE id = ${uuid} AND status <> 'enabled'`,
              )
            } else {
              const { batches, record } = yield* due()
              const outcomes = batches.slice(0, step.most).map((batch, index) => {
                const closed = now >= batch.queuedAt + settings.retryWindowMs
                const disabled = record.status !== 'enabled'
                return {
                  subscriptionId: uuid,
                  batch,
                  kind: closed ? ('expiry' as const) : ('attempt' as const),
                  responseCode: closed ? null : step.fail ? 500 : 200,
                  durationMs: closed ? 0 : step.tookMs,
                  reason: closed
                    ? disabled
                      ? ('retry_window_expired_while_disabled' as const)
                      : ('retry_window_expired' as const)
                    : step.fail
                      ? ('http_status' as const)
                      : null,
                  startedAt: now,
                  endedAt: now + step.tookMs + index,
                }
              })
              if (step.takenOver === true && outcomes.length > 0) {
                const [{ epoch }, { epoch: epochDoubled }] = yield* both((store) => store.acquire(PARTITION))
                expect(epoch).toBe(epochDoubled)
                const lost = owner
                owner = { partition: PARTITION, epoch }
                expect((yield* Effect.flip(real.record(lost, outcomes)))._tag).toBe('PartitionLost')
                yield* due()
              }
              if (outcomes.length > 0) {
                const [stored, doubled] = yield* both((store) => store.record(owner, outcomes))
                expect(stored).toEqual(doubled)
                // A repeated call records nothing.
                const again = yield* both((store) => store.record(owner, outcomes))
                expect(again[0].nextDue).toEqual(new Map())
              }
            }
            yield* due()
            expect((yield* real.waiting) - earlier).toBe(yield* double.waiting)
          }
          const lines = yield* hub.sql.run(
            (q) =>
              q<
                { batch_id: string; attempt: number; reason: string | null; next_attempt_at: Date | null }[]
              >`SELECT batch_id, attempt, reason, next_attempt_at FROM webhooks.attempts WHERE endpoint_id = ${uuid}`,
          )
          const text = (line: ReadonlyArray<unknown>) => JSON.stringify(line)
          expect(
            lines
              .map((line) =>
                text([line.batch_id, line.attempt, line.reason, line.next_attempt_at?.getTime() ?? null]),
              )
              .toSorted(),
          ).toEqual(
            memory.log
              .map((line) => text([line.batch, line.attempt, line.reason, line.nextAttemptAt]))
              .toSorted(),
          )
        })

        yield* Effect.promise(() =>
          fc.assert(
            fc.asyncProperty(fc.array(anyStep, { minLength: 5, maxLength: 40, size: 'max' }), (steps) =>
              run(runLife(steps)),
            ),
            { numRuns: 8, endOnFailure: true, examples: [[REFUSED_TOO_OFTEN], [TAKEN_OVER]] },
          ),
        )
      }),
    // Thousands of statements; the machine may be busy.
    120_000,
  )
})

describe('the lock of a partition', () => {
  /** An owner of the partition, and transactions with the locks of a recording or an acquisition. */
  const makeOwner = Effect.gen(function* () {
    const hub = yield* makeDeployment
    const store = Context.get(yield* Layer.build(Layer.fresh(hub.storeLayer)), FanoutStore)
    const owner = { partition: PARTITION, epoch: (yield* store.acquire(PARTITION)).epoch }
    const whileLocked = <A>(lock: (q: Queries) => Promise<unknown>, body: () => Promise<A>) =>
      hub.sql.transaction(
        async (q) => {
          await lock(q)
          return body()
        },
        { deadline: '60 seconds' },
      )
    const waiting = hub.sql.run(
      (q) => q`
        SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    )
    /** Starts an effect and returns when it waits for the lock. */
    const startWaiting = async <A>(effect: Effect.Effect<A, unknown>) => {
      const result = Effect.runPromise(effect)
      let done = false
      void result.then(() => {
        done = true
      })
      while ((await Effect.runPromise(waiting)).length === 0) await setTimeout(10)
      expect(done).toBe(false)
      return { result }
    }
    return {
      owner,
      store,
      startWaiting,
      whileRecording: <A>(body: () => Promise<A>) => whileLocked((q) => lockOwnership(q, owner), body),
      whileAcquiring: <A>(body: () => Promise<A>) => whileLocked((q) => acquirePosition(q, PARTITION), body),
    }
  })

  const test = (name: string, body: Effect.Effect<void, unknown, Scope.Scope>) =>
    it.live(name, () => body, 60_000)

  test(
    'lets the owner store batches while it records outcomes',
    Effect.gen(function* () {
      const { owner, store, whileRecording } = yield* makeOwner
      yield* whileRecording(() => Effect.runPromise(store.storeBatches(owner, 5, [])))
      expect((yield* store.acquire(PARTITION)).position).toBe(5)
    }),
  )

  test(
    'lets another process acquire the partition only after the outcomes in progress',
    Effect.gen(function* () {
      const { owner, startWaiting, store, whileRecording } = yield* makeOwner
      const { result } = yield* whileRecording(async () => {
        // A change of the position creates a new version of the locked row.
        await Effect.runPromise(store.storeBatches(owner, 5, []))
        return startWaiting(store.acquire(PARTITION))
      })
      expect(yield* Effect.promise(() => result)).toEqual({ epoch: owner.epoch + 1, position: 5 })
    }),
  )

  test(
    'lets the owner record nothing after another process has begun to acquire the partition',
    Effect.gen(function* () {
      const { owner, startWaiting, store, whileAcquiring } = yield* makeOwner
      const { result } = yield* whileAcquiring(() => startWaiting(Effect.flip(store.record(owner, []))))
      expect((yield* Effect.promise(() => result))._tag).toBe('PartitionLost')
    }),
  )
})
