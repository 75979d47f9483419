import { assert, describe, it } from '@effect/vitest'
import { decodeFact } from '@hub/kafka'
import { Deferred, Effect, Fiber, Logger, Result } from 'effect'
import { TestClock } from 'effect/testing'
import { Doubles, acceptorOnDoubles, otp, service } from '../testing/doubles.ts'
import type { CheckedSend } from './checked-send.ts'
import { BatchingAcceptor } from './acceptor.ts'
import { OutboxMode } from './outbox-mode.ts'
import type { SendOutcome } from './pending-send.ts'

/** What became of a send, in a word or two. */
const word = (outcome: SendOutcome): string =>
  Result.isSuccess(outcome) ? (outcome.success.duplicate ? 'duplicate' : 'accepted') : outcome.failure.code

const idOf = (outcome: SendOutcome): string | null =>
  Result.isSuccess(outcome) ? outcome.success.view.id : null

const accept = Effect.fnUntraced(function* (...checkedSends: ReadonlyArray<CheckedSend>) {
  const acceptor = yield* BatchingAcceptor
  return (yield* acceptor.accept(checkedSends)).outcomes
})

/** Lets everything run that can run without time passing. */
const settle = Effect.repeat(Effect.yieldNow, { times: 100 })

const test = (name: string, body: Effect.Effect<void, unknown, BatchingAcceptor | Doubles | OutboxMode>) =>
  it.effect(name, () => body.pipe(Effect.provide(acceptorOnDoubles()), Effect.provide(Logger.layer([]))))

const republishedFlags = (records: ReadonlyArray<{ readonly value: Uint8Array }>) =>
  records.map((record) => {
    const fact = Result.getOrThrow(decodeFact(record))
    return fact.type === 'MessageAccepted' && fact.republished
  })

describe('a flush', () => {
  test(
    'takes everything that came while others were under way',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      ledger.state.barrier = yield* Deferred.make<void>()
      const first = yield* Effect.forkChild(accept(service()))
      yield* settle
      const second = yield* Effect.forkChild(accept(service()))
      yield* settle
      const rest = yield* Effect.forkChild(
        Effect.all(
          Array.from({ length: 10 }, () => accept(service())),
          { concurrency: 'unbounded' },
        ),
      )
      yield* settle
      yield* Deferred.succeed(ledger.state.barrier, undefined)
      yield* Fiber.join(first)
      yield* Fiber.join(second)
      yield* Fiber.join(rest)
      assert.deepStrictEqual(ledger.commits, [1, 1, 10])
    }),
  )

  test(
    'makes one message of many repeats',
    Effect.gen(function* () {
      const { kafka } = yield* Doubles
      const outcomes = yield* accept(...Array.from({ length: 50 }, () => otp('same')))
      assert.strictEqual(outcomes.filter((one) => word(one) === 'accepted').length, 1)
      assert.strictEqual(outcomes.filter((one) => word(one) === 'duplicate').length, 49)
      assert.strictEqual(new Set(outcomes.map(idOf)).size, 1)
      assert.strictEqual(kafka.records.length, 1)
    }),
  )

  test(
    'answers with the message of another process that was quicker',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      const [theirs] = yield* accept(service('other'))
      const [key, id] = [...ledger.references][0]!
      // Not there yet at the lookup, there at the commit.
      ledger.references.delete(key)
      ledger.state.beforeCommit = () => void ledger.references.set(key, id)
      const [mine] = yield* accept(service('other'))
      assert.deepStrictEqual([word(mine!), idOf(mine!)], ['duplicate', idOf(theirs!)])
      assert.strictEqual(kafka.records.length, 1)
    }),
  )

  test(
    'keeps the order of a request, whatever becomes of each',
    Effect.gen(function* () {
      yield* accept(service('known'))
      const outcomes = yield* accept(
        service('new'),
        service('known'),
        service('bad', { variables: {} }),
        otp('code'),
        service('new'),
      )
      assert.deepStrictEqual(outcomes.map(word), [
        'accepted',
        'duplicate',
        'template_variable_missing',
        'accepted',
        'duplicate',
      ])
    }),
  )

  test(
    'that PostgreSQL refuses for its data fails the one at fault alone',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      ledger.state.rejectedReference = 'poison'
      const outcomes = yield* accept(
        ...Array.from({ length: 20 }, (_, i) =>
          (i % 2 === 0 ? service : otp)(i === 13 ? 'poison' : `fine-${i}`),
        ),
      )
      assert.deepStrictEqual(
        outcomes.map(word),
        outcomes.map((_, i) => (i === 13 ? 'invalid_parameter' : 'accepted')),
      )
      assert.strictEqual(new Set(kafka.records.map(({ id }) => id)).size, 19)
    }),
  )

  test(
    'is bounded by bytes',
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
  test(
    'is answered when it is recorded, and published by the relay when Kafka fails',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      const outboxMode = yield* OutboxMode
      kafka.state.behavior = 'hanging'
      const [outcome] = yield* accept(service('a'))
      assert.strictEqual(word(outcome!), 'accepted')
      assert.strictEqual(ledger.outbox.size, 1)
      assert.isFalse(outboxMode.isRelaying())
      yield* TestClock.adjust('1 second')
      assert.isTrue(outboxMode.isRelaying())

      // Kafka is back, but what comes now must not overtake what waits.
      kafka.state.behavior = 'up'
      yield* accept(service('b'))
      yield* settle
      assert.deepStrictEqual([kafka.records.length, ledger.outbox.size], [0, 2])
      // Codes wait for nobody.
      yield* accept(otp('c'))
      assert.strictEqual(kafka.records.length, 1)

      outboxMode.switchToDirect(outboxMode.relayBacklog().count)
      yield* accept(service('d'))
      yield* settle
      assert.strictEqual(kafka.records.length, 2)
    }),
  )

  test(
    'loses its outbox row once Kafka has it',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      const outcomes = yield* accept(service(), service())
      assert.deepStrictEqual(outcomes.map(word), ['accepted', 'accepted'])
      yield* TestClock.adjust('200 millis')
      assert.deepStrictEqual([kafka.records.length, ledger.outbox.size], [2, 0])
    }),
  )

  test(
    'recorded by a commit that was reported as failed is a duplicate when repeated',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      ledger.state.behavior = 'lost reply'
      const [first] = yield* accept(service('a'))
      assert.strictEqual(word(first!), 'internal_error')
      ledger.state.behavior = 'ok'
      const [second] = yield* accept(service('a'))
      assert.strictEqual(word(second!), 'duplicate')
      assert.strictEqual(ledger.rows.size, 1)
      // Its outbox row is what the relay will find.
      assert.strictEqual(ledger.outbox.size, 1)
    }),
  )
})

describe('a code', () => {
  test(
    'is accepted by the acknowledgement only',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      kafka.state.behavior = 'refusing'
      const [first] = yield* accept(otp('a'))
      assert.strictEqual(word(first!), 'provider_unavailable')
      assert.strictEqual(ledger.outbox.size, 0)
      kafka.state.behavior = 'up'
      const [second] = yield* accept(otp('a'))
      // Nobody was told that it was accepted before, so this is no duplicate.
      assert.deepStrictEqual([word(second!), idOf(second!)], ['accepted', [...ledger.rows.keys()][0]])
      assert.deepStrictEqual(republishedFlags(kafka.records), [true])
      assert.strictEqual(word((yield* accept(otp('a')))[0]!), 'duplicate')
      assert.strictEqual(kafka.records.length, 1)
    }),
  )

  test(
    'that landed although Kafka did not say so is published again under the same id',
    Effect.gen(function* () {
      const { kafka } = yield* Doubles
      kafka.state.behavior = 'lost reply'
      const first = yield* Effect.forkChild(accept(otp('a')))
      yield* settle
      yield* TestClock.adjust('1 second')
      assert.strictEqual(word((yield* Fiber.join(first))[0]!), 'provider_unavailable')
      kafka.state.behavior = 'up'
      assert.strictEqual(word((yield* accept(otp('a')))[0]!), 'accepted')
      assert.strictEqual(new Set(kafka.records.map(({ id }) => id)).size, 1)
      assert.deepStrictEqual(republishedFlags(kafka.records), [false, true])
    }),
  )

  test(
    'that is in the read model is a duplicate, whatever Kafka said',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      kafka.state.behavior = 'refusing'
      yield* accept(otp('a'))
      ledger.projected.add([...ledger.rows.keys()][0]!)
      assert.strictEqual(word((yield* accept(otp('a')))[0]!), 'duplicate')
    }),
  )

  test(
    'repeated while it is being published waits with it and is not published twice',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      kafka.state.behavior = 'hanging'
      const first = yield* Effect.forkChild(accept(otp('a')))
      yield* settle
      const second = yield* Effect.forkChild(accept(otp('a')))
      yield* settle
      assert.strictEqual(ledger.commits.length, 1)
      yield* TestClock.adjust('1 second')
      assert.deepStrictEqual(
        [word((yield* Fiber.join(first))[0]!), word((yield* Fiber.join(second))[0]!)],
        ['provider_unavailable', 'provider_unavailable'],
      )
    }),
  )

  test(
    'recorded by a commit that was reported as failed is published by the repeat',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      ledger.state.behavior = 'lost reply'
      assert.strictEqual(word((yield* accept(otp('a')))[0]!), 'internal_error')
      assert.strictEqual(kafka.records.length, 0)
      ledger.state.behavior = 'ok'
      assert.strictEqual(word((yield* accept(otp('a')))[0]!), 'accepted')
      assert.strictEqual(ledger.rows.size, 1)
      assert.strictEqual(kafka.records.length, 1)
    }),
  )

  test(
    'whose client was told that it is too late does not go out behind its back',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      ledger.state.barrier = yield* Deferred.make<void>()
      const waiting = yield* Effect.forkChild(accept(otp('a')))
      yield* settle
      yield* TestClock.adjust('3 seconds')
      assert.strictEqual(word((yield* Fiber.join(waiting))[0]!), 'provider_unavailable')
      yield* Deferred.succeed(ledger.state.barrier, undefined)
      yield* settle
      assert.strictEqual(ledger.rows.size, 1)
      assert.strictEqual(kafka.records.length, 0)
    }),
  )
})

describe('bounds', () => {
  test(
    'what waits too long is answered within 3 s, by class',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      ledger.state.barrier = yield* Deferred.make<void>()
      const waiting = yield* Effect.forkChild(accept(service(), otp()))
      yield* settle
      yield* TestClock.adjust('2600 millis')
      const outcomes = yield* Fiber.join(waiting)
      assert.deepStrictEqual(outcomes.map(word), ['internal_error', 'provider_unavailable'])
      for (const outcome of outcomes) {
        assert.isTrue(Result.isFailure(outcome) && (outcome.failure.retryAfter ?? 0) >= 1)
      }
      yield* Deferred.succeed(ledger.state.barrier, undefined)
    }),
  )

  test(
    'a ledger that is away is an internal error with retry_after, and leaves nothing',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      ledger.state.behavior = 'unavailable'
      const outcomes = yield* accept(service('a'), otp('b'))
      assert.deepStrictEqual(outcomes.map(word), ['internal_error', 'internal_error'])
      assert.deepStrictEqual([ledger.rows.size, kafka.records.length], [0, 0])
      ledger.state.behavior = 'ok'
      assert.deepStrictEqual((yield* accept(service('a'), otp('b'))).map(word), ['accepted', 'accepted'])
    }),
  )

  test(
    'more sends than may wait are refused at once, the others are not',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      ledger.state.hanging = true
      const one = service()
      const waiting = yield* Effect.forkChild(accept(...Array.from({ length: 20_000 }, () => one)))
      yield* settle
      const [refused] = yield* accept(service())
      assert.strictEqual(word(refused!), 'internal_error')
      assert.isTrue(Result.isFailure(refused!) && refused.failure.retryAfter === 1)
      // Past the deadlines of the last lookups as well, so that nothing is under way at the end.
      yield* TestClock.adjust('5 seconds')
      assert.isTrue((yield* Fiber.join(waiting)).every((outcome) => word(outcome) === 'internal_error'))
    }),
  )

  test(
    'a flush that fails in a way nobody thought of is answered, and the next one works',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      ledger.state.beforeCommit = () => {
        throw new Error('unthought of')
      }
      assert.strictEqual(word((yield* accept(otp('a')))[0]!), 'internal_error')
      ledger.state.beforeCommit = () => {}
      assert.strictEqual(word((yield* accept(otp('a')))[0]!), 'accepted')
    }),
  )
})
