/**
 * The contract suite of the counters port. `memory.unit.test.ts` and `redis.int.test.ts` run it. An
 * adapter provides `Counters` and `TestCounters`.
 */
import { assert, describe, it } from '@effect/vitest'
import {
  Cause,
  Context,
  Data,
  Deferred,
  Effect,
  Exit,
  Fiber,
  type Layer,
  Schedule,
  type Scope,
  Stream,
} from 'effect'
import fc from 'fast-check'
import type { CountersState } from './memory.ts'
import { WINDOW_NAMES } from './rules.ts'
import {
  ATTEMPT_LEASE_MS,
  Counters,
  type CountersShape,
  CountersUnavailable,
  type FloodReservation,
  type FloodRequest,
  type FloodVerdict,
  type FloodWindows,
  RESERVATION_LEASE_MS,
} from './port.ts'

/** What the suite needs beside the port. A store is empty at first, and its time stands still. */
export class TestCounters extends Context.Service<
  TestCounters,
  {
    readonly advance: (ms: number) => Effect.Effect<void>
    readonly now: Effect.Effect<number>
    readonly set: (state: CountersState) => Effect.Effect<void>
    /** Deletes all data. */
    readonly empty: Effect.Effect<void>
  }
>()('@hub/counters/TestCounters') {}

/** A clock that only the suite moves, for an adapter that takes its time from outside. */
export const makeSuiteClock = (start: number) => {
  let now = start
  return {
    read: (): number => now,
    control: {
      advance: (ms: number) =>
        Effect.sync(() => {
          now += ms
        }),
      now: Effect.sync(() => now),
    } satisfies Partial<TestCounters['Service']>,
  }
}

class SourceFailed extends Data.TaggedError('SourceFailed')<{}> {}

const MINUTE = 60_000
const HOUR = 3_600_000
const DAY = 86_400_000

const DEFAULTS: FloodWindows = { pauseSeconds: 60, perHour: 5, perDay: 20 }
const NO_PAUSE: FloodWindows = { pauseSeconds: 0, perHour: 5, perDay: 20 }

const hash = (n: number): string => n.toString(16).padStart(64, '0')
let ids = 0
const freshId = (): string => `msg_${String(ids++).padStart(26, '0')}`

const floodRequest = (over: Partial<FloodRequest> = {}): FloodRequest => ({
  account: 'acc_1',
  mode: 'live',
  recipient: hash(1),
  reservationId: freshId(),
  windows: DEFAULTS,
  ...over,
})

const RESERVED: FloodVerdict = { reserved: true }
const refused = (window: 'pause' | 'hour' | 'day', retryAfterSeconds: number): FloodVerdict => ({
  reserved: false,
  window,
  retryAfterSeconds,
})

const reasonOf = <A, E>(exit: Exit.Exit<A, E>): string => {
  if (Exit.isSuccess(exit)) return 'no failure'
  const failure = Cause.squash(exit.cause)
  return failure instanceof CountersUnavailable ? failure.reason : String(failure)
}

/** Enough runs to find errors, and few enough for a real server. */
const RUNS = { numRuns: 40 }

/** The suite. `adapter` provides a new store to each test. */
export const portContract = (name: string, adapter: Layer.Layer<Counters | TestCounters>): void => {
  const test = (
    title: string,
    body: (
      counters: CountersShape,
      store: TestCounters['Service'],
    ) => Effect.Effect<void, unknown, Counters | TestCounters | Scope.Scope>,
  ) =>
    it.live(title, () =>
      Effect.gen(function* () {
        yield* body(yield* Counters, yield* TestCounters)
      }).pipe(Effect.scoped, Effect.provide(adapter)),
    )

  /** A test with a store whose flood windows are ready. */
  const ready: typeof test = (title, body) =>
    test(title, (counters, store) =>
      Effect.gen(function* () {
        assert.strictEqual(yield* counters.generation.rebuild(Stream.empty), 'rebuilt')
        yield* body(counters, store)
      }),
    )

  /** A property whose runs are effects. Each run has a number, so that it uses its own keys. */
  const property = <T>(
    arbitrary: fc.Arbitrary<T>,
    run: (value: T, number: number) => Effect.Effect<void, CountersUnavailable>,
  ) =>
    Effect.promise(() => {
      let runs = 0
      return fc.assert(
        fc.asyncProperty(arbitrary, (value) => Effect.runPromise(run(value, runs++))),
        RUNS,
      )
    })

  /** Retries until the adapter has detected the end of an outage. */
  const soon = <A, E>(effect: Effect.Effect<A, E>) =>
    effect.pipe(
      Effect.retry(Schedule.spaced('20 millis')),
      Effect.timeoutOrElse({
        duration: '20 seconds',
        orElse: () => Effect.die('the store was not available again within 20 s'),
      }),
    )

  describe(`${name}: request rate`, () => {
    // Rules: LIM-1, LIM-2
    test('allows a full bucket at once, then one token at a time', (counters, store) =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* counters.takeToken('key', 4), {
          allowed: true,
          limit: 4,
          remaining: 3,
          resetSeconds: 0.3,
          retryAfterSeconds: 0,
        })
        yield* counters.takeToken('key', 4)
        yield* counters.takeToken('key', 4)
        const last = yield* counters.takeToken('key', 4)
        assert.deepInclude(last, { allowed: true, remaining: 0, resetSeconds: 1 })
        const over = { allowed: false, limit: 4, remaining: 0, resetSeconds: 1, retryAfterSeconds: 1 }
        assert.deepStrictEqual(yield* counters.takeToken('key', 4), over)
        // A refused request takes no token: there is none after 249 ms, and one after 250 ms.
        yield* store.advance(249)
        assert.isFalse((yield* counters.takeToken('key', 4)).allowed)
        yield* store.advance(1)
        assert.isTrue((yield* counters.takeToken('key', 4)).allowed)
        assert.isFalse((yield* counters.takeToken('key', 4)).allowed)
        yield* store.advance(10_000)
        assert.strictEqual((yield* counters.takeToken('key', 4)).remaining, 3)
      }))

    // Rules: LIM-1
    test('counts each key separately, and 500 concurrent requests exactly', (counters) =>
      Effect.gen(function* () {
        const all = yield* Effect.all(
          Array.from({ length: 500 }, () => counters.takeToken('one', 100)),
          { concurrency: 'unbounded' },
        )
        assert.strictEqual(all.filter(({ allowed }) => allowed).length, 100)
        assert.isTrue((yield* counters.takeToken('other', 100)).allowed)
      }))

    test('follows a changed rate, and accepts any number as a rate', (counters, store) =>
      Effect.gen(function* () {
        for (let i = 0; i < 10; i++) yield* counters.takeToken('key', 10)
        assert.isFalse((yield* counters.takeToken('key', 1)).allowed)
        yield* store.advance(999)
        assert.isFalse((yield* counters.takeToken('key', 1)).allowed)
        yield* store.advance(1)
        assert.deepInclude(yield* counters.takeToken('key', 1), { allowed: true, limit: 1, remaining: 0 })
        for (const rate of [0, -5, Number.NaN, 0.5]) {
          assert.deepInclude(yield* counters.takeToken(`rate ${rate}`, rate), {
            allowed: true,
            limit: 1,
            remaining: 0,
          })
        }
        assert.deepInclude(yield* counters.takeToken('fast', 1_000_000), {
          remaining: 999_999,
          resetSeconds: 0.1,
        })
      }))

    test('never allows more than rate and bucket, and always allows a request after its retry_after', (counters, store) =>
      property(
        fc.record({
          rate: fc.integer({ min: 1, max: 12 }),
          steps: fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 1500 })), { maxLength: 40 }),
        }),
        ({ rate, steps }, run) =>
          Effect.gen(function* () {
            const passed: Array<number> = []
            for (const step of steps) {
              yield* store.advance(step)
              const verdict = yield* counters.takeToken(`key ${run}`, rate)
              const now = yield* store.now
              if (verdict.allowed) passed.push(now)
              else {
                yield* store.advance(verdict.retryAfterSeconds * 1000)
                assert.isTrue((yield* counters.takeToken(`key ${run}`, rate)).allowed, 'the promised retry')
                passed.push(yield* store.now)
              }
            }
            passed.forEach((from, i) => {
              passed.slice(i).forEach((to, more) => {
                assert.isAtMost(more + 1, rate * (1 + (to - from) / 1000) + 0.000_001, 'in a window')
              })
            })
          }),
      ))
  })

  describe(`${name}: failed-login gate`, () => {
    const fail = (counters: CountersShape, address: string, times: number) =>
      Effect.forEach(
        Array.from({ length: times }),
        () => counters.failedLogins.end(address, 'attempt', 'failed'),
        {
          discard: true,
        },
      )

    // Rules: AUTH-8, AUTH-9, AUTH-10
    test('closes after the 21st failure, until one of the 21 is a minute old', (counters, store) =>
      Effect.gen(function* () {
        const { check } = counters.failedLogins
        assert.deepStrictEqual(yield* check('192.0.2.1'), { allowed: true })
        yield* fail(counters, '192.0.2.1', 1)
        yield* store.advance(10_000)
        yield* fail(counters, '192.0.2.1', 19)
        assert.deepStrictEqual(yield* check('192.0.2.1'), { allowed: true })
        yield* fail(counters, '192.0.2.1', 1)
        assert.deepStrictEqual(yield* check('192.0.2.1'), { allowed: false, retryAfterSeconds: 50 })
        assert.deepStrictEqual(yield* check('192.0.2.2'), { allowed: true })
        // A check does not extend the time.
        yield* store.advance(49_999)
        assert.deepStrictEqual(yield* check('192.0.2.1'), { allowed: false, retryAfterSeconds: 1 })
        yield* store.advance(1)
        assert.deepStrictEqual(yield* check('192.0.2.1'), { allowed: true })
        // Twenty failures are left in the window: one more closes the gate again.
        yield* fail(counters, '192.0.2.1', 1)
        assert.deepStrictEqual(yield* check('192.0.2.1'), { allowed: false, retryAfterSeconds: 10 })
      }))

    test('admits only as many attempts at once as may still fail', (counters, store) =>
      Effect.gen(function* () {
        const { begin, end } = counters.failedLogins
        const beginAll = (count: number, name: string) =>
          Effect.forEach(
            Array.from({ length: count }, (_, index) => `${name}-${index}`),
            (attempt) => begin('192.0.2.1', attempt),
            { concurrency: 'unbounded' },
          )
        yield* fail(counters, '192.0.2.1', 11)
        const kinds = (yield* beginAll(30, 'a')).map(({ kind }) => kind)
        assert.strictEqual(kinds.filter((kind) => kind === 'begun').length, 10)
        assert.strictEqual(kinds.filter((kind) => kind === 'waiting').length, 20)
        // An attempt in progress does not close the gate, and an undone one makes room.
        assert.deepStrictEqual(yield* counters.failedLogins.check('192.0.2.1'), { allowed: true })
        const first = kinds.indexOf('begun')
        yield* end('192.0.2.1', `a-${first}`, 'undone')
        assert.deepStrictEqual(yield* begin('192.0.2.1', 'b'), { kind: 'begun' })
        assert.deepStrictEqual(yield* begin('192.0.2.1', 'c'), { kind: 'waiting' })
        // The attempts of a process that has crashed are undone when their lease ends.
        yield* store.advance(ATTEMPT_LEASE_MS)
        assert.deepStrictEqual(yield* begin('192.0.2.1', 'c'), { kind: 'begun' })
        yield* fail(counters, '192.0.2.1', 10)
        assert.deepStrictEqual(yield* begin('192.0.2.1', 'd'), { kind: 'closed', retryAfterSeconds: 55 })
        assert.deepStrictEqual(yield* begin('192.0.2.2', 'd'), { kind: 'begun' })
      }))

    // Rules: AUTH-12
    test('counts a /64 as one client, and an IPv4-mapped address as IPv4', (counters) =>
      Effect.gen(function* () {
        yield* fail(counters, '2001:db8::1', 11)
        yield* fail(counters, '2001:db8::2:3', 10)
        assert.isFalse((yield* counters.failedLogins.check('2001:db8::ffff')).allowed)
        assert.isTrue((yield* counters.failedLogins.check('2001:db8:0:1::1')).allowed)
        yield* fail(counters, '::ffff:192.0.2.9', 21)
        assert.isFalse((yield* counters.failedLogins.check('192.0.2.9')).allowed)
      }))

    // Rules: AUTH-8, AUTH-10
    test('agrees with a count of all failures of the last minute', (counters, store) =>
      property(fc.array(fc.integer({ min: 0, max: 6000 }), { maxLength: 60 }), (steps, run) =>
        Effect.gen(function* () {
          const address = `10.0.0.${run}`
          const failed: Array<number> = []
          for (const step of steps) {
            yield* store.advance(step)
            const now = yield* store.now
            const closed = failed.filter((at) => at > now - MINUTE).length > 20
            const verdict = yield* counters.failedLogins.check(address)
            assert.strictEqual(verdict.allowed, !closed)
            if (verdict.allowed) {
              failed.push(now)
              yield* counters.failedLogins.end(address, 'attempt', 'failed')
            }
          }
        }),
      ))
  })

  describe(`${name}: flood windows`, () => {
    // Rules: LIM-6, LIM-7
    ready(
      'return the first exceeded window, and the time until all windows allow a send',
      (counters, store) =>
        Effect.gen(function* () {
          const send = Effect.gen(function* () {
            const item = floodRequest()
            const [verdict] = yield* counters.reserveFlood([item])
            if (verdict?.reserved === true) yield* counters.confirmFlood([{ ...item, at: yield* store.now }])
            return verdict
          })
          assert.deepStrictEqual(yield* counters.reserveFlood([]), [])
          assert.deepStrictEqual(yield* send, RESERVED)
          assert.deepStrictEqual(yield* send, refused('pause', 60))
          yield* store.advance(59_999)
          assert.deepStrictEqual(yield* send, refused('pause', 1))
          yield* store.advance(1)
          assert.deepStrictEqual(yield* send, RESERVED)
        }),
    )

    ready('count the hour and the day, and the longer wait counts', (counters, store) =>
      Effect.gen(function* () {
        const send = Effect.gen(function* () {
          const item = floodRequest()
          const [verdict] = yield* counters.reserveFlood([item])
          if (verdict?.reserved === true) yield* counters.confirmFlood([{ ...item, at: yield* store.now }])
          return verdict
        })
        // Five messages in five minutes.
        for (let i = 0; i < 5; i++) {
          assert.deepStrictEqual(yield* send, RESERVED)
          yield* store.advance(MINUTE)
        }
        assert.deepStrictEqual(yield* send, refused('hour', 55 * 60))
        yield* store.advance(55 * MINUTE - 1000)
        assert.deepStrictEqual(yield* send, refused('hour', 1))
        yield* store.advance(1000)
        assert.deepStrictEqual(yield* send, RESERVED)
        // The pause is the first exceeded window. The hour has room again.
        assert.deepStrictEqual(yield* send, refused('pause', 60))
        yield* store.advance(30_000)
        // Twenty messages in the day: fourteen more, one per hour.
        for (let i = 0; i < 14; i++) {
          yield* store.advance(HOUR)
          assert.deepStrictEqual(yield* send, RESERVED)
        }
        yield* store.advance(HOUR)
        const first = 60 * MINUTE + 30_000 + 15 * HOUR
        assert.deepStrictEqual(yield* send, refused('day', (DAY - first) / 1000))
        yield* store.advance(DAY - first)
        assert.deepStrictEqual(yield* send, RESERVED)
      }),
    )

    // Source: LIM-7, LIM-8: it names the first full window, and a retry is for when the window ends.
    ready('return the first exceeded window with its own wait, which the others may exceed', (counters) =>
      Effect.gen(function* () {
        const once = { pauseSeconds: 60, perHour: 1, perDay: null }
        const [, second] = yield* counters.reserveFlood([
          floodRequest({ windows: once }),
          floodRequest({ windows: once }),
        ])
        assert.deepStrictEqual(second, refused('pause', 60))
        const daily = { pauseSeconds: 0, perHour: null, perDay: 1 }
        const [third] = yield* counters.reserveFlood([floodRequest({ windows: daily })])
        assert.deepStrictEqual(third, refused('day', 86_400))
        const never = { pauseSeconds: 0, perHour: 0, perDay: null }
        const [fourth] = yield* counters.reserveFlood([floodRequest({ recipient: hash(2), windows: never })])
        assert.deepStrictEqual(fourth, refused('hour', 3600))
        const open = { pauseSeconds: 0, perHour: null, perDay: null }
        const all = yield* counters.reserveFlood(
          Array.from({ length: 50 }, () => floodRequest({ windows: open })),
        )
        assert.isTrue(all.every(({ reserved }) => reserved))
      }),
    )

    ready('are separate for each recipient, account and mode', (counters) =>
      Effect.gen(function* () {
        const verdicts = yield* counters.reserveFlood([
          floodRequest(),
          floodRequest({ recipient: hash(2) }),
          floodRequest({ account: 'acc_2' }),
          floodRequest({ mode: 'test' }),
          floodRequest({ account: 'acc_2' }),
          floodRequest({ recipient: hash(2) }),
        ])
        assert.deepStrictEqual(verdicts, [
          RESERVED,
          RESERVED,
          RESERVED,
          RESERVED,
          refused('pause', 60),
          refused('pause', 60),
        ])
      }),
    )

    ready('return a thousand verdicts in the order of the requests', (counters) =>
      Effect.gen(function* () {
        const items = Array.from({ length: 1000 }, (_, i) =>
          floodRequest({ recipient: hash(i % 700), account: `acc_${i % 7}` }),
        )
        const verdicts = yield* counters.reserveFlood(items)
        assert.deepStrictEqual(
          verdicts,
          items.map((_, i) => (i < 700 ? RESERVED : refused('pause', 60))),
        )
      }),
    )

    ready('reserve once for a repeated request', (counters, store) =>
      Effect.gen(function* () {
        const item = floodRequest()
        assert.deepStrictEqual(yield* counters.reserveFlood([item, item]), [RESERVED, RESERVED])
        yield* store.advance(10_000)
        assert.deepStrictEqual(yield* counters.reserveFlood([item]), [RESERVED])
        // It has the time of the last request.
        assert.deepStrictEqual(yield* counters.reserveFlood([floodRequest()]), [refused('pause', 60)])
        yield* counters.confirmFlood([{ ...item, at: yield* store.now }])
        yield* store.advance(10_000)
        assert.deepStrictEqual(yield* counters.reserveFlood([item]), [RESERVED])
        // A confirmed one keeps its time.
        assert.deepStrictEqual(yield* counters.reserveFlood([floodRequest()]), [refused('pause', 50)])
      }),
    )

    ready('refuse the repeat of a failed send after another message was accepted', (counters, store) =>
      Effect.gen(function* () {
        const windows = { ...DEFAULTS, pauseSeconds: 5 }
        const [failed, other] = [floodRequest({ windows }), floodRequest({ windows })]
        yield* counters.reserveFlood([failed])
        yield* store.advance(6000)
        assert.deepStrictEqual(yield* counters.reserveFlood([other]), [RESERVED])
        assert.deepStrictEqual(yield* counters.reserveFlood([failed]), [refused('pause', 5)])
        yield* store.advance(5000)
        assert.deepStrictEqual(yield* counters.reserveFlood([failed]), [RESERVED])
      }),
    )

    ready('are free again after a release, which is idempotent', (counters, store) =>
      Effect.gen(function* () {
        const [first, second, late] = [floodRequest(), floodRequest(), floodRequest()]
        yield* counters.reserveFlood([first])
        yield* counters.releaseFlood([])
        yield* counters.releaseFlood([second])
        assert.deepStrictEqual(yield* counters.reserveFlood([second]), [refused('pause', 60)])
        yield* counters.releaseFlood([first, first])
        yield* counters.releaseFlood([first])
        assert.deepStrictEqual(yield* counters.reserveFlood([second]), [RESERVED])
        // A confirmed reservation can be released too.
        yield* counters.confirmFlood([{ ...second, at: yield* store.now }])
        yield* counters.releaseFlood([second])
        assert.deepStrictEqual(yield* counters.reserveFlood([late]), [RESERVED])
        // A message that is accepted after its release counts.
        yield* counters.releaseFlood([late])
        yield* counters.confirmFlood([{ ...late, at: yield* store.now }])
        assert.deepStrictEqual(yield* counters.reserveFlood([first]), [refused('pause', 60)])
      }),
    )

    ready('expire unless they are confirmed', (counters, store) =>
      Effect.gen(function* () {
        const [lost, kept] = [floodRequest(), floodRequest({ recipient: hash(2) })]
        yield* counters.reserveFlood([lost, kept])
        yield* counters.confirmFlood([{ ...kept, at: yield* store.now }])
        yield* store.advance(RESERVATION_LEASE_MS - 1)
        assert.deepStrictEqual(yield* counters.reserveFlood([floodRequest()]), [refused('pause', 41)])
        yield* store.advance(1)
        const after = yield* counters.reserveFlood([floodRequest(), floodRequest({ recipient: hash(2) })])
        assert.deepStrictEqual(after, [RESERVED, refused('pause', 40)])
      }),
    )

    ready('keep a reservation whose request is repeated before it expires', (counters, store) =>
      Effect.gen(function* () {
        const item = floodRequest()
        yield* counters.reserveFlood([item])
        yield* store.advance(RESERVATION_LEASE_MS - 1)
        yield* counters.reserveFlood([item])
        yield* store.advance(RESERVATION_LEASE_MS - 1)
        const other = floodRequest({ windows: { ...DEFAULTS, pauseSeconds: 300 } })
        assert.deepStrictEqual(yield* counters.reserveFlood([other]), [refused('pause', 281)])
      }),
    )

    ready('count a message that is confirmed after its reservation has expired', (counters, store) =>
      Effect.gen(function* () {
        const item = floodRequest()
        const at = yield* store.now
        yield* counters.reserveFlood([item])
        yield* store.advance(RESERVATION_LEASE_MS + 5000)
        // Another call has removed the expired reservation meanwhile.
        yield* counters.reserveFlood([floodRequest({ recipient: hash(2) })])
        yield* counters.confirmFlood([{ ...item, at }])
        assert.deepStrictEqual(yield* counters.reserveFlood([floodRequest()]), [refused('pause', 35)])
      }),
    )

    ready('count a message without a reservation once', (counters, store) =>
      Effect.gen(function* () {
        const now = yield* store.now
        const passed = Array.from({ length: 5 }, (_, i) => ({ ...floodRequest(), at: now - i * 10_000 }))
        yield* counters.confirmFlood(passed)
        // A second confirmation with another time has no effect.
        yield* counters.confirmFlood(passed.slice(0, 3).map((one) => ({ ...one, at: now + 5000 })))
        yield* counters.confirmFlood([])
        assert.deepStrictEqual(yield* counters.reserveFlood([floodRequest()]), [refused('pause', 60)])
        yield* counters.releaseFlood(passed.slice(0, 1))
        yield* store.advance(50_000)
        const [verdict] = yield* counters.reserveFlood([
          floodRequest({ windows: { ...DEFAULTS, perHour: 4 } }),
        ])
        assert.deepStrictEqual(verdict, refused('hour', 3510))
        assert.deepStrictEqual(yield* counters.reserveFlood([floodRequest()]), [RESERVED])
      }),
    )

    ready('are exact with many messages', (counters, store) =>
      Effect.gen(function* () {
        const wide: FloodWindows = { pauseSeconds: 0, perHour: 60, perDay: 100 }
        const send = Effect.gen(function* () {
          const item = floodRequest({ windows: wide })
          const [verdict] = yield* counters.reserveFlood([item])
          return { item, verdict }
        })
        const reserved: Array<FloodReservation> = []
        for (let i = 0; i < 60; i++) {
          const { item, verdict } = yield* send
          assert.deepStrictEqual(verdict, RESERVED)
          yield* counters.confirmFlood([{ ...item, at: yield* store.now }])
          reserved.push(item)
          yield* store.advance(1000)
        }
        assert.deepStrictEqual((yield* send).verdict, refused('hour', 3540))
        // The oldest reservation is found too.
        const first = { ...reserved[0]!, windows: wide }
        assert.deepStrictEqual(yield* counters.reserveFlood([first]), [RESERVED])
        yield* store.advance(HOUR)
        const more = yield* counters.reserveFlood(
          Array.from({ length: 41 }, () => floodRequest({ windows: wide })),
        )
        assert.strictEqual(more.filter((verdict) => verdict.reserved).length, 40)
        assert.deepStrictEqual(more.at(-1), refused('day', (DAY - HOUR - MINUTE) / 1000))
      }),
    )

    ready('count a pause of more than a day as a day', (counters, store) =>
      Effect.gen(function* () {
        const item = floodRequest({ windows: { ...DEFAULTS, pauseSeconds: 200_000 } })
        yield* counters.reserveFlood([item])
        yield* counters.confirmFlood([{ ...item, at: yield* store.now }])
        const again = { ...item, reservationId: freshId() }
        assert.deepStrictEqual(yield* counters.reserveFlood([again]), [refused('pause', 86_400)])
        yield* store.advance(DAY)
        assert.deepStrictEqual(yield* counters.reserveFlood([again]), [RESERVED])
      }),
    )

    ready('allow exactly the limit of 500 concurrent requests', (counters) =>
      Effect.gen(function* () {
        const verdicts = yield* Effect.all(
          Array.from({ length: 500 }, () => counters.reserveFlood([floodRequest({ windows: NO_PAUSE })])),
          { concurrency: 'unbounded' },
        )
        assert.strictEqual(verdicts.flat().filter((verdict) => verdict.reserved).length, 5)
      }),
    )

    ready('never contain more than the limit, and end after their retry_after', (counters, store) =>
      property(
        fc.record({
          pauseSeconds: fc.constantFrom(0, 60, 900),
          perHour: fc.option(fc.integer({ min: 1, max: 6 })),
          perDay: fc.option(fc.integer({ min: 1, max: 9 })),
          steps: fc.array(
            fc.record({
              wait: fc.oneof(fc.integer({ min: 0, max: 2 * MINUTE }), fc.integer({ min: 0, max: 6 * HOUR })),
              number: fc.integer({ min: 0, max: 1 }),
              patient: fc.boolean(),
            }),
            { maxLength: 30 },
          ),
        }),
        ({ steps, ...windows }, run) =>
          Effect.gen(function* () {
            const sent = new Map<string, Array<number>>()
            const send = (recipient: string) =>
              Effect.gen(function* () {
                const item = floodRequest({ recipient, windows })
                const [verdict] = yield* counters.reserveFlood([item])
                if (verdict?.reserved === true) {
                  const now = yield* store.now
                  yield* counters.confirmFlood([{ ...item, at: now }])
                  sent.set(recipient, [...(sent.get(recipient) ?? []), now])
                }
                return verdict!
              })
            for (const { number, patient, wait } of steps) {
              yield* store.advance(wait)
              const recipient = hash(1000 + run * 2 + number)
              let verdict = yield* send(recipient)
              if (!patient) continue
              // After the wait, only a later window can still refuse.
              while (!verdict.reserved) {
                const { retryAfterSeconds, window } = verdict
                yield* store.advance((retryAfterSeconds - 1) * 1000)
                const early = yield* send(recipient)
                // One second earlier is too early, except for the rounding of the wait.
                if (early.reserved) break
                if (early.window === window) {
                  assert.strictEqual(early.retryAfterSeconds, 1)
                  yield* store.advance(1000)
                }
                verdict = yield* send(recipient)
                if (!verdict.reserved) {
                  assert.isAbove(WINDOW_NAMES.indexOf(verdict.window), WINDOW_NAMES.indexOf(window))
                }
              }
            }
            const within = (times: ReadonlyArray<number>, end: number, length: number) =>
              times.filter((at) => at <= end && at > end - length).length
            for (const times of sent.values()) {
              for (const end of times) {
                if (windows.pauseSeconds > 0)
                  assert.isAtMost(within(times, end, windows.pauseSeconds * 1000), 1)
                if (windows.perHour !== null) assert.isAtMost(within(times, end, HOUR), windows.perHour)
                if (windows.perDay !== null) assert.isAtMost(within(times, end, DAY), windows.perDay)
              }
            }
          }),
      ),
    )

    ready(
      'agree with a list of reserved, released, confirmed and expired reservations',
      (counters, store) => {
        const step = fc.oneof(
          { weight: 4, arbitrary: fc.record({ kind: fc.constant('reserve' as const), id: fc.nat(5) }) },
          { weight: 1, arbitrary: fc.record({ kind: fc.constant('release' as const), id: fc.nat(5) }) },
          { weight: 2, arbitrary: fc.record({ kind: fc.constant('confirm' as const), id: fc.nat(5) }) },
          {
            weight: 2,
            arbitrary: fc.record({
              kind: fc.constant('wait' as const),
              id: fc.constantFrom(1000, 19_999, 20_000, 45_000, 30 * MINUTE, 8 * HOUR),
            }),
          },
        )
        const windows: FloodWindows = { pauseSeconds: 30, perHour: 2, perDay: 3 }
        return property(fc.array(step, { maxLength: 60 }), (steps, run) =>
          Effect.gen(function* () {
            interface Known {
              readonly id: number
              readonly at: number
              readonly until: number
            }
            let known: ReadonlyArray<Known> = []
            const item = (id: number) =>
              floodRequest({
                recipient: hash(5000 + run),
                account: `acc_${run}`,
                reservationId: `msg_${run}_${id}`,
                windows,
              })
            for (const { id, kind } of steps) {
              const now = yield* store.now
              if (kind === 'wait') {
                yield* store.advance(id)
              } else if (kind === 'release') {
                yield* counters.releaseFlood([item(id)])
                known = known.filter((one) => one.id !== id)
              } else if (kind === 'confirm') {
                yield* counters.confirmFlood([{ ...item(id), at: now }])
                const one = known.find((each) => each.id === id) ?? { id, at: now, until: Infinity }
                known = [...known.filter((each) => each.id !== id), { ...one, until: Infinity }]
              } else {
                known = known.filter(({ until }) => until > now)
                const confirmed = known.find((one) => one.id === id && one.until === Infinity)
                if (confirmed === undefined) known = known.filter((one) => one.id !== id)
                const newer = (length: number) => known.filter(({ at }) => at > now - length).length
                const expected =
                  confirmed !== undefined
                    ? 'reserved'
                    : newer(30_000) >= 1
                      ? 'pause'
                      : newer(HOUR) >= 2
                        ? 'hour'
                        : newer(DAY) >= 3
                          ? 'day'
                          : 'reserved'
                const [verdict] = yield* counters.reserveFlood([item(id)])
                assert.strictEqual(verdict?.reserved === false ? verdict.window : 'reserved', expected)
                if (expected === 'reserved' && confirmed === undefined) {
                  known = [...known, { id, at: now, until: now + RESERVATION_LEASE_MS }]
                }
              }
            }
          }),
        )
      },
    )
  })

  describe(`${name}: daily count`, () => {
    // Rules: LIM-20
    test('stops the day whose limit is reached, and no other day', (counters) =>
      Effect.gen(function* () {
        const { count, raise, stopped } = counters.daily
        assert.isFalse(yield* stopped('2026-11-21', 1))
        assert.strictEqual(yield* count('2026-11-21', 999), 999)
        assert.isFalse(yield* stopped('2026-11-21', 1000))
        // A batch that was allowed is counted as a whole.
        assert.strictEqual(yield* count('2026-11-21', 500), 1499)
        assert.isTrue(yield* stopped('2026-11-21', 1000))
        assert.isFalse(yield* stopped('2026-11-22', 1000))
        // A higher limit allows messages again.
        assert.isFalse(yield* stopped('2026-11-21', 1500))
        yield* raise('2026-11-21', 1400)
        assert.strictEqual(yield* count('2026-11-21', 0), 1499)
        yield* raise('2026-11-21', 1500)
        yield* raise('2026-11-21', 1500)
        assert.isTrue(yield* stopped('2026-11-21', 1500))
        // A limit of 0 allows nothing.
        assert.isTrue(yield* stopped('2026-11-22', 0))
      }))

    test('loses no concurrent count', (counters) =>
      Effect.gen(function* () {
        yield* Effect.all(
          Array.from({ length: 200 }, () => counters.daily.count('2026-11-21', 3)),
          { concurrency: 'unbounded' },
        )
        assert.strictEqual(yield* counters.daily.count('2026-11-21', 0), 600)
      }))
  })

  describe(`${name}: generation`, () => {
    test('an empty store makes no reservations until it is rebuilt from acceptances', (counters, store) =>
      Effect.gen(function* () {
        assert.strictEqual(yield* counters.generation.state, 'empty')
        assert.strictEqual(reasonOf(yield* Effect.exit(counters.reserveFlood([floodRequest()]))), 'empty')
        const now = yield* store.now
        const accepted = Array.from({ length: 3000 }, (_, i) => ({
          ...floodRequest({ recipient: hash(i % 1000), account: `acc_${i % 3}` }),
          at: now - (i % 5) * 10_000,
        }))
        const outcome = yield* counters.generation.rebuild(Stream.fromIterable(accepted))
        assert.strictEqual(outcome, 'rebuilt')
        assert.strictEqual(yield* counters.generation.state, 'ready')
        const again = yield* counters.reserveFlood([
          floodRequest({ recipient: hash(0), account: 'acc_0' }),
          floodRequest({ recipient: hash(999), account: 'acc_0' }),
          floodRequest({ recipient: hash(1000), account: 'acc_0' }),
          { ...accepted[1]!, windows: DEFAULTS },
        ])
        assert.deepStrictEqual(again, [refused('pause', 60), refused('pause', 20), RESERVED, RESERVED])
      }))

    ready('a store that has lost its data is empty again', (counters, store) =>
      Effect.gen(function* () {
        yield* counters.reserveFlood([floodRequest()])
        yield* store.empty
        assert.strictEqual(reasonOf(yield* Effect.exit(counters.reserveFlood([floodRequest()]))), 'empty')
        assert.strictEqual(yield* counters.generation.state, 'empty')
        // Release and confirmation need no complete windows. Request rate and failed-login gate
        // start again.
        yield* counters.releaseFlood([floodRequest()])
        yield* counters.confirmFlood([{ ...floodRequest(), at: yield* store.now }])
        assert.isTrue((yield* counters.takeToken('key', 1)).allowed)
        assert.isTrue((yield* counters.failedLogins.check('192.0.2.1')).allowed)
        assert.strictEqual(yield* counters.generation.rebuild(Stream.empty), 'rebuilt')
        assert.deepStrictEqual(yield* counters.reserveFlood([floodRequest()]), [refused('pause', 60)])
      }),
    )

    ready('a rebuild of a ready store does not run the stream', (counters) =>
      Effect.gen(function* () {
        const outcome = yield* counters.generation.rebuild(Stream.die('must not run'))
        assert.strictEqual(outcome, 'ready')
      }),
    )

    test('one process rebuilds at a time, and the others see that', (counters, store) =>
      Effect.gen(function* () {
        const [reading, continued] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        const slow = Stream.fromEffect(
          Deferred.succeed(reading, undefined).pipe(
            Effect.andThen(Deferred.await(continued)),
            Effect.andThen(store.now),
            Effect.map((now) => ({ ...floodRequest(), at: now })),
          ),
        )
        const first = yield* Effect.forkChild(counters.generation.rebuild(slow))
        yield* Deferred.await(reading)
        assert.strictEqual(yield* counters.generation.state, 'rebuilding')
        assert.strictEqual(yield* counters.generation.rebuild(Stream.die('must not run')), 'elsewhere')
        assert.strictEqual(reasonOf(yield* Effect.exit(counters.reserveFlood([floodRequest()]))), 'empty')
        yield* Deferred.succeed(continued, undefined)
        assert.strictEqual(yield* Fiber.join(first), 'rebuilt')
        assert.deepStrictEqual(yield* counters.reserveFlood([floodRequest()]), [refused('pause', 60)])
      }))

    test('a rebuild does not make a store ready that was emptied meanwhile', (counters, store) =>
      Effect.gen(function* () {
        const outcome = yield* counters.generation.rebuild(Stream.fromEffectDrain(store.empty))
        assert.strictEqual(outcome, 'elsewhere')
        assert.strictEqual(yield* counters.generation.state, 'empty')
        assert.strictEqual(yield* counters.generation.rebuild(Stream.empty), 'rebuilt')
      }))

    test('a rebuild fails with its source, and the next one can start', (counters) =>
      Effect.gen(function* () {
        const exit = yield* Effect.exit(counters.generation.rebuild(Stream.fail(new SourceFailed())))
        assert.isTrue(Exit.isFailure(exit))
        assert.strictEqual(yield* counters.generation.state, 'empty')
        assert.strictEqual(yield* counters.generation.rebuild(Stream.empty), 'rebuilt')
      }))
  })

  describe(`${name}: outages`, () => {
    const everyCall = (counters: CountersShape): Record<string, Effect.Effect<unknown, unknown>> => ({
      takeToken: counters.takeToken('key', 1000),
      check: counters.failedLogins.check('192.0.2.1'),
      begin: counters.failedLogins.begin('192.0.2.1', 'attempt'),
      end: counters.failedLogins.end('192.0.2.1', 'attempt', 'failed'),
      reserveFlood: counters.reserveFlood([floodRequest()]),
      releaseFlood: counters.releaseFlood([floodRequest()]),
      stopped: counters.daily.stopped('2026-11-21', 1),
      count: counters.daily.count('2026-11-21', 1),
      raise: counters.daily.raise('2026-11-21', 1),
      ping: counters.ping,
      state: counters.generation.state,
      rebuild: counters.generation.rebuild(Stream.die('must not run')),
    })

    for (const [state, reasons] of [
      ['refusing', ['unreachable']],
      // After the first call, the adapter may already know that a new connection does not answer
      // either.
      ['hanging', ['timeout', 'unreachable']],
    ] as const) {
      ready(`every call fails while the store is ${state}, and succeeds afterwards`, (counters, store) =>
        Effect.gen(function* () {
          yield* store.set(state)
          for (const [call, effect] of Object.entries(everyCall(counters))) {
            assert.include(reasons, reasonOf(yield* Effect.exit(effect)), call)
          }
          yield* store.set('up')
          yield* soon(counters.generation.state)
          for (const [call, effect] of Object.entries(everyCall(counters))) {
            assert.isTrue(Exit.isSuccess(yield* Effect.exit(effect)), call)
          }
        }),
      )
    }

    ready('messages that are accepted meanwhile count afterwards', (counters, store) =>
      Effect.gen(function* () {
        const now = yield* store.now
        yield* store.set('refusing')
        const passed = Array.from({ length: 2500 }, (_, i) => ({
          ...floodRequest({ recipient: hash(i) }),
          at: now,
        }))
        yield* Effect.forEach(passed, (one) => counters.confirmFlood([one]), { discard: true })
        yield* store.set('up')
        const probe = Effect.fnUntraced(function* (one: FloodReservation) {
          const another = { ...one, reservationId: freshId(), windows: DEFAULTS }
          const [verdict] = yield* counters.reserveFlood([another])
          if (verdict?.reserved === false) return verdict
          // The acceptance is not written yet, and this reservation must not replace it.
          yield* counters.releaseFlood([another])
          return yield* Effect.fail('not written yet')
        })
        // The last acceptance: when it is written, all others are.
        assert.deepStrictEqual(yield* soon(probe(passed.at(-1)!)), refused('pause', 60))
        assert.deepStrictEqual(yield* probe(passed[0]!), refused('pause', 60))
      }),
    )
  })
}
