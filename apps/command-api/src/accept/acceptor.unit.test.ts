/** The acceptor on doubles: acceptance batches, codes and service messages, and bounds. */
import { assert, describe, it } from '@effect/vitest'
import { decodeFact } from '@hub/kafka'
import { Outbox } from '@hub/outbox'
import { Context, Deferred, Effect, Exit, Fiber, Layer, Logger, Result, Scope } from 'effect'
import { TestClock } from 'effect/testing'
import { Doubles, acceptorOnDoubles, otp, service } from '../testing/doubles.ts'
import type { Ticket } from './admission/admission-control.ts'
import type { CheckedSend } from './check/checked-send.ts'
import { ACCEPTANCE_GATHER, BatchingAcceptor } from './acceptor.ts'
import type { SendOutcome } from './send.ts'
import { SLOW_BATCHES_IN_PROGRESS } from './batch/start-rule.ts'

const resultOf = (outcome: SendOutcome): string =>
  Result.isSuccess(outcome) ? (outcome.success.duplicate ? 'duplicate' : 'accepted') : outcome.failure.code

const messageIdOf = (outcome: SendOutcome): string | null =>
  Result.isSuccess(outcome) ? outcome.success.view.id : null

const accept = Effect.fnUntraced(function* (...checkedSends: ReadonlyArray<CheckedSend>) {
  const acceptor = yield* BatchingAcceptor
  return (yield* acceptor.accept(checkedSends)).outcomes
})

/** Runs all fibers until they wait for time or for a barrier. */
const settle = Effect.repeat(Effect.yieldNow, { times: 100 })

const test = (name: string, body: Effect.Effect<void, unknown, BatchingAcceptor | Doubles | Outbox>) =>
  it.effect(name, () => body.pipe(Effect.provide(acceptorOnDoubles()), Effect.provide(Logger.layer([]))))

const republishedFlags = (records: ReadonlyArray<{ readonly value: Uint8Array }>) =>
  records.map((record) => {
    const fact = Result.getOrThrow(decodeFact(record))
    return fact.type === 'MessageAccepted' && fact.republished
  })

describe('an acceptance batch', () => {
  test(
    'contains all sends that arrived while other batches were in progress',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      ledger.state.barrier = yield* Deferred.make<void>()
      const first = yield* Effect.forkChild(accept(service()))
      yield* settle
      const second = yield* Effect.forkChild(accept(service()))
      yield* settle
      const others = yield* Effect.forkChild(
        Effect.all(
          Array.from({ length: 10 }, () => accept(service())),
          { concurrency: 'unbounded' },
        ),
      )
      yield* settle
      yield* Deferred.succeed(ledger.state.barrier, undefined)
      yield* Fiber.join(first)
      yield* Fiber.join(second)
      yield* Fiber.join(others)
      assert.deepStrictEqual(ledger.commits, [1, 1, 10])
    }),
  )

  /** Acceptance batches of few sends wait for 8 ms. */
  const gathering = (name: string, body: Effect.Effect<void, unknown, BatchingAcceptor | Doubles | Outbox>) =>
    it.effect(name, () =>
      body.pipe(Effect.provide(acceptorOnDoubles(ACCEPTANCE_GATHER)), Effect.provide(Logger.layer([]))),
    )
  /** Two sends at once: others are likely to follow. */
  const acceptTwo = Effect.all([accept(service()), accept(service())], { concurrency: 'unbounded' })

  gathering(
    'waits some milliseconds for more sends after one with several sends',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      yield* acceptTwo
      const third = yield* Effect.forkChild(accept(service()))
      yield* settle
      const fourth = yield* Effect.forkChild(accept(service()))
      yield* settle
      assert.deepStrictEqual(ledger.commits, [2])
      yield* TestClock.adjust(ACCEPTANCE_GATHER)
      yield* Fiber.join(third)
      yield* Fiber.join(fourth)
      assert.deepStrictEqual(ledger.commits, [2, 2])
    }),
  )

  gathering(
    'waits neither for the sends of one client that awaits its answers, nor when a code arrives',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      for (let i = 0; i < 3; i++) yield* accept(service())
      assert.deepStrictEqual(ledger.commits, [1, 1, 1])
      yield* acceptTwo
      const waiting = yield* Effect.forkChild(accept(service()))
      yield* settle
      yield* accept(otp())
      yield* Fiber.join(waiting)
      assert.deepStrictEqual(ledger.commits, [1, 1, 1, 2, 2])
    }),
  )

  test(
    'does not wait for two slow ones',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      const barrier = yield* Deferred.make<void>()
      ledger.state.barrier = barrier
      const slow = [yield* Effect.forkChild(accept(service()))]
      yield* settle
      slow.push(yield* Effect.forkChild(accept(service())))
      yield* settle
      // Later calls of the ledger are fast.
      ledger.state.barrier = null
      const next = yield* Effect.forkChild(accept(service()))
      yield* settle
      assert.deepStrictEqual(ledger.commits, [])
      yield* TestClock.adjust('200 millis')
      assert.deepStrictEqual((yield* Fiber.join(next)).map(resultOf), ['accepted'])
      assert.deepStrictEqual(ledger.commits, [1])
      yield* Deferred.succeed(barrier, undefined)
      yield* Effect.forEach(slow, Fiber.join)
      assert.deepStrictEqual(ledger.commits, [1, 1, 1])
    }),
  )

  /** The sizes of the commits when these sends arrive while two acceptance batches are in progress. */
  const commitsOf = Effect.fnUntraced(function* (waiting: ReadonlyArray<CheckedSend>) {
    const { ledger } = yield* Doubles
    ledger.state.barrier = yield* Deferred.make<void>()
    const inProgress = [yield* Effect.forkChild(accept(service()))]
    yield* settle
    inProgress.push(yield* Effect.forkChild(accept(service())))
    yield* settle
    for (const one of waiting) inProgress.push(yield* Effect.forkChild(accept(one)))
    yield* settle
    yield* Deferred.succeed(ledger.state.barrier, undefined)
    const outcomes = (yield* Effect.forEach(inProgress, Fiber.join)).flat()
    assert.deepStrictEqual(new Set(outcomes.map(resultOf)), new Set(['accepted']))
    return ledger.commits.slice(2)
  })
  const many = (count: number, make: () => CheckedSend) => Array.from({ length: count }, () => make())

  test(
    'has only codes while many other sends wait, so that a code does not wait for them',
    Effect.gen(function* () {
      const commits = yield* commitsOf([...many(140, service), ...many(5, otp)])
      assert.deepStrictEqual(
        commits.toSorted((a, b) => a - b),
        [5, 140],
      )
    }),
  )

  test(
    'with codes does not wait for two slow ones, whatever waits beside it',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      const barrier = yield* Deferred.make<void>()
      ledger.state.barrier = barrier
      const sends: Array<Fiber.Fiber<ReadonlyArray<SendOutcome>>> = []
      const start = Effect.fnUntraced(function* (one: CheckedSend) {
        sends.push(yield* Effect.forkChild(accept(one)))
      })
      for (const one of [service(), service()]) yield* Effect.andThen(start(one), settle)
      for (const one of many(500, service)) yield* start(one)
      yield* settle
      for (const one of [otp(), otp()]) yield* Effect.andThen(start(one), settle)
      ledger.state.barrier = null
      const code = yield* Effect.forkChild(accept(otp()))
      yield* settle
      assert.deepStrictEqual(ledger.commits, [])
      yield* TestClock.adjust('200 millis')
      assert.deepStrictEqual((yield* Fiber.join(code)).map(resultOf), ['accepted'])
      // Its own batch does not come behind those of the others.
      assert.isAtMost(ledger.commits.indexOf(1), 1)
      yield* Deferred.succeed(barrier, undefined)
      yield* Effect.forEach(sends, Fiber.join)
    }),
  )

  test(
    'has sends of both classes while few wait, because each acceptance batch has a cost',
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* commitsOf([...many(20, service), ...many(5, otp)]), [25])
    }),
  )

  test(
    'has a bounded number of requests, because nothing else runs while they are answered',
    Effect.gen(function* () {
      const commits = yield* commitsOf(many(400, service))
      assert.isAtMost(Math.max(...commits), 150)
    }),
  )

  // Rules: MSG-12
  test(
    'records one message for many repeats',
    Effect.gen(function* () {
      const { kafka } = yield* Doubles
      const outcomes = yield* accept(...Array.from({ length: 50 }, () => otp('same')))
      assert.strictEqual(outcomes.filter((one) => resultOf(one) === 'accepted').length, 1)
      assert.strictEqual(outcomes.filter((one) => resultOf(one) === 'duplicate').length, 49)
      assert.strictEqual(new Set(outcomes.map(messageIdOf)).size, 1)
      assert.strictEqual(kafka.records.length, 1)
    }),
  )

  test(
    'answers with the message of another process that committed first',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      const [theirs] = yield* accept(service('other'))
      const [key, id] = [...ledger.references][0]!
      // The reference is committed between lookup and commit.
      ledger.references.delete(key)
      ledger.state.beforeCommit = () => void ledger.references.set(key, id)
      const [mine] = yield* accept(service('other'))
      assert.deepStrictEqual([resultOf(mine!), messageIdOf(mine!)], ['duplicate', messageIdOf(theirs!)])
      assert.strictEqual(kafka.records.length, 1)
    }),
  )

  // Rules: BAT-3
  test(
    'returns the outcomes in the order of the request',
    Effect.gen(function* () {
      yield* accept(service('known'))
      const outcomes = yield* accept(
        service('new'),
        service('known'),
        service('bad', { variables: {} }),
        otp('code'),
        service('new'),
      )
      assert.deepStrictEqual(outcomes.map(resultOf), [
        'accepted',
        'duplicate',
        'template_variable_missing',
        'accepted',
        'duplicate',
      ])
    }),
  )

  test(
    'that PostgreSQL rejects refuses only the send at fault',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      ledger.state.rejectedReference = 'poison'
      const outcomes = yield* accept(
        ...Array.from({ length: 20 }, (_, i) =>
          (i % 2 === 0 ? service : otp)(i === 13 ? 'poison' : `fine-${i}`),
        ),
      )
      assert.deepStrictEqual(
        outcomes.map(resultOf),
        outcomes.map((_, i) => (i === 13 ? 'invalid_parameter' : 'accepted')),
      )
      assert.strictEqual(new Set(kafka.records.map(({ id }) => id)).size, 19)
    }),
  )

  test(
    'has a bounded number of bytes',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      const long = 'x'.repeat(500)
      const many = Array.from({ length: 2500 }, () => service(null, { variables: { order: long } }))
      yield* accept(...many)
      assert.isAtLeast(ledger.commits.length, 2)
      assert.strictEqual(
        ledger.commits.reduce((sum, size) => sum + size, 0),
        2500,
      )
    }),
  )
})

describe('a service message', () => {
  // Rules: MSG-2, AVL-14
  test(
    'is accepted when it is recorded, and left to the relay when Kafka fails',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      const outbox = yield* Outbox
      kafka.state.behavior = 'hanging'
      const [outcome] = yield* accept(service('a'))
      assert.strictEqual(resultOf(outcome!), 'accepted')
      assert.strictEqual(ledger.outbox.size, 1)
      assert.isFalse(outbox.isRelaying())
      yield* TestClock.adjust('1500 millis')
      assert.isTrue(outbox.isRelaying())

      // Kafka works again, but later messages must not overtake those of the relay.
      kafka.state.behavior = 'up'
      yield* accept(service('b'))
      yield* settle
      assert.deepStrictEqual([kafka.records.length, ledger.outbox.size], [0, 2])
      // Codes do not wait for the relay.
      yield* accept(otp('c'))
      assert.strictEqual(kafka.records.length, 1)

      // The relay appends rows that are some seconds old.
      yield* TestClock.adjust('4 seconds')
      assert.deepStrictEqual([outbox.isRelaying(), kafka.records.length, ledger.outbox.size], [false, 3, 0])
      yield* accept(service('d'))
      yield* settle
      assert.strictEqual(kafka.records.length, 4)
    }),
  )

  test(
    'has no outbox row after Kafka has acknowledged it',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      const outcomes = yield* accept(service(), service())
      assert.deepStrictEqual(outcomes.map(resultOf), ['accepted', 'accepted'])
      yield* TestClock.adjust('1 second')
      assert.deepStrictEqual([kafka.records.length, ledger.outbox.size], [2, 0])
    }),
  )

  test(
    'whose commit succeeded but was reported as failed is accepted, with and without a reference',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      for (const reference of ['a', null]) {
        ledger.state.behavior = 'lost reply'
        const [outcome] = yield* accept(service(reference))
        assert.strictEqual(resultOf(outcome!), 'accepted')
      }
      assert.strictEqual(ledger.rows.size, 2)
      // The relay will find their outbox rows.
      assert.strictEqual(ledger.outbox.size, 2)
    }),
  )

  // Rules: AVL-5, AVL-6
  test(
    'whose commit has an unknown result at the deadline says so, and its repeat is a duplicate',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      ledger.state.behavior = 'lost reply'
      ledger.state.withdraws = false
      const waiting = yield* Effect.forkChild(accept(service('a')))
      yield* settle
      yield* TestClock.adjust('2500 millis')
      const [first] = yield* Fiber.join(waiting)
      assert.isTrue(Result.isFailure(first!) && first.failure.outcome === 'unknown')
      assert.isTrue(Result.isFailure(first!) && (first.failure.retryAfter ?? 0) >= 1)
      const [second] = yield* accept(service('a'))
      assert.strictEqual(resultOf(second!), 'duplicate')
      assert.strictEqual(ledger.rows.size, 1)
      // The relay will find its outbox row.
      assert.strictEqual(ledger.outbox.size, 1)
    }),
  )
})

describe('a code', () => {
  test(
    'is accepted only after the acknowledgement',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      kafka.state.behavior = 'refusing'
      const [first] = yield* accept(otp('a'))
      assert.strictEqual(resultOf(first!), 'provider_unavailable')
      assert.strictEqual(ledger.outbox.size, 0)
      kafka.state.behavior = 'up'
      const [second] = yield* accept(otp('a'))
      // No client got an acceptance before, so this is no duplicate.
      assert.deepStrictEqual(
        [resultOf(second!), messageIdOf(second!)],
        ['accepted', [...ledger.rows.keys()][0]],
      )
      assert.deepStrictEqual(republishedFlags(kafka.records), [true])
      assert.strictEqual(resultOf((yield* accept(otp('a')))[0]!), 'duplicate')
      assert.strictEqual(kafka.records.length, 1)
    }),
  )

  test(
    'without an acknowledgement is published again under the same id, although Kafka has it',
    Effect.gen(function* () {
      const { kafka } = yield* Doubles
      kafka.state.behavior = 'lost reply'
      const first = yield* Effect.forkChild(accept(otp('a')))
      yield* settle
      yield* TestClock.adjust('1500 millis')
      assert.strictEqual(resultOf((yield* Fiber.join(first))[0]!), 'provider_unavailable')
      kafka.state.behavior = 'up'
      assert.strictEqual(resultOf((yield* accept(otp('a')))[0]!), 'accepted')
      assert.strictEqual(new Set(kafka.records.map(({ id }) => id)).size, 1)
      assert.deepStrictEqual(republishedFlags(kafka.records), [false, true])
    }),
  )

  test(
    'in the read model is a duplicate, although its append was reported as failed',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      kafka.state.behavior = 'refusing'
      yield* accept(otp('a'))
      ledger.projected.add([...ledger.rows.keys()][0]!)
      assert.strictEqual(resultOf((yield* accept(otp('a')))[0]!), 'duplicate')
    }),
  )

  test(
    'is published once for a repeat during its publication, which gets the same outcome',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      kafka.state.behavior = 'hanging'
      const first = yield* Effect.forkChild(accept(otp('a')))
      yield* settle
      const second = yield* Effect.forkChild(accept(otp('a')))
      yield* settle
      assert.strictEqual(ledger.commits.length, 1)
      yield* TestClock.adjust('1500 millis')
      assert.deepStrictEqual(
        [resultOf((yield* Fiber.join(first))[0]!), resultOf((yield* Fiber.join(second))[0]!)],
        ['provider_unavailable', 'provider_unavailable'],
      )
    }),
  )

  test(
    'whose commit succeeded but was reported as failed is published once',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      ledger.state.behavior = 'lost reply'
      assert.strictEqual(resultOf((yield* accept(otp('a')))[0]!), 'accepted')
      assert.deepStrictEqual([ledger.rows.size, ledger.charged.size, kafka.records.length], [1, 1, 1])
    }),
  )

  test(
    'whose commit has an unknown result is refused, never published, and refunded when it is known',
    Effect.gen(function* () {
      const { kafka, ledger, limits } = yield* Doubles
      ledger.state.behavior = 'lost reply'
      ledger.state.withdraws = false
      const waiting = yield* Effect.forkChild(accept(otp('a')))
      yield* settle
      yield* TestClock.adjust('2500 millis')
      const [outcome] = yield* Fiber.join(waiting)
      assert.strictEqual(resultOf(outcome!), 'provider_unavailable')
      assert.isTrue(Result.isFailure(outcome!) && outcome.failure.outcome === undefined)
      assert.strictEqual(ledger.charged.size, 1)
      ledger.state.withdraws = true
      yield* TestClock.adjust('2 seconds')
      assert.deepStrictEqual([ledger.charged.size, limits.reservations.size], [0, 0])
      assert.strictEqual(kafka.records.length, 0)
    }),
  )

  // Rules: AVL-1
  test(
    'whose client got a refusal after the timeout is not published later',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      ledger.state.barrier = yield* Deferred.make<void>()
      const waiting = yield* Effect.forkChild(accept(otp('a')))
      yield* settle
      yield* TestClock.adjust('3 seconds')
      assert.strictEqual(resultOf((yield* Fiber.join(waiting))[0]!), 'provider_unavailable')
      yield* Deferred.succeed(ledger.state.barrier, undefined)
      yield* settle
      assert.strictEqual(ledger.rows.size, 1)
      assert.strictEqual(kafka.records.length, 0)
    }),
  )

  test(
    'whose client got a refusal does not delay the next codes by its refund',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      ledger.state.barrier = yield* Deferred.make<void>()
      const refundBarrier = yield* Deferred.make<void>()
      ledger.state.refundBarrier = refundBarrier
      const refused = yield* Effect.forkChild(accept(otp('a')))
      yield* settle
      yield* TestClock.adjust('3 seconds')
      assert.strictEqual(resultOf((yield* Fiber.join(refused))[0]!), 'provider_unavailable')
      yield* Deferred.succeed(ledger.state.barrier, undefined)
      assert.strictEqual(resultOf((yield* accept(otp('b')))[0]!), 'accepted')
      assert.deepStrictEqual([ledger.charged.size, kafka.records.length], [2, 1])
      yield* Deferred.succeed(refundBarrier, undefined)
      yield* settle
      assert.strictEqual(ledger.charged.size, 1)
    }),
  )
})

describe('a deadline', () => {
  test(
    'that ends while a recorded code is decided again refunds the code',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      ledger.state.behavior = 'lost reply'
      ledger.state.withdraws = false
      const waiting = yield* Effect.forkChild(accept(otp('a')))
      yield* settle
      yield* TestClock.adjust('2 seconds')
      ledger.state.withdraws = true
      ledger.state.hanging = true
      yield* TestClock.adjust('500 millis')
      const [outcome] = yield* Fiber.join(waiting)
      assert.strictEqual(resultOf(outcome!), 'provider_unavailable')
      ledger.state.hanging = false
      yield* TestClock.adjust('3 seconds')
      assert.deepStrictEqual([ledger.charged.size, kafka.records.length], [0, 0])
    }),
  )

  test(
    'does not end for a recorded code while Redis confirms the other sends of its commit',
    Effect.gen(function* () {
      const { kafka, ledger, limits } = yield* Doubles
      ledger.state.behavior = 'lost reply'
      limits.state.barrier = yield* Deferred.make<void>()
      const waiting = yield* Effect.forkChild(accept(otp('a'), service('b')))
      yield* settle
      yield* TestClock.adjust('2500 millis')
      assert.deepStrictEqual((yield* Fiber.join(waiting)).map(resultOf), ['accepted', 'accepted'])
      // The relay publishes the service message.
      assert.deepStrictEqual([ledger.charged.size, kafka.records.length], [2, 1])
      // The process awaits its confirmations when it ends.
      yield* Deferred.succeed(limits.state.barrier, undefined)
    }),
  )

  // Rules: AVL-1, AVL-3
  test(
    'withdraws sends that are not being recorded: they are never recorded afterwards',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      ledger.state.barrier = yield* Deferred.make<void>()
      // All acceptance batches hang, so the others wait in the queue. After the second, each starts later.
      const hanging = []
      for (let i = 0; i < SLOW_BATCHES_IN_PROGRESS; i++) {
        hanging.push(yield* Effect.forkChild(accept(service(`hanging ${i}`))))
        yield* settle
        if (i > 0) yield* TestClock.adjust('200 millis')
      }
      const queued = yield* Effect.forkChild(accept(service('c'), otp('d')))
      yield* settle
      // The others begin to be recorded too late.
      yield* TestClock.adjust('1800 millis')
      yield* Deferred.succeed(ledger.state.barrier, undefined)
      yield* settle
      const refused = yield* Fiber.join(queued)
      assert.deepStrictEqual(refused.map(resultOf), ['internal_error', 'provider_unavailable'])
      assert.isTrue(refused.every((one) => Result.isFailure(one) && one.failure.outcome === undefined))
      yield* Effect.forEach(hanging, Fiber.join)
      assert.deepStrictEqual(
        [ledger.rows.size, kafka.records.length],
        Array(2).fill(SLOW_BATCHES_IN_PROGRESS),
      )
    }),
  )

  test(
    'makes the outcome of a code unknown while its append is in progress, also for a repeat',
    Effect.gen(function* () {
      const { kafka } = yield* Doubles
      kafka.state.barrier = yield* Deferred.make<void>()
      const first = yield* Effect.forkChild(accept(otp('a')))
      yield* settle
      const repeat = yield* Effect.forkChild(accept(otp('a')))
      yield* settle
      yield* TestClock.adjust('2500 millis')
      for (const waiting of [first, repeat]) {
        const [outcome] = yield* Fiber.join(waiting)
        assert.isTrue(Result.isFailure(outcome!) && outcome.failure.outcome === 'unknown')
      }
      yield* Deferred.succeed(kafka.state.barrier, undefined)
    }),
  )
})

describe('a process that ends', () => {
  it.effect('confirms the codes that Kafka acknowledges meanwhile', () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const context = yield* Layer.buildWithScope(acceptorOnDoubles(), scope)
      const { kafka, limits } = Context.get(context, Doubles)
      kafka.state.barrier = yield* Deferred.make<void>()
      const code = yield* Effect.forkChild(Effect.provide(accept(otp('a')), context))
      yield* settle
      const ending = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      yield* settle
      yield* Deferred.succeed(kafka.state.barrier, undefined)
      assert.deepStrictEqual((yield* Fiber.join(code)).map(resultOf), ['accepted'])
      yield* Fiber.join(ending)
      assert.deepStrictEqual([...limits.reservations.values()], ['confirmed'])
    }).pipe(Effect.provide(Logger.layer([]))),
  )
})

describe('the admission of a request', () => {
  /** A ticket that counts the sends in progress, and how many have had their outcome. */
  const ticketOf = () => {
    const counts = { inProgress: 0, finished: 0 }
    const ticket: Ticket = {
      transfer: (sends) => void (counts.inProgress += sends),
      finish: () => {
        counts.inProgress--
        counts.finished++
      },
      end: () => {},
    }
    return { counts, ticket }
  }

  test(
    'lasts until each send has its outcome, whatever it is',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      const acceptor = yield* BatchingAcceptor
      const { counts, ticket } = ticketOf()
      const acceptAs = (...sends: ReadonlyArray<CheckedSend>) => acceptor.accept(sends, { ticket })
      yield* acceptAs(service('a'), otp('b'), service('a'), service('bad', { variables: {} }))
      assert.deepStrictEqual(counts, { inProgress: 0, finished: 4 })

      kafka.state.behavior = 'refusing'
      yield* acceptAs(otp('c'))
      ledger.state.behavior = 'unavailable'
      yield* acceptAs(service('d'), otp('e'))
      assert.deepStrictEqual(counts, { inProgress: 0, finished: 7 })

      ledger.state.behavior = 'ok'
      ledger.state.hanging = true
      const hanging = yield* Effect.forkChild(acceptAs(service('f'), otp('g')))
      yield* settle
      assert.deepStrictEqual(counts, { inProgress: 2, finished: 7 })
      yield* TestClock.adjust('5 seconds')
      yield* Fiber.join(hanging)
      assert.deepStrictEqual(counts, { inProgress: 0, finished: 9 })
    }),
  )

  test(
    'lasts until the answer of each request can be written, also after a common acceptance batch',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      const acceptor = yield* BatchingAcceptor
      const { counts, ticket } = ticketOf()
      ledger.state.barrier = yield* Deferred.make<void>()
      let answered = 0
      const finishedUnanswered: Array<number> = []
      const acceptOne = Effect.andThen(acceptor.accept([service()], { ticket }), () =>
        Effect.sync(() => void finishedUnanswered.push(counts.finished - ++answered)),
      )
      const requests = yield* Effect.forEach(Array.from({ length: 50 }), () => Effect.forkChild(acceptOne))
      yield* settle
      yield* Deferred.succeed(ledger.state.barrier, undefined)
      yield* Effect.forEach(requests, Fiber.join)
      // Each request writes its answer in the turn in which its send finishes.
      assert.deepStrictEqual(
        finishedUnanswered,
        Array.from({ length: 50 }, () => 0),
      )
    }),
  )

  test(
    'goes on when the client disconnects, because its sends are still recorded',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      const acceptor = yield* BatchingAcceptor
      const { counts, ticket } = ticketOf()
      ledger.state.barrier = yield* Deferred.make<void>()
      const disconnected = yield* Effect.forkChild(acceptor.accept([service()], { ticket }))
      yield* settle
      yield* Fiber.interrupt(disconnected)
      assert.deepStrictEqual(counts, { inProgress: 1, finished: 0 })
      yield* Deferred.succeed(ledger.state.barrier, undefined)
      yield* settle
      assert.deepStrictEqual(counts, { inProgress: 0, finished: 1 })
    }),
  )

  test(
    'does not begin for sends that the acceptor refuses at once',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      const acceptor = yield* BatchingAcceptor
      const { counts, ticket } = ticketOf()
      ledger.state.hanging = true
      const one = service()
      const waiting = yield* Effect.forkChild(accept(...Array.from({ length: 20_000 }, () => one)))
      yield* settle
      yield* acceptor.accept([service()], { ticket })
      assert.deepStrictEqual(counts, { inProgress: 0, finished: 0 })
      yield* TestClock.adjust('5 seconds')
      yield* Fiber.join(waiting)
    }),
  )
})

describe('bounds', () => {
  // Rules: AVL-3, AVL-4
  test(
    'a send that waits too long is refused within 3 s, with the error of its class',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      ledger.state.barrier = yield* Deferred.make<void>()
      const waiting = yield* Effect.forkChild(accept(service(), otp()))
      yield* settle
      yield* TestClock.adjust('2600 millis')
      const outcomes = yield* Fiber.join(waiting)
      assert.deepStrictEqual(outcomes.map(resultOf), ['internal_error', 'provider_unavailable'])
      for (const outcome of outcomes) {
        assert.isTrue(Result.isFailure(outcome) && (outcome.failure.retryAfter ?? 0) >= 1)
      }
      yield* Deferred.succeed(ledger.state.barrier, undefined)
    }),
  )

  // Rules: AVL-16
  test(
    'an unavailable ledger refuses sends with internal_error and records nothing',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      ledger.state.behavior = 'unavailable'
      const outcomes = yield* accept(service('a'), otp('b'))
      assert.deepStrictEqual(outcomes.map(resultOf), ['internal_error', 'internal_error'])
      assert.deepStrictEqual([ledger.rows.size, kafka.records.length], [0, 0])
      ledger.state.behavior = 'ok'
      assert.deepStrictEqual((yield* accept(service('a'), otp('b'))).map(resultOf), ['accepted', 'accepted'])
    }),
  )

  test(
    'sends beyond the limit of waiting sends are refused at once, the others are not',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      ledger.state.hanging = true
      const one = service()
      const waiting = yield* Effect.forkChild(accept(...Array.from({ length: 20_000 }, () => one)))
      yield* settle
      const [refused] = yield* accept(service())
      assert.strictEqual(resultOf(refused!), 'overloaded')
      assert.isTrue(Result.isFailure(refused!) && (refused.failure.retryAfter ?? 0) >= 1)
      // Also past the deadlines of the last lookups, so that nothing is in progress at the end.
      yield* TestClock.adjust('5 seconds')
      assert.isTrue((yield* Fiber.join(waiting)).every((outcome) => resultOf(outcome) === 'internal_error'))
    }),
  )

  test(
    'a defect in an acceptance batch refuses its sends, and the next batch works',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      ledger.state.beforeCommit = () => {
        throw new Error('defect')
      }
      assert.strictEqual(resultOf((yield* accept(otp('a')))[0]!), 'internal_error')
      ledger.state.beforeCommit = () => {}
      assert.strictEqual(resultOf((yield* accept(otp('a')))[0]!), 'accepted')
    }),
  )
})
