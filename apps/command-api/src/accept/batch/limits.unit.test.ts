import { assert, describe, it } from '@effect/vitest'
import { Counters, CountersUnavailable, MemoryCounters, memoryCounters } from '@hub/counters'
import { fromTimestamp, toTimestamp } from '@hub/domain'
import { Context, Effect, Layer, Result } from 'effect'
import { type HubLimits, HubSettings } from '../../accounts/hub-settings.ts'
import { checkedSend, otp, otpSend, owner, service, templateOf } from '../../testing/doubles.ts'
import type { CheckedSend } from '../check/checked-send.ts'
import { SendLimits, reservationOf, type SendReservation } from './limits.ts'

/** Half an hour before midnight UTC. */
const AT = fromTimestamp('2026-11-21T23:30:00.000Z')!

const reservation = (of: CheckedSend, messageId: string): SendReservation =>
  reservationOf(of, Result.getOrThrow(of.draft), messageId)

const test = (
  name: string,
  body: Effect.Effect<void, unknown, SendLimits | Counters | MemoryCounters>,
  hub: HubLimits = { dailyLimit: null, stoppedUntil: null },
) =>
  it.effect(name, () =>
    body.pipe(
      Effect.provide(
        SendLimits.layer.pipe(
          Layer.provide(Layer.succeed(HubSettings)({ current: Effect.succeed(hub) })),
          Layer.provideMerge(memoryCounters()),
        ),
      ),
    ),
  )

const reserve = Effect.fnUntraced(function* (...reservations: ReadonlyArray<SendReservation>) {
  const limits = yield* SendLimits
  const errors = yield* limits.reserve(reservations)
  return errors.map((error) =>
    error === null
      ? 'passes'
      : `${error.code} ${error.window ?? '-'} ${error.retryAfter ?? '-'} ${error.param}`,
  )
})

describe('flood windows', () => {
  // Rules: LIM-6, LIM-7
  test(
    'count both classes of a recipient together, and the error names the exceeded window',
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* reserve(reservation(service(), 'msg_1'), reservation(otp(), 'msg_2')), [
        'passes',
        'recipient_flood_limited pause 60 to',
      ])
      const elsewhere = service(null, { to: '+79007654321' })
      assert.deepStrictEqual(yield* reserve(reservation(elsewhere, 'msg_3')), ['passes'])
    }),
  )

  test(
    'count two sends with one client_ref once',
    Effect.gen(function* () {
      assert.deepStrictEqual(
        yield* reserve(
          reservation(service('a'), 'msg_1'),
          reservation(service('a'), 'msg_2'),
          reservation(otp('b'), 'msg_3'),
        ),
        ['passes', 'passes', 'recipient_flood_limited pause 60 to'],
      )
    }),
  )

  // Rules: LIM-9
  test(
    'do not count a send that was not accepted, whether it is released or expires',
    Effect.gen(function* () {
      const limits = yield* SendLimits
      const memory = yield* MemoryCounters
      yield* reserve(reservation(service(), 'msg_1'))
      yield* limits.release([reservation(service(), 'msg_1')])
      assert.deepStrictEqual(yield* reserve(reservation(service(), 'msg_2')), ['passes'])
      // A crash: nobody releases the reservation, and it expires.
      yield* memory.advance(20_001)
      assert.deepStrictEqual(yield* reserve(reservation(service(), 'msg_3')), ['passes'])
    }),
  )

  test(
    'count an accepted send after the lease of its reservation',
    Effect.gen(function* () {
      const limits = yield* SendLimits
      const memory = yield* MemoryCounters
      yield* reserve(reservation(service(), 'msg_1'))
      yield* limits.confirm([reservation(service(), 'msg_1')], 0)
      yield* memory.advance(20_001)
      const [verdict] = yield* reserve(reservation(service(), 'msg_2'))
      assert.strictEqual(verdict, 'recipient_flood_limited pause 40 to')
    }),
  )

  // Rules: SBX-8
  test(
    'apply to one number of the sandbox only, with a pause of five minutes',
    Effect.gen(function* () {
      const test = { ...owner, mode: 'test' as const }
      const to = (number: string, id: string) =>
        reservation(checkedSend(otpSend({ to: number }), templateOf(), test), id)
      assert.deepStrictEqual(
        yield* reserve(
          to('+79000000001', 'msg_1'),
          to('+79000000001', 'msg_2'),
          to('+79000000009', 'msg_3'),
          to('+79000000009', 'msg_4'),
        ),
        ['passes', 'passes', 'passes', 'recipient_flood_limited pause 300 to'],
      )
    }),
  )
})

const sandboxService = checkedSend(
  otpSend({ class: 'service', template: 'order_ready', variables: { order: '1' } }),
  templateOf({ name: 'order_ready', class: 'service', body: 'Order {{order}}' }),
  { ...owner, mode: 'test' },
)

describe('without counters', () => {
  // Source: LIM-12: without retry_after, whatever makes the counters unavailable.
  const refusal = 'recipient_flood_limited - - to'
  for (const state of ['refusing', 'hanging'] as const) {
    // Rules: LIM-12
    test(
      `(${state}) codes pass; service messages are refused, also in test mode`,
      Effect.gen(function* () {
        const memory = yield* MemoryCounters
        yield* memory.set(state)
        assert.deepStrictEqual(
          yield* reserve(
            reservation(otp(), 'msg_1'),
            reservation(service(), 'msg_2'),
            reservation(sandboxService, 'msg_3'),
          ),
          ['passes', refusal, refusal],
        )
      }),
    )
  }

  test(
    'a store that has lost its flood windows refuses service messages',
    Effect.gen(function* () {
      const memory = yield* MemoryCounters
      yield* memory.empty
      assert.deepStrictEqual(yield* reserve(reservation(otp(), 'msg_1'), reservation(service(), 'msg_2')), [
        'passes',
        'recipient_flood_limited - - to',
      ])
    }),
  )

  // Rules: LIM-24
  test(
    'the daily limit stops nothing',
    Effect.gen(function* () {
      const memory = yield* MemoryCounters
      const limits = yield* SendLimits
      yield* memory.set('refusing')
      assert.isNull(yield* limits.daily(AT))
      // A confirmation does not fail either.
      yield* limits.confirm([reservation(otp(), 'msg_1')], AT)
      yield* limits.release([reservation(otp(), 'msg_1')])
    }),
    { dailyLimit: 0, stoppedUntil: null },
  )
})

/** The most reservations of a call that has its answer in time. */
class Slowness extends Context.Service<Slowness, { most: number }>()('test/Slowness') {}

/** Counters that make all reservations, but answer only small calls in time. */
const slowCounters = Layer.effect(
  Counters,
  Effect.gen(function* () {
    const counters = yield* Counters
    const slowness = yield* Slowness
    return {
      ...counters,
      reserveFlood: (requests) =>
        Effect.flatMap(counters.reserveFlood(requests), (verdicts) =>
          requests.length <= slowness.most
            ? Effect.succeed(verdicts)
            : Effect.fail(new CountersUnavailable({ reason: 'timeout', detail: 'deadline' })),
        ),
    }
  }),
).pipe(Layer.provide(memoryCounters()))

describe('with slow counters', () => {
  const many = Array.from({ length: 450 }, (_, i) =>
    reservation(service(`ref-${i}`, { to: `+79${String(100_000_000 + i)}` }), `msg_${i}`),
  )
  const reserveSlowly = (most: number, reservations: ReadonlyArray<SendReservation>) =>
    Effect.flatMap(Slowness, (slowness) => {
      slowness.most = most
      return reserve(...reservations)
    })

  const slowTest = (name: string, body: Effect.Effect<void, unknown, SendLimits | Slowness>) =>
    it.effect(name, () =>
      body.pipe(
        Effect.provide(
          SendLimits.layer.pipe(
            Layer.provide(
              Layer.succeed(HubSettings)({
                current: Effect.succeed({ dailyLimit: null, stoppedUntil: null }),
              }),
            ),
            Layer.provide(slowCounters),
            Layer.provideMerge(Layer.succeed(Slowness)({ most: 0 })),
          ),
        ),
      ),
    )

  slowTest(
    'a large batch is checked in portions',
    Effect.gen(function* () {
      const outcomes = yield* reserveSlowly(100, many)
      assert.deepStrictEqual(new Set(outcomes), new Set(['passes']))
      assert.lengthOf(outcomes, 450)
    }),
  )

  slowTest(
    'a portion without an answer refuses only its own sends',
    Effect.gen(function* () {
      const outcomes = yield* reserveSlowly(50, many)
      assert.strictEqual(
        outcomes.filter((outcome) => outcome === 'recipient_flood_limited - - to').length,
        400,
      )
      assert.strictEqual(outcomes.filter((outcome) => outcome === 'passes').length, 50)
    }),
  )

  slowTest(
    'a refused send leaves no reservation behind that would refuse another one',
    Effect.gen(function* () {
      yield* reserveSlowly(0, [reservation(service(), 'msg_1')])
      // The release runs in the background.
      yield* Effect.yieldNow
      assert.deepStrictEqual(yield* reserveSlowly(1, [reservation(service(), 'msg_2')]), ['passes'])
    }),
  )

  slowTest(
    'a code that passed without an answer keeps its reservation',
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* reserveSlowly(0, [reservation(otp(), 'msg_1')]), ['passes'])
      assert.deepStrictEqual(yield* reserveSlowly(1, [reservation(otp(), 'msg_2')]), [
        'recipient_flood_limited pause 60 to',
      ])
    }),
  )
})

describe('the daily limit', () => {
  // Rules: LIM-20, LIM-21
  test(
    'ends at midnight UTC',
    Effect.gen(function* () {
      const limits = yield* SendLimits
      assert.isNull(yield* limits.daily(AT))
      yield* limits.confirm([reservation(service('a'), 'msg_1'), reservation(service('b'), 'msg_2')], AT)
      assert.strictEqual((yield* limits.daily(AT))?.retryAfter, 1800)
      assert.isNull(yield* limits.daily(AT + 1_800_000))
    }),
    { dailyLimit: 2, stoppedUntil: null },
  )

  // Rules: LIM-21
  test(
    'has a retry_after of at least a minute',
    Effect.gen(function* () {
      const limits = yield* SendLimits
      assert.strictEqual((yield* limits.daily(AT + 1_799_000))?.retryAfter, 60)
    }),
    { dailyLimit: 0, stoppedUntil: null },
  )

  // Rules: LIM-22
  test(
    'counts as reached while the hub is stopped, with the end of the stop',
    Effect.gen(function* () {
      const limits = yield* SendLimits
      assert.deepInclude(yield* limits.daily(AT), {
        code: 'hub_daily_limit_reached',
        message: `The hub accepts no new messages for now. It accepts them again at ${toTimestamp(AT + 600_000)}.`,
        retryAfter: 600,
      })
      assert.strictEqual((yield* limits.daily(AT + 598_500))?.retryAfter, 2)
      assert.isNull(yield* limits.daily(AT + 600_000))
    }),
    { dailyLimit: null, stoppedUntil: AT + 600_000 },
  )
})
