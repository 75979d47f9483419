/**
 * What an acceptance batch changes besides messages: charges, flood reservations, batches and
 * stored responses. Each port fails in each of its ways, including "succeeded, but reported as
 * failed". In all cases no 202 is lost, no send has two ids, and nothing that was not accepted is
 * charged.
 */
import { assert, describe, it } from '@effect/vitest'
import { decodeOutboxRow } from '@hub/kafka'
import type { Outbox } from '@hub/outbox'
import { Deferred, Effect, Fiber, Logger, Result } from 'effect'
import { TestClock } from 'effect/testing'
import { jsonAnswer } from '../http/answer.ts'
import { toStoredResponse } from '../http/idempotency.ts'
import {
  anotherProcess,
  Doubles,
  acceptorOnDoubles,
  lockOf,
  otp,
  owner,
  service,
} from '../testing/doubles.ts'
import type { CheckedSend } from './check/checked-send.ts'
import { BatchingAcceptor } from './acceptor.ts'
import type { NewBatch, RequestContext } from './request.ts'
import type { SendOutcome } from './send.ts'

const resultOf = (outcome: SendOutcome | undefined): string =>
  outcome === undefined
    ? 'nothing'
    : Result.isSuccess(outcome)
      ? outcome.success.duplicate
        ? 'duplicate'
        : 'accepted'
      : outcome.failure.code

const messageIdOf = (outcome: SendOutcome | undefined): string | null =>
  outcome !== undefined && Result.isSuccess(outcome) ? outcome.success.view.id : null

const acceptRequest = Effect.fnUntraced(function* (
  checkedSends: ReadonlyArray<CheckedSend>,
  context: RequestContext = {},
) {
  const acceptor = yield* BatchingAcceptor
  const batch = context.batch?.id ?? null
  return yield* acceptor.accept(
    checkedSends.map((checked) => ({ ...checked, batch })),
    context,
  )
})
const outcomesOf = (...checkedSends: ReadonlyArray<CheckedSend>) =>
  Effect.map(acceptRequest(checkedSends), ({ outcomes }) => outcomes)

/** Runs all fibers until they wait for time or for a barrier. */
const settle = Effect.repeat(Effect.yieldNow, { times: 100 })

const test = (name: string, body: Effect.Effect<void, unknown, BatchingAcceptor | Doubles | Outbox>) =>
  it.effect(name, () => body.pipe(Effect.provide(acceptorOnDoubles()), Effect.provide(Logger.layer([]))))

const batchOf = (id: string, total: number, malformed = 0): NewBatch => ({ id, owner, total, malformed })

/** The batches of the `BatchSealed` records. */
const sealedBatches = (records: ReadonlyArray<{ readonly type: string; readonly key: string }>) =>
  records.filter(({ type }) => type === 'BatchSealed').map(({ key }) => key)

const BATCH = 'bat_06e9c2v5k4r8x1m7n3p0q2s6tw'
const OTHER_BATCH = 'bat_06e9c2v5k4r8x1m7n3p0q2s6tv'

describe('a flood reservation', () => {
  // Rules: LIM-10
  test(
    'is confirmed when the message is accepted, and a repeat makes none',
    Effect.gen(function* () {
      const { limits } = yield* Doubles
      yield* outcomesOf(service('a'), otp('b'))
      yield* settle
      assert.deepStrictEqual([...limits.reservations.values()], ['confirmed', 'confirmed'])
      assert.strictEqual(limits.state.counted, 2)
      limits.state.full.add(service().recipient)
      assert.deepStrictEqual((yield* outcomesOf(service('a'), otp('b'))).map(resultOf), [
        'duplicate',
        'duplicate',
      ])
      assert.deepStrictEqual((yield* outcomesOf(service('c'))).map(resultOf), ['recipient_flood_limited'])
      assert.strictEqual(limits.reservations.size, 2)
    }),
  )

  test(
    'is shared by concurrent sends with one client_ref: the second is a duplicate, not refused',
    Effect.gen(function* () {
      const { ledger, limits } = yield* Doubles
      const [theirs] = yield* outcomesOf(service('a'))
      yield* settle
      // The other process has its reservation, and its reference is committed after our lookup.
      limits.state.full.add(service().recipient)
      const [key, id] = [...ledger.references][0]!
      ledger.references.delete(key)
      ledger.state.beforeCommit = () => void ledger.references.set(key, id)
      const [mine] = yield* outcomesOf(service('a'))
      yield* settle
      assert.deepStrictEqual([resultOf(mine), messageIdOf(mine)], ['duplicate', messageIdOf(theirs)])
      // The other send uses it, so it is not released.
      assert.deepStrictEqual([...limits.reservations.values()], ['confirmed'])
    }),
  )

  test(
    'of a send whose client_ref was taken for another recipient is released',
    Effect.gen(function* () {
      const { ledger, limits } = yield* Doubles
      yield* outcomesOf(service('a', { to: '+79007654321' }))
      yield* settle
      const [key, id] = [...ledger.references][0]!
      ledger.references.delete(key)
      ledger.state.beforeCommit = () => void ledger.references.set(key, id)
      const [mine] = yield* outcomesOf(service('a'))
      yield* settle
      assert.strictEqual(resultOf(mine), 'duplicate')
      assert.strictEqual(limits.reservations.size, 1)
    }),
  )

  // Rules: LIM-9
  test(
    'is released when the spend limit is reached, and when PostgreSQL rejects the send',
    Effect.gen(function* () {
      const { ledger, limits } = yield* Doubles
      ledger.state.affordable = 1
      assert.deepStrictEqual((yield* outcomesOf(service('a'), service('b'))).map(resultOf), [
        'accepted',
        'spend_limit_reached',
      ])
      yield* settle
      assert.deepStrictEqual([...limits.reservations.values()], ['confirmed'])
      ledger.state.affordable = Infinity
      ledger.state.rejectedReference = 'poison'
      assert.deepStrictEqual((yield* outcomesOf(service('poison'))).map(resultOf), ['invalid_parameter'])
      yield* settle
      assert.strictEqual(limits.reservations.size, 1)
    }),
  )

  test(
    'is made once for a send that is retried after a split of its acceptance batch',
    Effect.gen(function* () {
      const { ledger, limits } = yield* Doubles
      ledger.state.rejectedReference = 'poison'
      const outcomes = yield* outcomesOf(service(), service(), service('poison'), service())
      yield* settle
      assert.deepStrictEqual(outcomes.map(resultOf), [
        'accepted',
        'accepted',
        'invalid_parameter',
        'accepted',
      ])
      assert.deepStrictEqual([...limits.reservations.values()], ['confirmed', 'confirmed', 'confirmed'])
      assert.strictEqual(ledger.rows.size, 3)
    }),
  )

  test(
    'is left to expire while the result of the commit is unknown, and the repeat then uses it',
    Effect.gen(function* () {
      const { ledger, limits } = yield* Doubles
      ledger.state.behavior = 'lost reply'
      ledger.state.withdraws = false
      const first = yield* Effect.forkChild(outcomesOf(otp('a')))
      yield* settle
      yield* TestClock.adjust('2500 millis')
      assert.strictEqual(resultOf((yield* Fiber.join(first))[0]), 'provider_unavailable')
      limits.state.full.add(otp().recipient)
      assert.strictEqual(resultOf((yield* outcomesOf(otp('a')))[0]), 'accepted')
      yield* settle
      assert.deepStrictEqual([...limits.reservations.values()], ['confirmed'])
      assert.strictEqual(ledger.charged.size, 1)
    }),
  )

  test(
    'is released when the commit certainly did not happen',
    Effect.gen(function* () {
      const { ledger, limits } = yield* Doubles
      ledger.state.behavior = 'unavailable'
      assert.strictEqual(resultOf((yield* outcomesOf(otp('a')))[0]), 'internal_error')
      yield* settle
      assert.strictEqual(limits.reservations.size, 0)
    }),
  )
})

describe('without counters', () => {
  for (const behavior of ['unavailable', 'lost reply'] as const) {
    test(
      `(${behavior}) codes are accepted; service messages are refused without retry_after`,
      Effect.gen(function* () {
        const { ledger, limits } = yield* Doubles
        limits.state.behavior = behavior
        const outcomes = yield* outcomesOf(otp('a'), service('b'))
        assert.deepStrictEqual(outcomes.map(resultOf), ['accepted', 'recipient_flood_limited'])
        const [, refused] = outcomes
        assert.isTrue(
          refused !== undefined && Result.isFailure(refused) && refused.failure.retryAfter === undefined,
        )
        assert.strictEqual(ledger.rows.size, 1)
        // The counters work again. A refused send has reserved nothing that its repeat cannot use.
        limits.state.behavior = 'up'
        limits.state.full.add(service().recipient)
        assert.strictEqual(
          resultOf((yield* outcomesOf(service('b')))[0]),
          behavior === 'unavailable' ? 'recipient_flood_limited' : 'accepted',
        )
      }),
    )
  }
})

describe('a code that was not published', () => {
  test(
    'costs nothing: its charge is refunded and its reservation released',
    Effect.gen(function* () {
      const { kafka, ledger, limits } = yield* Doubles
      kafka.state.behavior = 'refusing'
      assert.strictEqual(resultOf((yield* outcomesOf(otp('a')))[0]), 'provider_unavailable')
      assert.deepStrictEqual([ledger.charged.size, limits.reservations.size, limits.state.counted], [0, 0, 0])
      kafka.state.behavior = 'up'
      assert.strictEqual(resultOf((yield* outcomesOf(otp('a')))[0]), 'accepted')
      yield* settle
      assert.deepStrictEqual([ledger.charged.size, limits.reservations.size, ledger.rows.size], [1, 1, 1])
    }),
  )

  test(
    'is refused even if the refund and the release fail, and its repeat is not charged again',
    Effect.gen(function* () {
      const { kafka, ledger, limits } = yield* Doubles
      kafka.state.behavior = 'refusing'
      kafka.state.barrier = yield* Deferred.make<void>()
      const first = yield* Effect.forkChild(outcomesOf(otp('a')))
      yield* settle
      ledger.state.behavior = 'unavailable'
      limits.state.behavior = 'unavailable'
      yield* Deferred.succeed(kafka.state.barrier, undefined)
      assert.strictEqual(resultOf((yield* Fiber.join(first))[0]), 'provider_unavailable')
      assert.strictEqual(ledger.charged.size, 1)
      ledger.state.behavior = 'ok'
      limits.state.behavior = 'up'
      kafka.state.behavior = 'up'
      assert.strictEqual(resultOf((yield* outcomesOf(otp('a')))[0]), 'accepted')
      yield* settle
      assert.deepStrictEqual([ledger.charged.size, limits.reservations.size], [1, 1])
    }),
  )

  test(
    'is refunded as soon as the ledger answers again',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      kafka.state.behavior = 'refusing'
      kafka.state.barrier = yield* Deferred.make<void>()
      const sending = yield* Effect.forkChild(outcomesOf(otp('a')))
      yield* settle
      ledger.state.behavior = 'unavailable'
      yield* Deferred.succeed(kafka.state.barrier, undefined)
      yield* Fiber.join(sending)
      yield* TestClock.adjust('5 seconds')
      assert.strictEqual(ledger.charged.size, 1)
      ledger.state.behavior = 'ok'
      yield* TestClock.adjust('1 second')
      assert.strictEqual(ledger.charged.size, 0)
    }),
  )

  for (const [why, prevent, code] of [
    [
      'the lookup fails',
      ({ ledger }: Doubles['Service']) => void (ledger.state.hanging = true),
      'provider_unavailable',
    ],
    [
      'a flood window refuses it',
      ({ limits }: Doubles['Service']) => {
        limits.reservations.clear()
        limits.state.full.add(otp().recipient)
      },
      'recipient_flood_limited',
    ],
  ] as const) {
    test(
      `is refunded if it was recorded by an unknown commit, and ${why} when it is decided again`,
      Effect.gen(function* () {
        const doubles = yield* Doubles
        const { kafka, ledger } = doubles
        ledger.state.behavior = 'lost reply'
        ledger.state.withdraws = false
        const sending = yield* Effect.forkChild(outcomesOf(otp('a')))
        yield* settle
        prevent(doubles)
        ledger.state.withdraws = true
        yield* TestClock.adjust('1500 millis')
        const [outcome] = yield* Fiber.join(sending)
        assert.strictEqual(resultOf(outcome), code)
        assert.isTrue(
          outcome !== undefined && Result.isFailure(outcome) && outcome.failure.outcome !== 'unknown',
        )
        yield* TestClock.adjust('1 second')
        assert.deepStrictEqual([ledger.charged.size, kafka.records.length], [0, 0])
      }),
    )
  }

  test(
    'is refunded if the first of two unknown commits has recorded it, and the second one did not happen',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      ledger.state.behavior = 'lost reply'
      ledger.state.beforeCommit = () => {
        if (ledger.commits.length === 0) return
        ledger.state.behavior = 'lost request'
        ledger.state.hanging = true
      }
      const sending = yield* Effect.forkChild(outcomesOf(otp('a')))
      yield* settle
      yield* TestClock.adjust('1500 millis')
      assert.strictEqual(resultOf((yield* Fiber.join(sending))[0]), 'provider_unavailable')
      yield* TestClock.adjust('1 second')
      assert.deepStrictEqual([ledger.charged.size, kafka.records.length], [0, 0])
    }),
  )

  test(
    'stays charged, with an unknown outcome, while Kafka may contain it',
    Effect.gen(function* () {
      const { kafka, ledger, limits } = yield* Doubles
      kafka.state.behavior = 'lost reply'
      const sending = yield* Effect.forkChild(outcomesOf(otp('a')))
      yield* settle
      yield* TestClock.adjust('1500 millis')
      const [outcome] = yield* Fiber.join(sending)
      assert.isTrue(
        outcome !== undefined && Result.isFailure(outcome) && outcome.failure.outcome === 'unknown',
      )
      assert.deepStrictEqual([ledger.charged.size, limits.reservations.size], [1, 1])
    }),
  )

  test(
    'is published under the same id by a repeat with its idempotency key, without a client_ref',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      const messageId = 'msg_06e9c2v5k4r8x1m7n3p0q2s6tw'
      const remembered: CheckedSend = { ...otp(), messageId }
      for (const behavior of ['refusing', 'up'] as const) {
        kafka.state.behavior = behavior
        const { outcomes } = yield* acceptRequest([remembered], { lock: lockOf('k') })
        assert.strictEqual(resultOf(outcomes[0]), behavior === 'up' ? 'accepted' : 'provider_unavailable')
      }
      // A third try, as after a lost response: this is the first response that the client gets.
      const { outcomes } = yield* acceptRequest([remembered], { lock: lockOf('k') })
      assert.deepStrictEqual([resultOf(outcomes[0]), messageIdOf(outcomes[0])], ['accepted', messageId])
      assert.deepStrictEqual([ledger.rows.size, kafka.records.length], [1, 1])
    }),
  )
})

describe('a request with an idempotency key', () => {
  const contextOf = (key: string): RequestContext => ({
    lock: lockOf(key),
    response: ([outcome]) =>
      outcome !== undefined && Result.isSuccess(outcome)
        ? toStoredResponse(jsonAnswer(202, { id: outcome.success.view.id }))
        : null,
  })

  test(
    'has its response stored in the transaction of a service message, but not of a code or a repeat',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      const first = yield* acceptRequest([service('a')], contextOf('s'))
      assert.isTrue(first.responseStored)
      assert.strictEqual(
        ledger.responses.get('s')?.body,
        JSON.stringify({ id: messageIdOf(first.outcomes[0]) }),
      )
      const code = yield* acceptRequest([otp('b')], contextOf('o'))
      assert.isFalse(code.responseStored)
      assert.isFalse(ledger.responses.has('o'))
      const repeat = yield* acceptRequest([service('a')], contextOf('r'))
      assert.isFalse(repeat.responseStored)
    }),
  )

  test(
    'has both its response and its message in the ledger, or neither, whatever the commit reports',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      ledger.state.behavior = 'unavailable'
      assert.strictEqual(
        resultOf((yield* acceptRequest([service('a')], contextOf('s'))).outcomes[0]),
        'internal_error',
      )
      assert.deepStrictEqual([ledger.rows.size, ledger.responses.size], [0, 0])
      ledger.state.behavior = 'lost reply'
      assert.strictEqual(
        resultOf((yield* acceptRequest([service('a')], contextOf('s'))).outcomes[0]),
        'accepted',
      )
      assert.deepStrictEqual([ledger.rows.size, ledger.responses.size, ledger.outbox.size], [1, 1, 1])
    }),
  )

  test(
    'records nothing after it has lost its lock',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      ledger.state.lostLocks.add(lockOf('s').token)
      for (const one of [service('a'), otp('b')]) {
        assert.strictEqual(
          resultOf((yield* acceptRequest([one], contextOf('s'))).outcomes[0]),
          'idempotency_conflict',
        )
      }
      assert.deepStrictEqual([ledger.rows.size, kafka.records.length], [0, 0])
    }),
  )
})

describe('a batch', () => {
  test(
    'is sealed by the acceptance batch that makes its last outcome known, including repeats within it',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      const { batchCreatedAt, outcomes } = yield* acceptRequest(
        [service('a'), service('b'), service('a'), service('c', { variables: {} })],
        { batch: batchOf(BATCH, 5, 1) },
      )
      yield* settle
      assert.deepStrictEqual(outcomes.map(resultOf), [
        'accepted',
        'accepted',
        'duplicate',
        'template_variable_missing',
      ])
      assert.isNotNull(batchCreatedAt)
      assert.deepInclude(ledger.batches.get(BATCH), { total: 5, accepted: 2, duplicate: 1, rejected: 2 })
      assert.isNotNull(ledger.batches.get(BATCH)?.sealedAt)
      assert.deepStrictEqual([ledger.commits.length, sealedBatches(kafka.records)], [1, [BATCH]])
    }),
  )

  test(
    'with codes is sealed when the outcomes of all of them are known, and keeps them',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      kafka.state.behavior = 'hanging'
      const sending = yield* Effect.forkChild(
        acceptRequest([service('a'), otp('b')], { batch: batchOf(BATCH, 2) }),
      )
      yield* settle
      assert.strictEqual(ledger.batches.get(BATCH)?.sealedAt, null)
      yield* TestClock.adjust('1500 millis')
      const { outcomes } = yield* Fiber.join(sending)
      assert.deepStrictEqual(outcomes.map(resultOf), ['accepted', 'provider_unavailable'])
      assert.strictEqual(ledger.batches.get(BATCH)?.sealedAt, null)
      // The repeat: both messages are duplicates, because Kafka may contain the code in its batch.
      kafka.state.behavior = 'up'
      const again = yield* acceptRequest([service('a'), otp('b')], { batch: batchOf(OTHER_BATCH, 2) })
      assert.deepStrictEqual(again.outcomes.map(resultOf), ['duplicate', 'duplicate'])
      const code = [...ledger.rows.values()].find(({ fact }) => fact.class === 'otp')
      assert.strictEqual(code?.fact.batch, BATCH)
      assert.isFalse(ledger.batches.has(OTHER_BATCH))
      ledger.projected.add(code?.fact.messageId ?? '')
      yield* TestClock.adjust('1 second')
      assert.deepInclude(ledger.batches.get(BATCH), { accepted: 2, rejected: 0 })
      assert.isNotNull(ledger.batches.get(BATCH)?.sealedAt)
    }),
  )

  test(
    'that repeats a code which certainly was not published contains it',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      kafka.state.behavior = 'refusing'
      const first = yield* acceptRequest([service('a'), otp('b')], { batch: batchOf(BATCH, 2) })
      assert.deepStrictEqual(first.outcomes.map(resultOf), ['accepted', 'provider_unavailable'])
      assert.deepInclude(ledger.batches.get(BATCH), { accepted: 1, rejected: 1 })
      kafka.state.behavior = 'up'
      const again = yield* acceptRequest([service('a'), otp('b')], { batch: batchOf(OTHER_BATCH, 2) })
      assert.deepStrictEqual(again.outcomes.map(resultOf), ['duplicate', 'accepted'])
      assert.deepInclude(ledger.batches.get(OTHER_BATCH), { accepted: 1, duplicate: 1 })
      assert.strictEqual(ledger.rows.size, 2)
    }),
  )

  test(
    'that is sealed proves its codes to another process, which does not publish them again',
    Effect.gen(function* () {
      const { kafka } = yield* Doubles
      const { outcomes } = yield* acceptRequest([otp('a'), service('b')], { batch: batchOf(BATCH, 2) })
      const again = yield* Effect.provide(
        acceptRequest([otp('a'), service('b'), otp('c')], { batch: batchOf(OTHER_BATCH, 3) }),
        anotherProcess,
      )
      yield* settle
      assert.deepStrictEqual(again.outcomes.map(resultOf), ['duplicate', 'duplicate', 'accepted'])
      assert.deepStrictEqual(again.outcomes.slice(0, 2).map(messageIdOf), outcomes.map(messageIdOf))
      assert.deepStrictEqual(sealedBatches(kafka.records), [BATCH, OTHER_BATCH])
      assert.strictEqual(kafka.records.filter(({ type }) => type === 'MessageAccepted').length, 3)
    }),
  )

  test(
    'that is sealed while another process decides to publish its code again keeps the code',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      const [code] = (yield* acceptRequest([otp('a')], { batch: batchOf(BATCH, 1) })).outcomes
      const sealed = ledger.batches.get(BATCH)!
      ledger.batches.set(BATCH, { ...sealed, sealedAt: null })
      ledger.state.beforeCommit = () => void ledger.batches.set(BATCH, sealed)
      const again = yield* Effect.provide(
        acceptRequest([otp('a')], { batch: batchOf(OTHER_BATCH, 1) }),
        anotherProcess,
      )
      assert.deepStrictEqual(again.outcomes.map(resultOf), ['duplicate'])
      assert.strictEqual(messageIdOf(again.outcomes[0]), messageIdOf(code))
      assert.strictEqual(again.batchCreatedAt, null)
      assert.strictEqual(kafka.records.filter(({ type }) => type === 'MessageAccepted').length, 1)
    }),
  )

  // Rules: MSG-23
  test(
    'keeps its code when another process publishes it again before the batch is sealed',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      kafka.state.barrier = yield* Deferred.make<void>()
      const first = yield* Effect.forkChild(
        acceptRequest([otp('a'), service('b')], { batch: batchOf(BATCH, 2) }),
      )
      yield* settle
      const second = yield* Effect.forkChild(
        Effect.provide(acceptRequest([otp('a')], { batch: batchOf(OTHER_BATCH, 1) }), anotherProcess),
      )
      yield* settle
      yield* Deferred.succeed(kafka.state.barrier, undefined)
      const results = yield* Effect.forEach([first, second], Fiber.join)
      // Both processes have published the code under one id. It belongs to the first batch.
      assert.deepStrictEqual(
        results.map(({ outcomes }) => outcomes.map(resultOf)),
        [['accepted', 'accepted'], ['duplicate']],
      )
      assert.strictEqual(messageIdOf(results[0]!.outcomes[0]), messageIdOf(results[1]!.outcomes[0]))
      assert.deepInclude(ledger.batches.get(BATCH), { accepted: 2 })
      assert.isNotNull(ledger.batches.get(BATCH)?.sealedAt)
      assert.isFalse(ledger.batches.has(OTHER_BATCH))
    }),
  )

  // Rules: MSG-23
  test(
    'keeps its code after a lost answer of Kafka, although a later try was certainly not published',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      const third = 'bat_06e9c2v5k4r8x1m7n3p0q2s6tz'
      kafka.state.behavior = 'lost reply'
      const sending = yield* Effect.forkChild(acceptRequest([otp('a')], { batch: batchOf(BATCH, 1) }))
      yield* TestClock.adjust('3 seconds')
      const first = yield* Fiber.join(sending)
      kafka.state.behavior = 'refusing'
      const second = yield* acceptRequest([otp('a')], { batch: batchOf(OTHER_BATCH, 1) })
      assert.deepStrictEqual([...first.outcomes, ...second.outcomes].map(resultOf), [
        'provider_unavailable',
        'provider_unavailable',
      ])
      kafka.state.behavior = 'up'
      const { batchCreatedAt, outcomes } = yield* acceptRequest([otp('a')], { batch: batchOf(third, 1) })
      assert.deepStrictEqual(outcomes.map(resultOf), ['duplicate'])
      assert.isNull(batchCreatedAt)
      assert.deepStrictEqual(
        [...ledger.rows.values()].map(({ fact }) => fact.batch),
        [BATCH],
      )
      assert.strictEqual(kafka.records.filter(({ type }) => type === 'MessageAccepted').length, 2)
    }),
  )

  test(
    'of several acceptance batches stays open for the sweeper when a code moved to another batch',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      const laterCommits = yield* Deferred.make<void>()
      ledger.state.beforeCommit = () => void (ledger.state.barrier = laterCommits)
      const many = Array.from({ length: 1500 }, (_, i) => service(`m${i}`))
      const sending = yield* Effect.forkChild(
        acceptRequest([otp('a'), ...many], { batch: batchOf(BATCH, 1501) }),
      )
      yield* settle
      const [id, entry] = [...ledger.rows].find(([, { fact }]) => fact.class === 'otp')!
      ledger.rows.set(id, { ...entry, fact: { ...entry.fact, batch: OTHER_BATCH } })
      yield* Deferred.succeed(laterCommits, undefined)
      const { outcomes } = yield* Fiber.join(sending)
      assert.isTrue(outcomes.every((outcome) => resultOf(outcome) === 'accepted'))
      assert.strictEqual(ledger.commits.length, 2)
      assert.strictEqual(ledger.batches.get(BATCH)?.sealedAt, null)
    }),
  )

  test(
    'stays open until unpublished codes are refunded: a sealed batch would prove them',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      kafka.state.behavior = 'refusing'
      kafka.state.barrier = yield* Deferred.make<void>()
      const sending = yield* Effect.forkChild(
        acceptRequest([otp('a'), service('b')], { batch: batchOf(BATCH, 2) }),
      )
      yield* settle
      ledger.state.behavior = 'unavailable'
      yield* Deferred.succeed(kafka.state.barrier, undefined)
      assert.deepStrictEqual((yield* Fiber.join(sending)).outcomes.map(resultOf), [
        'provider_unavailable',
        'accepted',
      ])
      assert.strictEqual(ledger.batches.get(BATCH)?.sealedAt, null)
      ledger.state.behavior = 'ok'
      yield* TestClock.adjust('1 second')
      assert.deepInclude(ledger.batches.get(BATCH), { accepted: 1, rejected: 1 })
      assert.isNotNull(ledger.batches.get(BATCH)?.sealedAt)
      kafka.state.behavior = 'up'
      const again = yield* Effect.provide(acceptRequest([otp('a')]), anotherProcess)
      assert.deepStrictEqual(again.outcomes.map(resultOf), ['accepted'])
    }),
  )

  // Rules: BAT-15
  test(
    'without new messages does not exist, but a batch whose elements are all refused does',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      yield* outcomesOf(service('a'))
      const repeat = yield* acceptRequest([service('a'), service('b', { variables: {} })], {
        batch: batchOf(BATCH, 2),
      })
      assert.strictEqual(repeat.batchCreatedAt, null)
      assert.isFalse(ledger.batches.has(BATCH))
      const refused = yield* acceptRequest([], { batch: batchOf(OTHER_BATCH, 3, 3) })
      yield* settle
      assert.isNotNull(refused.batchCreatedAt)
      assert.deepInclude(ledger.batches.get(OTHER_BATCH), { total: 3, accepted: 0, rejected: 3 })
      assert.deepStrictEqual(sealedBatches(kafka.records), [OTHER_BATCH])
    }),
  )

  test(
    'does not stay open when all of its codes were refused and its other element is a duplicate',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      yield* outcomesOf(service('a'))
      kafka.state.behavior = 'refusing'
      const { batchCreatedAt, outcomes } = yield* acceptRequest([service('a'), otp('b')], {
        batch: batchOf(BATCH, 2),
      })
      yield* settle
      assert.deepStrictEqual(outcomes.map(resultOf), ['duplicate', 'provider_unavailable'])
      assert.isNull(batchCreatedAt)
      assert.isFalse(ledger.batches.has(BATCH))
      assert.deepStrictEqual(sealedBatches(kafka.records), [])
    }),
  )

  test(
    'of several acceptance batches is one batch, sealed once',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      const { outcomes } = yield* acceptRequest(
        Array.from({ length: 4500 }, (_, i) => service(`m${i}`)),
        { batch: batchOf(BATCH, 4500) },
      )
      yield* settle
      assert.isTrue(outcomes.every((outcome) => resultOf(outcome) === 'accepted'))
      assert.isAtLeast(ledger.commits.length, 3)
      assert.deepInclude(ledger.batches.get(BATCH), { accepted: 4500 })
      assert.deepStrictEqual(sealedBatches(kafka.records), [BATCH])
    }),
  )

  test(
    'that cannot be sealed is accepted, and stays open for the sweeper',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      ledger.state.sealBehavior = 'unavailable'
      const { batchCreatedAt, outcomes } = yield* acceptRequest([otp('a')], { batch: batchOf(BATCH, 1) })
      assert.deepStrictEqual(outcomes.map(resultOf), ['accepted'])
      assert.isNotNull(batchCreatedAt)
      assert.strictEqual(ledger.batches.get(BATCH)?.sealedAt, null)
      // If nothing is accepted either, the batch does not exist.
      const refused = yield* acceptRequest([], { batch: batchOf(OTHER_BATCH, 1, 1) })
      assert.strictEqual(refused.batchCreatedAt, null)
    }),
  )

  test(
    'whose seal succeeded but was reported as failed is published once, by the relay',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      ledger.state.sealBehavior = 'lost reply'
      const { outcomes } = yield* acceptRequest([otp('a')], { batch: batchOf(BATCH, 1) })
      yield* settle
      assert.deepStrictEqual(outcomes.map(resultOf), ['accepted'])
      assert.isNotNull(ledger.batches.get(BATCH)?.sealedAt)
      const inOutbox = [...ledger.outbox.values()].flatMap(({ records }) =>
        Result.getOrThrow(decodeOutboxRow(records)),
      )
      assert.deepStrictEqual([sealedBatches(kafka.records), sealedBatches(inOutbox)], [[], [BATCH]])
    }),
  )

  test(
    'whose commit ends after its deadline has an unknown outcome, and is sealed by what it recorded',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      ledger.state.barrier = yield* Deferred.make<void>()
      const sending = yield* Effect.forkChild(acceptRequest([service('a')], { batch: batchOf(BATCH, 1) }))
      yield* settle
      yield* TestClock.adjust('9 seconds')
      const [outcome] = (yield* Fiber.join(sending)).outcomes
      assert.isTrue(
        outcome !== undefined && Result.isFailure(outcome) && outcome.failure.outcome === 'unknown',
      )
      yield* Deferred.succeed(ledger.state.barrier, undefined)
      yield* settle
      yield* TestClock.adjust('1 second')
      assert.strictEqual(ledger.rows.size, 1)
      assert.deepInclude(ledger.batches.get(BATCH), { accepted: 1, rejected: 0 })
      assert.isNotNull(ledger.batches.get(BATCH)?.sealedAt)
    }),
  )

  // Rules: BAT-9
  test(
    'reads the daily limit once, and is refused as a whole before anything is created',
    Effect.gen(function* () {
      const { ledger, limits } = yield* Doubles
      yield* outcomesOf(service('known'))
      limits.state.daily = 7200
      limits.state.dailyAsked = 0
      const many = Array.from({ length: 1500 }, (_, i) => service(`m${i}`))
      const { batchCreatedAt, outcomes } = yield* acceptRequest([service('known'), ...many], {
        batch: batchOf(BATCH, 1501),
      })
      assert.isTrue(outcomes.every((one) => resultOf(one) === 'hub_daily_limit_reached'))
      assert.strictEqual(limits.state.dailyAsked, 1)
      assert.deepStrictEqual([batchCreatedAt, ledger.rows.size, limits.reservations.size], [null, 1, 1])
      // An earlier message is not a new one.
      assert.deepStrictEqual((yield* outcomesOf(service('known'))).map(resultOf), ['duplicate'])
    }),
  )
})
