/**
 * The store on PostgreSQL against its double in memory, which asks the domain: whatever happens to a subscription, both say the
 * same of what is due, what stands in the log and how the subscription stands. So the SQL has the rules of the domain.
 */
import { describe, expect, it } from '@effect/vitest'
import { Context, Effect, Layer, Scope } from 'effect'
import { TestClock } from 'effect/testing'
import * as fc from 'fast-check'
import type { DueRequest, FoundBatches, Place } from './due-batches.ts'
import { makeDeployment } from '../testing/harness.ts'
import { FANOUT_DEFAULTS, FanoutSettings, type Settings } from '../config.ts'
import { FanoutStore, type FanoutStoreShape } from './store.port.ts'
import type { SubscriptionRecord } from '../subscriptions/subscription.ts'
import { MemoryStore } from '../testing/memory-store.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const START = Date.UTC(2026, 0, 5, 12)
const PARTITION = 0
const ALL = 1000
const PAGE = 7

/** Without the jitter, which each of the two draws for itself. */
const settings: Settings = {
  ...FANOUT_DEFAULTS,
  nextAttemptAt: (failure) => FANOUT_DEFAULTS.nextAttemptAt({ ...failure, random: 0.5 }),
}

type Step =
  | { readonly kind: 'pass'; readonly ms: number }
  | { readonly kind: 'queue'; readonly batches: number }
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
    arbitrary: fc.record({ kind: fc.constant('queue' as const), batches: fc.integer({ min: 1, max: 8 }) }),
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

const queue = (batches: number): Step => ({ kind: 'queue', batches })
const pass = (ms: number): Step => ({ kind: 'pass', ms })
const attempts = (most: number, fail: boolean): Step => ({ kind: 'attempts', most, fail, tookMs: 5 })
const takenOver = (fail: boolean): Step => ({ kind: 'attempts', most: 2, fail, tookMs: 5, takenOver: true })

/**
 * One batch is refused again and again, before its time, because others succeed; until that is enough. Then everything fails, and is
 * enabled by hand: the refused one goes out once more as well, though not as the first.
 */
const REFUSED_TOO_OFTEN: ReadonlyArray<Step> = [
  queue(1),
  attempts(1, true),
  ...Array.from({ length: 12 }, () => [
    queue(1),
    pass(1000),
    attempts(1, false),
    pass(1000),
    attempts(1, true),
  ]).flat(),
  queue(8),
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
  queue(6),
  takenOver(false),
  attempts(1, true),
  takenOver(false),
  takenOver(true),
  attempts(25, false),
]

describe('the store on PostgreSQL', () => {
  it.effect(
    'says of every batch and subscription what the domain says',
    () =>
      Effect.gen(function* () {
        yield* TestClock.setTime(START)
        const hub = yield* makeDeployment
        const context = yield* Layer.build(Layer.fresh(hub.storeLayer)).pipe(
          Effect.provideService(FanoutSettings, settings),
        )
        const real = Context.get(context, FanoutStore)
        let owner = { partition: PARTITION, epoch: (yield* real.take(PARTITION)).epoch }
        const run = Effect.runPromiseWith(yield* Effect.context<Scope.Scope>())
        let life = 0

        const live = Effect.fnUntraced(function* (steps: ReadonlyArray<Step>) {
          life += 1
          const account = yield* hub.account()
          const { id, uuid } = yield* hub.subscribe(account, 'https://127.0.0.1:1/', { announce: false })
          // What the lives before have left.
          const left = yield* real.waiting
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
            paging: Pick<DueRequest, 'behind' | 'without' | 'limit'>,
          ) =>
            both((store) =>
              store.due({
                endpoint: uuid,
                releasedAt: record.backlogReleasedAt,
                first: paging.behind === null ? record.disabledByBatch : null,
                withBodies: true,
                ...paging,
              }),
            )
          /** What is due, read as a backlog is: a few at a time, each behind the last. */
          const paged = Effect.fnUntraced(function* (record: SubscriptionRecord) {
            const read = new Set<string>()
            let behind: Place | null = null
            do {
              const [stored, doubled]: readonly [FoundBatches, FoundBatches] = yield* dueOf(record, {
                behind,
                without: read,
                limit: PAGE,
              })
              expect(plain(stored)).toEqual(plain(doubled))
              for (const { uuid } of stored.batches) read.add(uuid)
              behind = stored.place
            } while (behind !== null)
            return [...read]
          })
          const due = Effect.fnUntraced(function* () {
            const record = yield* request()
            const enabled = record.status === 'enabled'
            const [stored, doubled] = yield* enabled
              ? dueOf(record, { behind: null, without: new Set(), limit: ALL })
              : both((store) => store.expired({ endpoint: uuid, without: new Set(), limit: ALL }))
            expect(plain(stored)).toEqual(plain(doubled))
            if (enabled) expect(yield* paged(record)).toEqual(stored.batches.map((batch) => batch.uuid))
            return { record, batches: stored.batches }
          })

          for (const step of steps) {
            if (step.kind === 'pass') {
              now += step.ms
              yield* TestClock.setTime(now)
            } else if (step.kind === 'queue') {
              const cuts = Array.from({ length: step.batches }, () => {
                sequence += 1
                const event = {
                  id: `evt_${String(life * 10_000 + sequence).padStart(26, '0')}`,
                  sequence,
                  body: `{"n":${sequence}}`,
                  offset: sequence,
                }
                return { subscription: { id, uuid }, events: [event] }
              })
              const [stored, doubled] = yield* both((store) => store.queue(owner, sequence, cuts))
              expect(stored).toEqual(doubled)
            } else if (step.kind === 'enable') {
              memory.enable(uuid, now)
              const { backlogReleasedAt, status } = memory.subscriptions.get(uuid)!.standing
              yield* hub.sql.run(
                (q) => q`
                  UPDATE webhooks.endpoints SET status = ${status}, consecutive_failures = 0, first_failure_at = NULL,
                         backlog_released_at = ${backlogReleasedAt === null ? null : new Date(backlogReleasedAt)}
                  WHERE id = ${uuid} AND status <> 'enabled'`,
              )
            } else {
              const { batches, record } = yield* due()
              const outcomes = batches.slice(0, step.most).map((batch, index) => {
                const closed = now >= batch.queuedAt + settings.retryWindowMs
                const disabled = record.status !== 'enabled'
                return {
                  endpoint: uuid,
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
                const [{ epoch }, { epoch: epochDoubled }] = yield* both((store) => store.take(PARTITION))
                expect(epoch).toBe(epochDoubled)
                const lost = owner
                owner = { partition: PARTITION, epoch }
                expect((yield* Effect.flip(real.record(lost, outcomes)))._tag).toBe('PartitionLost')
                yield* due()
              }
              if (outcomes.length > 0) {
                const [stored, doubled] = yield* both((store) => store.record(owner, outcomes))
                expect(stored).toEqual(doubled)
                // Recorded twice, it is recorded once.
                const again = yield* both((store) => store.record(owner, outcomes))
                expect(again[0].nextDue).toEqual(new Map())
              }
            }
            yield* due()
            expect((yield* real.waiting) - left).toBe(yield* double.waiting)
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
              run(live(steps)),
            ),
            { numRuns: 8, endOnFailure: true, examples: [[REFUSED_TOO_OFTEN], [TAKEN_OVER]] },
          ),
        )
      }),
    // Thousands of statements, on a machine that may be busy.
    120_000,
  )
})
