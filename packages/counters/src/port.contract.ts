/**
 * What every adapter of the port does. Run by `memory.unit.test.ts` and `redis.int.test.ts`; a new adapter joins by giving
 * `Counters` and a `TestCounters`.
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
import {
  Counters,
  type CountersShape,
  CountersUnavailable,
  type FloodReservation,
  type FloodRequest,
  type FloodVerdict,
  type FloodWindows,
  RESERVATION_LEASE_MS,
} from './port.ts'

/** What the suite needs of a store beside the port. It starts empty and with a time that stands still. */
export class TestCounters extends Context.Service<
  TestCounters,
  {
    readonly advance: (ms: number) => Effect.Effect<void>
    readonly now: Effect.Effect<number>
    readonly set: (state: CountersState) => Effect.Effect<void>
    /** Loses everything. */
    readonly empty: Effect.Effect<void>
  }
>()('@hub/counters/TestCounters') {}

class SourceBroke extends Data.TaggedError('SourceBroke')<{}> {}

const MINUTE = 60_000
const HOUR = 3_600_000
const DAY = 86_400_000

const DEFAULTS: FloodWindows = { pauseSeconds: 60, perHour: 5, perDay: 20 }
const NO_PAUSE: FloodWindows = { pauseSeconds: 0, perHour: 5, perDay: 20 }

const hash = (n: number): string => n.toString(16).padStart(64, '0')
let ids = 0
const freshId = (): string => `msg_${String(ids++).padStart(26, '0')}`

const message = (over: Partial<FloodRequest> = {}): FloodRequest => ({
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

/** Runs often enough to find what is wrong, seldom enough for a real server. */
const RUNS = { numRuns: 40 }

/** The suite. `adapter` gives a fresh store to every test. */
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

  /** A test of a store that is ready. */
  const ready: typeof test = (title, body) =>
    test(title, (counters, store) =>
      Effect.gen(function* () {
        assert.strictEqual(yield* counters.generation.rebuild(Stream.empty), 'rebuilt')
        yield* body(counters, store)
      }),
    )

  /** A property whose runs are effects; each run gets a number, to keep its keys apart from those of the others. */
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

  /** After an outage: as soon as the adapter has noticed. */
  const soon = <A, E>(effect: Effect.Effect<A, E>) =>
    effect.pipe(
      Effect.retry(Schedule.spaced('20 millis')),
      Effect.timeoutOrElse({
        duration: '20 seconds',
        orElse: () => Effect.die('the store did not come back within 20 s'),
      }),
    )

  describe(`${name}: request rate`, () => {
    test('gives a full bucket at once, then one token at a time', (counters, store) =>
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
        // Refused requests cost nothing: 249 ms later there is still none, 1 ms later there is one.
        yield* store.advance(249)
        assert.isFalse((yield* counters.takeToken('key', 4)).allowed)
        yield* store.advance(1)
        assert.isTrue((yield* counters.takeToken('key', 4)).allowed)
        assert.isFalse((yield* counters.takeToken('key', 4)).allowed)
        yield* store.advance(10_000)
        assert.strictEqual((yield* counters.takeToken('key', 4)).remaining, 3)
      }))

    test('keeps keys apart, and holds 500 at once to the bucket', (counters) =>
      Effect.gen(function* () {
        const all = yield* Effect.all(
          Array.from({ length: 500 }, () => counters.takeToken('one', 100)),
          { concurrency: 'unbounded' },
        )
        assert.strictEqual(all.filter(({ allowed }) => allowed).length, 100)
        assert.isTrue((yield* counters.takeToken('other', 100)).allowed)
      }))

    test('follows a rate that changes, and has an answer to any rate', (counters, store) =>
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

    test('never lets more through than rate and bucket allow, and always lets through what it promised', (counters, store) =>
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
      Effect.forEach(Array.from({ length: times }), () => counters.failedLogins.record(address), {
        discard: true,
      })

    test('shuts at the attempt after the 21st failure, until one of them is a minute old', (counters, store) =>
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
        // Looking does not extend it.
        yield* store.advance(49_999)
        assert.deepStrictEqual(yield* check('192.0.2.1'), { allowed: false, retryAfterSeconds: 1 })
        yield* store.advance(1)
        assert.deepStrictEqual(yield* check('192.0.2.1'), { allowed: true })
        // Twenty are left in the window: one more shuts it again.
        yield* fail(counters, '192.0.2.1', 1)
        assert.deepStrictEqual(yield* check('192.0.2.1'), { allowed: false, retryAfterSeconds: 10 })
      }))

    test('counts a /64 as one client, and a mapped address as IPv4', (counters) =>
      Effect.gen(function* () {
        yield* fail(counters, '2001:db8::1', 11)
        yield* fail(counters, '2001:db8::2:3', 10)
        assert.isFalse((yield* counters.failedLogins.check('2001:db8::ffff')).allowed)
        assert.isTrue((yield* counters.failedLogins.check('2001:db8:0:1::1')).allowed)
        yield* fail(counters, '::ffff:192.0.2.9', 21)
        assert.isFalse((yield* counters.failedLogins.check('192.0.2.9')).allowed)
      }))

    test('agrees with counting all failures of the last minute', (counters, store) =>
      property(fc.array(fc.integer({ min: 0, max: 6000 }), { maxLength: 60 }), (steps, run) =>
        Effect.gen(function* () {
          const address = `10.0.0.${run}`
          const failed: Array<number> = []
          for (const step of steps) {
            yield* store.advance(step)
            const now = yield* store.now
            const shut = failed.filter((at) => at > now - MINUTE).length > 20
            const verdict = yield* counters.failedLogins.check(address)
            assert.strictEqual(verdict.allowed, !shut)
            if (verdict.allowed) {
              failed.push(now)
              yield* counters.failedLogins.record(address)
            }
          }
        }),
      ))
  })

  describe(`${name}: flood windows`, () => {
    ready('name the first that trips and when a send would pass all of them', (counters, store) =>
      Effect.gen(function* () {
        const send = Effect.gen(function* () {
          const item = message()
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

    ready('count the hour and the day, whichever is longer decides the wait', (counters, store) =>
      Effect.gen(function* () {
        const send = Effect.gen(function* () {
          const item = message()
          const [verdict] = yield* counters.reserveFlood([item])
          if (verdict?.reserved === true) yield* counters.confirmFlood([{ ...item, at: yield* store.now }])
          return verdict
        })
        // Five in five minutes.
        for (let i = 0; i < 5; i++) {
          assert.deepStrictEqual(yield* send, RESERVED)
          yield* store.advance(MINUTE)
        }
        assert.deepStrictEqual(yield* send, refused('hour', 55 * 60))
        yield* store.advance(55 * MINUTE - 1000)
        assert.deepStrictEqual(yield* send, refused('hour', 1))
        yield* store.advance(1000)
        assert.deepStrictEqual(yield* send, RESERVED)
        // The pause trips first and names itself; the hour decides how long.
        assert.deepStrictEqual(yield* send, refused('pause', 60))
        yield* store.advance(30_000)
        // Twenty in the day: fourteen more, one an hour.
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

    ready('say the longest wait under the name of the first window', (counters) =>
      Effect.gen(function* () {
        const once = { pauseSeconds: 60, perHour: 1, perDay: null }
        const [, second] = yield* counters.reserveFlood([
          message({ windows: once }),
          message({ windows: once }),
        ])
        assert.deepStrictEqual(second, refused('pause', 3600))
        const daily = { pauseSeconds: 0, perHour: null, perDay: 1 }
        const [third] = yield* counters.reserveFlood([message({ windows: daily })])
        assert.deepStrictEqual(third, refused('day', 86_400))
        const never = { pauseSeconds: 0, perHour: 0, perDay: null }
        const [fourth] = yield* counters.reserveFlood([message({ recipient: hash(2), windows: never })])
        assert.deepStrictEqual(fourth, refused('hour', 3600))
        const open = { pauseSeconds: 0, perHour: null, perDay: null }
        const all = yield* counters.reserveFlood(Array.from({ length: 50 }, () => message({ windows: open })))
        assert.isTrue(all.every(({ reserved }) => reserved))
      }),
    )

    ready('are apart for each number, account and mode', (counters) =>
      Effect.gen(function* () {
        const verdicts = yield* counters.reserveFlood([
          message(),
          message({ recipient: hash(2) }),
          message({ account: 'acc_2' }),
          message({ mode: 'test' }),
          message({ account: 'acc_2' }),
          message({ recipient: hash(2) }),
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

    ready('answer a thousand at once, each in its place', (counters) =>
      Effect.gen(function* () {
        const items = Array.from({ length: 1000 }, (_, i) =>
          message({ recipient: hash(i % 700), account: `acc_${i % 7}` }),
        )
        const verdicts = yield* counters.reserveFlood(items)
        assert.deepStrictEqual(
          verdicts,
          items.map((_, i) => (i < 700 ? RESERVED : refused('pause', 60))),
        )
      }),
    )

    ready('take a message once, however often it asks', (counters, store) =>
      Effect.gen(function* () {
        const item = message()
        assert.deepStrictEqual(yield* counters.reserveFlood([item, item]), [RESERVED, RESERVED])
        yield* store.advance(10_000)
        assert.deepStrictEqual(yield* counters.reserveFlood([item]), [RESERVED])
        // Its time is the first one.
        assert.deepStrictEqual(yield* counters.reserveFlood([message()]), [refused('pause', 50)])
      }),
    )

    ready('are given back by id, once or twice, and are free again', (counters, store) =>
      Effect.gen(function* () {
        const [first, second, late] = [message(), message(), message()]
        yield* counters.reserveFlood([first])
        yield* counters.releaseFlood([])
        yield* counters.releaseFlood([second])
        assert.deepStrictEqual(yield* counters.reserveFlood([second]), [refused('pause', 60)])
        yield* counters.releaseFlood([first, first])
        yield* counters.releaseFlood([first])
        assert.deepStrictEqual(yield* counters.reserveFlood([second]), [RESERVED])
        // What is final can be given back as well.
        yield* counters.confirmFlood([{ ...second, at: yield* store.now }])
        yield* counters.releaseFlood([second])
        assert.deepStrictEqual(yield* counters.reserveFlood([late]), [RESERVED])
        // One that was given back and then accepted after all counts as any other.
        yield* counters.releaseFlood([late])
        yield* counters.confirmFlood([{ ...late, at: yield* store.now }])
        assert.deepStrictEqual(yield* counters.reserveFlood([first]), [refused('pause', 60)])
      }),
    )

    ready('lapse unless they are recorded', (counters, store) =>
      Effect.gen(function* () {
        const [lost, kept] = [message(), message({ recipient: hash(2) })]
        yield* counters.reserveFlood([lost, kept])
        yield* counters.confirmFlood([{ ...kept, at: yield* store.now }])
        yield* store.advance(RESERVATION_LEASE_MS - 1)
        assert.deepStrictEqual(yield* counters.reserveFlood([message()]), [refused('pause', 41)])
        yield* store.advance(1)
        const after = yield* counters.reserveFlood([message(), message({ recipient: hash(2) })])
        assert.deepStrictEqual(after, [RESERVED, refused('pause', 40)])
      }),
    )

    ready('run anew for who asks again in time', (counters, store) =>
      Effect.gen(function* () {
        const item = message()
        yield* counters.reserveFlood([item])
        yield* store.advance(RESERVATION_LEASE_MS - 1)
        yield* counters.reserveFlood([item])
        yield* store.advance(RESERVATION_LEASE_MS - 1)
        const other = message({ windows: { ...DEFAULTS, pauseSeconds: 300 } })
        assert.deepStrictEqual(yield* counters.reserveFlood([other]), [refused('pause', 261)])
      }),
    )

    ready('keep what is recorded late, after its lease has ended', (counters, store) =>
      Effect.gen(function* () {
        const item = message()
        const at = yield* store.now
        yield* counters.reserveFlood([item])
        yield* store.advance(RESERVATION_LEASE_MS + 5000)
        // Somebody else's call has cleared it meanwhile.
        yield* counters.reserveFlood([message({ recipient: hash(2) })])
        yield* counters.confirmFlood([{ ...item, at }])
        assert.deepStrictEqual(yield* counters.reserveFlood([message()]), [refused('pause', 35)])
      }),
    )

    ready('count what was accepted without being asked, once', (counters, store) =>
      Effect.gen(function* () {
        const now = yield* store.now
        const passed = Array.from({ length: 5 }, (_, i) => ({ ...message(), at: now - i * 10_000 }))
        yield* counters.confirmFlood(passed)
        // Told again with another time, it keeps the first.
        yield* counters.confirmFlood(passed.slice(0, 3).map((one) => ({ ...one, at: now + 5000 })))
        yield* counters.confirmFlood([])
        assert.deepStrictEqual(yield* counters.reserveFlood([message()]), [refused('pause', 3560)])
        yield* counters.releaseFlood(passed.slice(0, 1))
        yield* store.advance(50_000)
        const [verdict] = yield* counters.reserveFlood([message({ windows: { ...DEFAULTS, perHour: 4 } })])
        assert.deepStrictEqual(verdict, refused('hour', 3510))
        assert.deepStrictEqual(yield* counters.reserveFlood([message()]), [RESERVED])
      }),
    )

    ready('stay right when there are many in them', (counters, store) =>
      Effect.gen(function* () {
        const wide: FloodWindows = { pauseSeconds: 0, perHour: 60, perDay: 100 }
        const send = Effect.gen(function* () {
          const item = message({ windows: wide })
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
        // The oldest is known as well as the newest.
        const first = { ...reserved[0]!, windows: wide }
        assert.deepStrictEqual(yield* counters.reserveFlood([first]), [RESERVED])
        yield* store.advance(HOUR)
        const more = yield* counters.reserveFlood(
          Array.from({ length: 41 }, () => message({ windows: wide })),
        )
        assert.strictEqual(more.filter((verdict) => verdict.reserved).length, 40)
        assert.deepStrictEqual(more.at(-1), refused('day', (DAY - HOUR - MINUTE) / 1000))
      }),
    )

    ready('count a pause of more than a day as a day', (counters, store) =>
      Effect.gen(function* () {
        const item = message({ windows: { ...DEFAULTS, pauseSeconds: 200_000 } })
        yield* counters.reserveFlood([item])
        yield* counters.confirmFlood([{ ...item, at: yield* store.now }])
        const again = { ...item, reservationId: freshId() }
        assert.deepStrictEqual(yield* counters.reserveFlood([again]), [refused('pause', 86_400)])
        yield* store.advance(DAY)
        assert.deepStrictEqual(yield* counters.reserveFlood([again]), [RESERVED])
      }),
    )

    ready('let exactly as many of 500 at once through as fit', (counters) =>
      Effect.gen(function* () {
        const verdicts = yield* Effect.all(
          Array.from({ length: 500 }, () => counters.reserveFlood([message({ windows: NO_PAUSE })])),
          { concurrency: 'unbounded' },
        )
        assert.strictEqual(verdicts.flat().filter((verdict) => verdict.reserved).length, 5)
      }),
    )

    ready(
      'never hold more than allowed at any moment, and keep their word about the wait',
      (counters, store) =>
        property(
          fc.record({
            pauseSeconds: fc.constantFrom(0, 60, 900),
            perHour: fc.option(fc.integer({ min: 1, max: 6 })),
            perDay: fc.option(fc.integer({ min: 1, max: 9 })),
            steps: fc.array(
              fc.record({
                wait: fc.oneof(
                  fc.integer({ min: 0, max: 2 * MINUTE }),
                  fc.integer({ min: 0, max: 6 * HOUR }),
                ),
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
                  const item = message({ recipient, windows })
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
                const verdict = yield* send(recipient)
                if (verdict.reserved || !patient) continue
                yield* store.advance((verdict.retryAfterSeconds - 1) * 1000)
                const early = yield* send(recipient)
                // A whole second early is too early, but for what rounding up gave.
                if (early.reserved) continue
                assert.strictEqual(early.retryAfterSeconds, 1)
                yield* store.advance(1000)
                assert.isTrue((yield* send(recipient)).reserved, 'the promised retry')
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

    ready('agree with a plain list of what was taken, released, recorded and lapsed', (counters, store) => {
      const step = fc.oneof(
        { weight: 4, arbitrary: fc.record({ kind: fc.constant('reserve' as const), id: fc.nat(5) }) },
        { weight: 1, arbitrary: fc.record({ kind: fc.constant('release' as const), id: fc.nat(5) }) },
        { weight: 2, arbitrary: fc.record({ kind: fc.constant('record' as const), id: fc.nat(5) }) },
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
            message({
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
            } else if (kind === 'record') {
              yield* counters.confirmFlood([{ ...item(id), at: now }])
              const one = known.find((each) => each.id === id) ?? { id, at: now, until: Infinity }
              known = [...known.filter((each) => each.id !== id), { ...one, until: Infinity }]
            } else {
              known = known.filter(({ until }) => until > now)
              const held = known.find((one) => one.id === id)
              const newer = (length: number) => known.filter(({ at }) => at > now - length).length
              const expected =
                held !== undefined
                  ? 'taken'
                  : newer(30_000) >= 1
                    ? 'pause'
                    : newer(HOUR) >= 2
                      ? 'hour'
                      : newer(DAY) >= 3
                        ? 'day'
                        : 'taken'
              const [verdict] = yield* counters.reserveFlood([item(id)])
              assert.strictEqual(verdict?.reserved === false ? verdict.window : 'taken', expected)
              if (expected === 'taken') {
                const until = held?.until === Infinity ? Infinity : now + RESERVATION_LEASE_MS
                known = [...known.filter((one) => one.id !== id), { id, at: held?.at ?? now, until }]
              }
            }
          }
        }),
      )
    })
  })

  describe(`${name}: daily count`, () => {
    test('stops a day once its limit is reached, and only that day', (counters) =>
      Effect.gen(function* () {
        const { count, raise, stopped } = counters.daily
        assert.isFalse(yield* stopped('2026-11-21', 1))
        assert.strictEqual(yield* count('2026-11-21', 999), 999)
        assert.isFalse(yield* stopped('2026-11-21', 1000))
        // A batch that was let in is counted whole.
        assert.strictEqual(yield* count('2026-11-21', 500), 1499)
        assert.isTrue(yield* stopped('2026-11-21', 1000))
        assert.isFalse(yield* stopped('2026-11-22', 1000))
        // A limit that is raised opens the day again.
        assert.isFalse(yield* stopped('2026-11-21', 1500))
        yield* raise('2026-11-21', 1400)
        assert.strictEqual(yield* count('2026-11-21', 0), 1499)
        yield* raise('2026-11-21', 1500)
        yield* raise('2026-11-21', 1500)
        assert.isTrue(yield* stopped('2026-11-21', 1500))
        // A limit of nothing lets nothing pass.
        assert.isTrue(yield* stopped('2026-11-22', 0))
      }))

    test('loses nothing of what is counted at once', (counters) =>
      Effect.gen(function* () {
        yield* Effect.all(
          Array.from({ length: 200 }, () => counters.daily.count('2026-11-21', 3)),
          { concurrency: 'unbounded' },
        )
        assert.strictEqual(yield* counters.daily.count('2026-11-21', 0), 600)
      }))
  })

  describe(`${name}: generation`, () => {
    test('an empty store refuses to say, until it is rebuilt from what was accepted', (counters, store) =>
      Effect.gen(function* () {
        assert.strictEqual(yield* counters.generation.state, 'empty')
        assert.strictEqual(reasonOf(yield* Effect.exit(counters.reserveFlood([message()]))), 'empty')
        const now = yield* store.now
        const accepted = Array.from({ length: 3000 }, (_, i) => ({
          ...message({ recipient: hash(i % 1000), account: `acc_${i % 3}` }),
          at: now - (i % 5) * 10_000,
        }))
        const outcome = yield* counters.generation.rebuild(Stream.fromIterable(accepted))
        assert.strictEqual(outcome, 'rebuilt')
        assert.strictEqual(yield* counters.generation.state, 'ready')
        const again = yield* counters.reserveFlood([
          message({ recipient: hash(0), account: 'acc_0' }),
          message({ recipient: hash(999), account: 'acc_0' }),
          message({ recipient: hash(1000), account: 'acc_0' }),
          { ...accepted[1]!, windows: DEFAULTS },
        ])
        assert.deepStrictEqual(again, [refused('pause', 60), refused('pause', 20), RESERVED, RESERVED])
      }))

    ready('a store that loses its data is empty again', (counters, store) =>
      Effect.gen(function* () {
        yield* counters.reserveFlood([message()])
        yield* store.empty
        assert.strictEqual(reasonOf(yield* Effect.exit(counters.reserveFlood([message()]))), 'empty')
        assert.strictEqual(yield* counters.generation.state, 'empty')
        // Giving back and recording need no windows, and rate and gate are as good as new.
        yield* counters.releaseFlood([message()])
        yield* counters.confirmFlood([{ ...message(), at: yield* store.now }])
        assert.isTrue((yield* counters.takeToken('key', 1)).allowed)
        assert.isTrue((yield* counters.failedLogins.check('192.0.2.1')).allowed)
        assert.strictEqual(yield* counters.generation.rebuild(Stream.empty), 'rebuilt')
        assert.deepStrictEqual(yield* counters.reserveFlood([message()]), [refused('pause', 60)])
      }),
    )

    ready('a store that is ready does not run the stream', (counters) =>
      Effect.gen(function* () {
        const outcome = yield* counters.generation.rebuild(Stream.die('must not run'))
        assert.strictEqual(outcome, 'ready')
      }),
    )

    test('one rebuilds at a time, and the others see it', (counters, store) =>
      Effect.gen(function* () {
        const [reading, rest] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        const slow = Stream.fromEffect(
          Deferred.succeed(reading, undefined).pipe(
            Effect.andThen(Deferred.await(rest)),
            Effect.andThen(store.now),
            Effect.map((now) => ({ ...message(), at: now })),
          ),
        )
        const first = yield* Effect.forkChild(counters.generation.rebuild(slow))
        yield* Deferred.await(reading)
        assert.strictEqual(yield* counters.generation.state, 'rebuilding')
        assert.strictEqual(yield* counters.generation.rebuild(Stream.die('must not run')), 'elsewhere')
        assert.strictEqual(reasonOf(yield* Effect.exit(counters.reserveFlood([message()]))), 'empty')
        yield* Deferred.succeed(rest, undefined)
        assert.strictEqual(yield* Fiber.join(first), 'rebuilt')
        assert.deepStrictEqual(yield* counters.reserveFlood([message()]), [refused('pause', 60)])
      }))

    test('a rebuild whose store is emptied under it does not call it ready', (counters, store) =>
      Effect.gen(function* () {
        const outcome = yield* counters.generation.rebuild(Stream.fromEffectDrain(store.empty))
        assert.strictEqual(outcome, 'elsewhere')
        assert.strictEqual(yield* counters.generation.state, 'empty')
        assert.strictEqual(yield* counters.generation.rebuild(Stream.empty), 'rebuilt')
      }))

    test('a rebuild whose source fails says so and leaves the way free for the next', (counters) =>
      Effect.gen(function* () {
        const exit = yield* Effect.exit(counters.generation.rebuild(Stream.fail(new SourceBroke())))
        assert.isTrue(Exit.isFailure(exit))
        assert.strictEqual(yield* counters.generation.state, 'empty')
        assert.strictEqual(yield* counters.generation.rebuild(Stream.empty), 'rebuilt')
      }))
  })

  describe(`${name}: outages`, () => {
    const everyCall = (counters: CountersShape): Record<string, Effect.Effect<unknown, unknown>> => ({
      takeToken: counters.takeToken('key', 1000),
      check: counters.failedLogins.check('192.0.2.1'),
      record: counters.failedLogins.record('192.0.2.1'),
      reserveFlood: counters.reserveFlood([message()]),
      releaseFlood: counters.releaseFlood([message()]),
      stopped: counters.daily.stopped('2026-11-21', 1),
      count: counters.daily.count('2026-11-21', 1),
      raise: counters.daily.raise('2026-11-21', 1),
      ping: counters.ping,
      state: counters.generation.state,
      rebuild: counters.generation.rebuild(Stream.die('must not run')),
    })

    for (const [state, reasons] of [
      ['refusing', ['unreachable']],
      // The attempt after the first may already have found out that a new connection does not answer either.
      ['hanging', ['timeout']],
    ] as const) {
      ready(
        `every call says that a store that is ${state} is unavailable, and works again after`,
        (counters, store) =>
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

    ready('what was accepted meanwhile is in the windows afterwards', (counters, store) =>
      Effect.gen(function* () {
        const now = yield* store.now
        yield* store.set('refusing')
        const passed = Array.from({ length: 2500 }, (_, i) => ({
          ...message({ recipient: hash(i) }),
          at: now,
        }))
        yield* Effect.forEach(passed, (one) => counters.confirmFlood([one]), { discard: true })
        yield* store.set('up')
        const probe = Effect.fnUntraced(function* (one: FloodReservation) {
          const another = { ...one, reservationId: freshId(), windows: DEFAULTS }
          const [verdict] = yield* counters.reserveFlood([another])
          if (verdict?.reserved === false) return verdict
          // It came before what it looks for, and must not be found in its place.
          yield* counters.releaseFlood([another])
          return yield* Effect.fail('not written yet')
        })
        // The last in line: when it is written, so are the others.
        assert.deepStrictEqual(yield* soon(probe(passed.at(-1)!)), refused('pause', 60))
        assert.deepStrictEqual(yield* probe(passed[0]!), refused('pause', 60))
      }),
    )
  })
}
