/** Admission control of a process: the work of requests from their admission to their end. */
import { assert, describe, it } from '@effect/vitest'
import type { ApiError } from '@hub/contract'
import { Deferred, Effect, Fiber, Layer, Logger, Result } from 'effect'
import { TestClock } from 'effect/testing'
import { AdmissionControl, type Ticket } from './admission-control.ts'
import type { Work } from './admission.ts'

const single = (kind: 'otp' | 'service', account = 'a'): Work => ({ kind, account, sends: 1 })
const layer = Layer.mergeAll(AdmissionControl.layer(), Logger.layer([]))

/** A request that is admitted and runs `use`, or is refused. */
const run = <A>(
  admission: AdmissionControl['Service'],
  work: Work,
  use: (ticket: Ticket) => Effect.Effect<A>,
): Effect.Effect<A, ApiError> =>
  Effect.acquireUseRelease(
    Effect.suspend(() => Effect.fromResult(admission.admit(work))),
    use,
    (ticket) => Effect.sync(ticket.end),
  )

/** Begins single sends until one is refused. Returns how many began, and the error of the last one. */
const fill = Effect.fnUntraced(function* (work: Work, use: (ticket: Ticket) => Effect.Effect<void>) {
  const admission = yield* AdmissionControl
  const error = yield* Deferred.make<ApiError>()
  let began = 0
  for (;;) {
    const request = run(admission, work, (ticket) => {
      began++
      return use(ticket)
    })
    yield* Effect.forkChild(Effect.catch(request, (one) => Deferred.succeed(error, one)))
    yield* Effect.yieldNow
    if (yield* Deferred.isDone(error)) return { began, error: yield* Deferred.await(error) }
  }
})

describe('admission control', () => {
  it.effect('refuses with overloaded, and with a retry_after that is spread over ten seconds', () =>
    Effect.gen(function* () {
      const admission = yield* AdmissionControl
      const { began, error } = yield* fill(single('service'), () => Effect.never)
      assert.isAbove(began, 100)
      assert.strictEqual(error.code, 'overloaded')
      const waits = new Set<number | undefined>()
      for (let i = 0; i < 1000; i++) waits.add(admission.refusal(single('service'))?.retryAfter)
      assert.deepStrictEqual(
        [...waits].toSorted((a, b) => Number(a) - Number(b)),
        Array.from({ length: 10 }, (_, i) => i + 1),
      )
    }).pipe(Effect.provide(layer)),
  )

  it.effect('ends the work of a request with it, whatever ends it', () =>
    Effect.gen(function* () {
      const admission = yield* AdmissionControl
      const end = yield* Deferred.make<void>()
      const first = yield* fill(single('service'), () => Deferred.await(end))
      assert.isNotNull(admission.refusal(single('service')))
      yield* Deferred.succeed(end, undefined)
      yield* Effect.yieldNow
      const second = yield* fill(single('service'), () => Effect.never)
      assert.strictEqual(second.began, first.began)
    }).pipe(Effect.provide(layer)),
  )

  it.effect('ends it also when the client disconnects', () =>
    Effect.gen(function* () {
      const admission = yield* AdmissionControl
      const requests = yield* Effect.forEach(Array.from({ length: 2000 }), () =>
        Effect.forkChild(Effect.result(run(admission, single('service'), () => Effect.never))),
      )
      yield* Effect.yieldNow
      assert.isNotNull(admission.refusal(single('service')))
      yield* Fiber.interruptAll(requests)
      assert.isFalse(admission.mayRefuse(1))
    }).pipe(Effect.provide(layer)),
  )

  it.effect('counts transferred sends until each has its outcome', () =>
    Effect.gen(function* () {
      const admission = yield* AdmissionControl
      const tickets: Array<Ticket> = []
      const batch: Work = { kind: 'batch', account: 'a', sends: 1000 }
      // The estimate was a thousand. The batch has a hundred sends.
      yield* run(admission, batch, (ticket) =>
        Effect.sync(() => {
          ticket.transfer(100, 1)
          tickets.push(ticket)
        }),
      )
      assert.isTrue(admission.mayRefuse(1))
      for (let i = 0; i < 99; i++) tickets[0]!.finish(null)
      assert.isFalse(admission.mayRefuse(1))
      assert.isTrue(admission.mayRefuse(1000))
      tickets[0]!.finish(null)
      assert.isFalse(admission.mayRefuse(1000))
    }).pipe(Effect.provide(layer)),
  )

  it.effect('counts sends that a request transfers after its client has disconnected', () =>
    Effect.gen(function* () {
      const admission = yield* AdmissionControl
      const ticket = yield* Deferred.make<Ticket>()
      const request = yield* Effect.forkChild(
        run(admission, { kind: 'batch', account: 'a', sends: 1000 }, (one) =>
          Effect.andThen(Deferred.succeed(ticket, one), Effect.never),
        ),
      )
      const { finish, transfer } = yield* Deferred.await(ticket)
      yield* Fiber.interrupt(request)
      assert.isFalse(admission.mayRefuse(1000))
      // The work of a request with an idempotency key goes on.
      transfer(100, 1)
      assert.isTrue(admission.mayRefuse(1))
      for (let i = 0; i < 100; i++) finish(null)
      assert.isFalse(admission.mayRefuse(1000))
      // Later work is counted from zero, and not from below it.
      const batch = yield* Effect.forkChild(
        run(admission, { kind: 'batch', account: 'a', sends: 100 }, () => Effect.never),
      )
      yield* Effect.yieldNow
      assert.isTrue(admission.mayRefuse(1))
      yield* Fiber.interrupt(batch)
    }).pipe(Effect.provide(layer)),
  )

  it.effect('counts admitted work from its admission until its request ends, and ends it once', () =>
    Effect.gen(function* () {
      const admission = yield* AdmissionControl
      const tickets: Array<Ticket> = []
      for (;;) {
        const admitted = admission.admit(single('otp'))
        if (Result.isFailure(admitted)) break
        tickets.push(admitted.success)
      }
      assert.isNotNull(admission.refusal(single('otp')))
      const [first, ...others] = tickets as [Ticket, ...Array<Ticket>]
      // The request runs, and its client disconnects: both end it.
      const running = yield* Effect.forkChild(Effect.ensuring(Effect.never, Effect.sync(first.end)))
      yield* Effect.yieldNow
      for (const ticket of others) ticket.end()
      assert.isTrue(admission.mayRefuse(64))
      first.end()
      yield* Fiber.interrupt(running)
      assert.isFalse(admission.mayRefuse(1000))
      const next = Result.getOrThrow(admission.admit(single('otp')))
      assert.isTrue(admission.mayRefuse(64))
      next.end()
    }).pipe(Effect.provide(layer)),
  )

  it.effect('counts a code once, so that half of the rate remains for service', () =>
    Effect.gen(function* () {
      const admission = yield* AdmissionControl
      // Three seconds with 1,000 codes per second, half of the rate that a new process assumes.
      for (let sample = 0; sample < 30; sample++) {
        for (let i = 0; i < 100; i++) {
          yield* run(admission, single('otp'), (ticket) =>
            Effect.sync(() => {
              ticket.transfer(1, 1)
              ticket.finish(null)
            }),
          )
        }
        yield* TestClock.adjust('100 millis')
      }
      const { began } = yield* fill(single('service'), () => Effect.never)
      assert.isAbove(began, 400)
    }).pipe(Effect.provide(layer)),
  )

  it.effect('refuses a send whose body is not read only if a code of it would be refused', () =>
    Effect.gen(function* () {
      const admission = yield* AdmissionControl
      yield* fill(single('service'), () => Effect.never)
      assert.isNull(admission.refusal(single('otp')))
      yield* fill(single('otp'), () => Effect.never)
      assert.strictEqual(admission.refusal(single('otp'))?.code, 'overloaded')
      assert.isNull(admission.refusal(single('otp', 'another account')))
    }).pipe(Effect.provide(layer)),
  )

  it.effect('measures the rate of the process by itself', () =>
    Effect.gen(function* () {
      const admission = yield* AdmissionControl
      yield* fill(single('service'), () => Effect.never)
      assert.isNull(admission.refusal(single('service', 'b')))
      // Nothing gets an outcome, so the process is slower than it was assumed to be.
      yield* TestClock.adjust('2 seconds')
      assert.isNotNull(admission.refusal(single('service', 'b')))
    }).pipe(Effect.provide(layer)),
  )
})
