/**
 * What a flush owes besides the message: money, windows, batches, answers. Each port fails in each of its ways, *done but reported as
 * failed* among them; whatever happens, no 202 is lost, nothing has two ids, and nothing is spent for nothing.
 */
import { assert, describe, it } from '@effect/vitest'
import { decodeOutboxRow } from '@hub/kafka'
import { Deferred, Effect, Fiber, Logger, Result } from 'effect'
import { TestClock } from 'effect/testing'
import { jsonAnswer } from '../http/answer.ts'
import { toStoredResponse } from '../idempotency/idempotency.ts'
import {
  anotherProcess,
  Doubles,
  acceptorOnDoubles,
  lockOf,
  otp,
  owner,
  service,
} from '../testing/doubles.ts'
import type { CheckedSend } from './checked-send.ts'
import { BatchingAcceptor } from './acceptor.ts'
import type { OutboxMode } from './outbox-mode.ts'
import type { NewBatch, SendOutcome, RequestContext } from './pending-send.ts'

const word = (outcome: SendOutcome | undefined): string =>
  outcome === undefined
    ? 'nothing'
    : Result.isSuccess(outcome)
      ? outcome.success.duplicate
        ? 'duplicate'
        : 'accepted'
      : outcome.failure.code

const idOf = (outcome: SendOutcome | undefined): string | null =>
  outcome !== undefined && Result.isSuccess(outcome) ? outcome.success.view.id : null

const submit = Effect.fnUntraced(function* (
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
  Effect.map(submit(checkedSends), ({ outcomes }) => outcomes)

/** Lets everything run that can run without time passing. */
const settle = Effect.repeat(Effect.yieldNow, { times: 100 })

const test = (name: string, body: Effect.Effect<void, unknown, BatchingAcceptor | Doubles | OutboxMode>) =>
  it.effect(name, () => body.pipe(Effect.provide(acceptorOnDoubles()), Effect.provide(Logger.layer([]))))

const batchOf = (id: string, total: number, malformed = 0): NewBatch => ({ id, owner, total, malformed })

/** Ids of batches, as Kafka has been told of their seals. */
const sealsIn = (records: ReadonlyArray<{ readonly type: string; readonly key: string }>) =>
  records.filter(({ type }) => type === 'BatchSealed').map(({ key }) => key)

const BATCH = 'bat_06e9c2v5k4r8x1m7n3p0q2s6tw'
const OTHER_BATCH = 'bat_06e9c2v5k4r8x1m7n3p0q2s6tv'

describe('a place in the windows', () => {
  test(
    'is final when the message is accepted, and a repeat takes none',
    Effect.gen(function* () {
      const { limits } = yield* Doubles
      yield* outcomesOf(service('a'), otp('b'))
      yield* settle
      assert.deepStrictEqual([...limits.reservations.values()], ['confirmed', 'confirmed'])
      assert.strictEqual(limits.state.counted, 2)
      limits.state.full.add(service().recipient)
      assert.deepStrictEqual((yield* outcomesOf(service('a'), otp('b'))).map(word), [
        'duplicate',
        'duplicate',
      ])
      assert.deepStrictEqual((yield* outcomesOf(service('c'))).map(word), ['recipient_flood_limited'])
      assert.strictEqual(limits.reservations.size, 2)
    }),
  )

  test(
    'is shared by concurrent sends with one reference: the one that comes second is a duplicate, not a flood',
    Effect.gen(function* () {
      const { ledger, limits } = yield* Doubles
      const [theirs] = yield* outcomesOf(service('a'))
      yield* settle
      // Their place is taken, and their reference is not there yet at our lookup.
      limits.state.full.add(service().recipient)
      const [key, id] = [...ledger.references][0]!
      ledger.references.delete(key)
      ledger.state.beforeCommit = () => void ledger.references.set(key, id)
      const [mine] = yield* outcomesOf(service('a'))
      yield* settle
      assert.deepStrictEqual([word(mine), idOf(mine)], ['duplicate', idOf(theirs)])
      // It is theirs, so it is not given back.
      assert.deepStrictEqual([...limits.reservations.values()], ['confirmed'])
    }),
  )

  test(
    'of a send that lost its reference to another number is given back',
    Effect.gen(function* () {
      const { ledger, limits } = yield* Doubles
      yield* outcomesOf(service('a', { to: '+79007654321' }))
      yield* settle
      const [key, id] = [...ledger.references][0]!
      ledger.references.delete(key)
      ledger.state.beforeCommit = () => void ledger.references.set(key, id)
      const [mine] = yield* outcomesOf(service('a'))
      yield* settle
      assert.strictEqual(word(mine), 'duplicate')
      assert.strictEqual(limits.reservations.size, 1)
    }),
  )

  test(
    'is given back when the money is not there, and when PostgreSQL refuses the send',
    Effect.gen(function* () {
      const { ledger, limits } = yield* Doubles
      ledger.state.affordable = 1
      assert.deepStrictEqual((yield* outcomesOf(service('a'), service('b'))).map(word), [
        'accepted',
        'spend_limit_reached',
      ])
      yield* settle
      assert.deepStrictEqual([...limits.reservations.values()], ['confirmed'])
      ledger.state.affordable = Infinity
      ledger.state.rejectedReference = 'poison'
      assert.deepStrictEqual((yield* outcomesOf(service('poison'))).map(word), ['invalid_parameter'])
      yield* settle
      assert.strictEqual(limits.reservations.size, 1)
    }),
  )

  test(
    'is not spent twice by a send that PostgreSQL has to be asked about again',
    Effect.gen(function* () {
      const { ledger, limits } = yield* Doubles
      ledger.state.rejectedReference = 'poison'
      const outcomes = yield* outcomesOf(service(), service(), service('poison'), service())
      yield* settle
      assert.deepStrictEqual(outcomes.map(word), ['accepted', 'accepted', 'invalid_parameter', 'accepted'])
      assert.deepStrictEqual([...limits.reservations.values()], ['confirmed', 'confirmed', 'confirmed'])
      assert.strictEqual(ledger.rows.size, 3)
    }),
  )

  test(
    'is left to lapse when nobody knows whether the commit happened, and is the repeat\u2019s then',
    Effect.gen(function* () {
      const { ledger, limits } = yield* Doubles
      for (const behavior of ['lost reply', 'unavailable'] as const) {
        ledger.state.behavior = behavior
        limits.state.full.clear()
        assert.strictEqual(word((yield* outcomesOf(otp(behavior)))[0]), 'internal_error')
        limits.state.full.add(otp().recipient)
        ledger.state.behavior = 'ok'
        assert.strictEqual(word((yield* outcomesOf(otp(behavior)))[0]), 'accepted')
        yield* settle
      }
      assert.deepStrictEqual([...limits.reservations.values()], ['confirmed', 'confirmed'])
      assert.strictEqual(ledger.charged.size, 2)
    }),
  )
})

describe('while the counters are away', () => {
  for (const behavior of ['unavailable', 'lost reply'] as const) {
    test(
      `(${behavior}) codes pass and service messages do not, without retry_after`,
      Effect.gen(function* () {
        const { ledger, limits } = yield* Doubles
        limits.state.behavior = behavior
        const outcomes = yield* outcomesOf(otp('a'), service('b'))
        assert.deepStrictEqual(outcomes.map(word), ['accepted', 'recipient_flood_limited'])
        const [, refused] = outcomes
        assert.isTrue(
          refused !== undefined && Result.isFailure(refused) && refused.failure.retryAfter === undefined,
        )
        assert.strictEqual(ledger.rows.size, 1)
        // Back: what was refused has spent nothing that it does not find again.
        limits.state.behavior = 'up'
        limits.state.full.add(service().recipient)
        assert.strictEqual(
          word((yield* outcomesOf(service('b')))[0]),
          behavior === 'unavailable' ? 'recipient_flood_limited' : 'accepted',
        )
      }),
    )
  }
})

describe('a code that was not published', () => {
  test(
    'costs nothing: neither money nor a place',
    Effect.gen(function* () {
      const { kafka, ledger, limits } = yield* Doubles
      kafka.state.behavior = 'refusing'
      assert.strictEqual(word((yield* outcomesOf(otp('a')))[0]), 'provider_unavailable')
      assert.deepStrictEqual([ledger.charged.size, limits.reservations.size, limits.state.counted], [0, 0, 0])
      kafka.state.behavior = 'up'
      assert.strictEqual(word((yield* outcomesOf(otp('a')))[0]), 'accepted')
      yield* settle
      assert.deepStrictEqual([ledger.charged.size, limits.reservations.size, ledger.rows.size], [1, 1, 1])
    }),
  )

  test(
    'is told so even when nothing can be given back, and its repeat is not charged twice',
    Effect.gen(function* () {
      const { kafka, ledger, limits } = yield* Doubles
      kafka.state.behavior = 'hanging'
      const first = yield* Effect.forkChild(outcomesOf(otp('a')))
      yield* settle
      ledger.state.behavior = 'unavailable'
      limits.state.behavior = 'unavailable'
      yield* TestClock.adjust('1 second')
      assert.strictEqual(word((yield* Fiber.join(first))[0]), 'provider_unavailable')
      assert.strictEqual(ledger.charged.size, 1)
      ledger.state.behavior = 'ok'
      limits.state.behavior = 'up'
      kafka.state.behavior = 'up'
      assert.strictEqual(word((yield* outcomesOf(otp('a')))[0]), 'accepted')
      yield* settle
      assert.deepStrictEqual([ledger.charged.size, limits.reservations.size], [1, 1])
    }),
  )

  test(
    'is published by the repeat of its idempotency key under the same id, without a reference',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      const messageId = 'msg_06e9c2v5k4r8x1m7n3p0q2s6tw'
      const remembered: CheckedSend = { ...otp(), messageId }
      for (const behavior of ['refusing', 'up'] as const) {
        kafka.state.behavior = behavior
        const { outcomes } = yield* submit([remembered], { lock: lockOf('k') })
        assert.strictEqual(word(outcomes[0]), behavior === 'up' ? 'accepted' : 'provider_unavailable')
      }
      // And once more, as after an answer that got lost: it is the first that the client hears of it.
      const { outcomes } = yield* submit([remembered], { lock: lockOf('k') })
      assert.deepStrictEqual([word(outcomes[0]), idOf(outcomes[0])], ['accepted', messageId])
      assert.deepStrictEqual([ledger.rows.size, kafka.records.length], [1, 1])
    }),
  )
})

describe('a request under an idempotency key', () => {
  const context = (key: string): RequestContext => ({
    lock: lockOf(key),
    response: ([outcome]) =>
      outcome !== undefined && Result.isSuccess(outcome)
        ? toStoredResponse(jsonAnswer(202, { id: outcome.success.view.id }))
        : null,
  })

  test(
    'has its answer stored with the message where that is service, and only then',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      const first = yield* submit([service('a')], context('s'))
      assert.isTrue(first.responseStored)
      assert.strictEqual(ledger.responses.get('s')?.body, JSON.stringify({ id: idOf(first.outcomes[0]) }))
      const code = yield* submit([otp('b')], context('o'))
      assert.isFalse(code.responseStored)
      assert.isFalse(ledger.responses.has('o'))
      const repeat = yield* submit([service('a')], context('r'))
      assert.isFalse(repeat.responseStored)
    }),
  )

  test(
    'has its answer and its message, or neither, however the commit ends',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      ledger.state.behavior = 'unavailable'
      assert.strictEqual(word((yield* submit([service('a')], context('s'))).outcomes[0]), 'internal_error')
      assert.deepStrictEqual([ledger.rows.size, ledger.responses.size], [0, 0])
      ledger.state.behavior = 'lost reply'
      assert.strictEqual(word((yield* submit([service('a')], context('s'))).outcomes[0]), 'internal_error')
      assert.deepStrictEqual([ledger.rows.size, ledger.responses.size, ledger.outbox.size], [1, 1, 1])
    }),
  )

  test(
    'records nothing once it has lost its claim',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      ledger.state.lostLocks.add(lockOf('s').token)
      for (const one of [service('a'), otp('b')]) {
        assert.strictEqual(word((yield* submit([one], context('s'))).outcomes[0]), 'idempotency_conflict')
      }
      assert.deepStrictEqual([ledger.rows.size, kafka.records.length], [0, 0])
    }),
  )
})

describe('a batch', () => {
  test(
    'is sealed by the flush that makes its outcome known, repeats within it included',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      const { batchCreatedAt, outcomes } = yield* submit(
        [service('a'), service('b'), service('a'), service('c', { variables: {} })],
        { batch: batchOf(BATCH, 5, 1) },
      )
      yield* settle
      assert.deepStrictEqual(outcomes.map(word), [
        'accepted',
        'accepted',
        'duplicate',
        'template_variable_missing',
      ])
      assert.isNotNull(batchCreatedAt)
      assert.deepInclude(ledger.batches.get(BATCH), { total: 5, accepted: 2, duplicate: 1, rejected: 2 })
      assert.isNotNull(ledger.batches.get(BATCH)?.sealedAt)
      assert.deepStrictEqual([ledger.commits.length, sealsIn(kafka.records)], [1, [BATCH]])
    }),
  )

  test(
    'with codes is sealed when Kafka has answered for them',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      kafka.state.behavior = 'hanging'
      const sending = yield* Effect.forkChild(submit([service('a'), otp('b')], { batch: batchOf(BATCH, 2) }))
      yield* settle
      assert.strictEqual(ledger.batches.get(BATCH)?.sealedAt, null)
      yield* TestClock.adjust('1 second')
      const { outcomes } = yield* Fiber.join(sending)
      assert.deepStrictEqual(outcomes.map(word), ['accepted', 'provider_unavailable'])
      assert.deepInclude(ledger.batches.get(BATCH), { accepted: 1, rejected: 1 })
      // The repeat: what was accepted is a duplicate, and the code is of a batch of its own.
      kafka.state.behavior = 'up'
      const again = yield* submit([service('a'), otp('b')], { batch: batchOf(OTHER_BATCH, 2) })
      assert.deepStrictEqual(again.outcomes.map(word), ['duplicate', 'accepted'])
      assert.deepInclude(ledger.batches.get(OTHER_BATCH), { accepted: 1, duplicate: 1 })
      assert.strictEqual(ledger.rows.size, 2)
    }),
  )

  test(
    'proves its codes once it is sealed: a process that knows nothing of them publishes none again',
    Effect.gen(function* () {
      const { kafka } = yield* Doubles
      const { outcomes } = yield* submit([otp('a'), service('b')], { batch: batchOf(BATCH, 2) })
      const again = yield* Effect.provide(
        submit([otp('a'), service('b'), otp('c')], { batch: batchOf(OTHER_BATCH, 3) }),
        anotherProcess,
      )
      yield* settle
      assert.deepStrictEqual(again.outcomes.map(word), ['duplicate', 'duplicate', 'accepted'])
      assert.deepStrictEqual(again.outcomes.slice(0, 2).map(idOf), outcomes.map(idOf))
      assert.deepStrictEqual(sealsIn(kafka.records), [BATCH, OTHER_BATCH])
      assert.strictEqual(kafka.records.filter(({ type }) => type === 'MessageAccepted').length, 3)
    }),
  )

  test(
    'that is sealed while another process decides to publish its code again keeps it',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      const [code] = (yield* submit([otp('a')], { batch: batchOf(BATCH, 1) })).outcomes
      const sealed = ledger.batches.get(BATCH)!
      ledger.batches.set(BATCH, { ...sealed, sealedAt: null })
      ledger.state.beforeCommit = () => void ledger.batches.set(BATCH, sealed)
      const again = yield* Effect.provide(
        submit([otp('a')], { batch: batchOf(OTHER_BATCH, 1) }),
        anotherProcess,
      )
      assert.deepStrictEqual(again.outcomes.map(word), ['duplicate'])
      assert.strictEqual(idOf(again.outcomes[0]), idOf(code))
      assert.strictEqual(again.batchCreatedAt, null)
      assert.strictEqual(kafka.records.filter(({ type }) => type === 'MessageAccepted').length, 1)
    }),
  )

  test(
    'is left to the sweeper when a code of it has become another batch\u2019s before it was sealed',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      kafka.state.barrier = yield* Deferred.make<void>()
      const first = yield* Effect.forkChild(submit([otp('a'), service('b')], { batch: batchOf(BATCH, 2) }))
      yield* settle
      const second = yield* Effect.forkChild(
        Effect.provide(submit([otp('a')], { batch: batchOf(OTHER_BATCH, 1) }), anotherProcess),
      )
      yield* settle
      yield* Deferred.succeed(kafka.state.barrier, undefined)
      const told = yield* Effect.forEach([first, second], Fiber.join)
      // Each has published it under its one id, and says so.
      assert.deepStrictEqual(
        told.map(({ outcomes }) => outcomes.map(word)),
        [['accepted', 'accepted'], ['accepted']],
      )
      assert.strictEqual(idOf(told[0]!.outcomes[0]), idOf(told[1]!.outcomes[0]))
      assert.strictEqual(ledger.batches.get(BATCH)?.sealedAt, null)
      assert.deepInclude(ledger.batches.get(OTHER_BATCH), { accepted: 1 })
      assert.isNotNull(ledger.batches.get(OTHER_BATCH)?.sealedAt)
    }),
  )

  test(
    'over several flushes is so as well',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      const rest = yield* Deferred.make<void>()
      ledger.state.beforeCommit = () => void (ledger.state.barrier = rest)
      const many = Array.from({ length: 2500 }, (_, i) => service(`m${i}`))
      const sending = yield* Effect.forkChild(submit([otp('a'), ...many], { batch: batchOf(BATCH, 2501) }))
      yield* settle
      const [id, entry] = [...ledger.rows].find(([, { fact }]) => fact.class === 'otp')!
      ledger.rows.set(id, { ...entry, fact: { ...entry.fact, batch: OTHER_BATCH } })
      yield* Deferred.succeed(rest, undefined)
      const { outcomes } = yield* Fiber.join(sending)
      assert.isTrue(outcomes.every((outcome) => word(outcome) === 'accepted'))
      assert.strictEqual(ledger.commits.length, 2)
      assert.strictEqual(ledger.batches.get(BATCH)?.sealedAt, null)
    }),
  )

  test(
    'whose unpublished codes could not be given back is left to the sweeper: it would prove them',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      kafka.state.behavior = 'hanging'
      const sending = yield* Effect.forkChild(submit([otp('a'), service('b')], { batch: batchOf(BATCH, 2) }))
      yield* settle
      ledger.state.behavior = 'unavailable'
      yield* TestClock.adjust('1 second')
      assert.deepStrictEqual((yield* Fiber.join(sending)).outcomes.map(word), [
        'provider_unavailable',
        'accepted',
      ])
      assert.strictEqual(ledger.batches.get(BATCH)?.sealedAt, null)
      ledger.state.behavior = 'ok'
      kafka.state.behavior = 'up'
      const again = yield* Effect.provide(submit([otp('a')]), anotherProcess)
      assert.deepStrictEqual(again.outcomes.map(word), ['accepted'])
    }),
  )

  test(
    'of which nothing is new does not exist, and one that is all refused does',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      yield* outcomesOf(service('a'))
      const repeat = yield* submit([service('a'), service('b', { variables: {} })], {
        batch: batchOf(BATCH, 2),
      })
      assert.strictEqual(repeat.batchCreatedAt, null)
      assert.isFalse(ledger.batches.has(BATCH))
      const refused = yield* submit([], { batch: batchOf(OTHER_BATCH, 3, 3) })
      yield* settle
      assert.isNotNull(refused.batchCreatedAt)
      assert.deepInclude(ledger.batches.get(OTHER_BATCH), { total: 3, accepted: 0, rejected: 3 })
      assert.deepStrictEqual(sealsIn(kafka.records), [OTHER_BATCH])
    }),
  )

  test(
    'over several flushes is one batch, sealed once',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      const { outcomes } = yield* submit(
        Array.from({ length: 4500 }, (_, i) => service(`m${i}`)),
        { batch: batchOf(BATCH, 4500) },
      )
      yield* settle
      assert.isTrue(outcomes.every((outcome) => word(outcome) === 'accepted'))
      assert.isAtLeast(ledger.commits.length, 3)
      assert.deepInclude(ledger.batches.get(BATCH), { accepted: 4500 })
      assert.deepStrictEqual(sealsIn(kafka.records), [BATCH])
    }),
  )

  test(
    'that cannot be sealed is accepted all the same, and left to the sweeper',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      ledger.state.sealBehavior = 'unavailable'
      const { batchCreatedAt, outcomes } = yield* submit([otp('a')], { batch: batchOf(BATCH, 1) })
      assert.deepStrictEqual(outcomes.map(word), ['accepted'])
      assert.isNotNull(batchCreatedAt)
      assert.strictEqual(ledger.batches.get(BATCH)?.sealedAt, null)
      // With nothing accepted there is nothing to tell of.
      const refused = yield* submit([], { batch: batchOf(OTHER_BATCH, 1, 1) })
      assert.strictEqual(refused.batchCreatedAt, null)
    }),
  )

  test(
    'sealed by a call that was reported as failed is sealed once, by the outbox',
    Effect.gen(function* () {
      const { kafka, ledger } = yield* Doubles
      ledger.state.sealBehavior = 'lost reply'
      const { outcomes } = yield* submit([otp('a')], { batch: batchOf(BATCH, 1) })
      yield* settle
      assert.deepStrictEqual(outcomes.map(word), ['accepted'])
      assert.isNotNull(ledger.batches.get(BATCH)?.sealedAt)
      const waiting = [...ledger.outbox.values()].flatMap((row) => Result.getOrThrow(decodeOutboxRow(row)))
      assert.deepStrictEqual([sealsIn(kafka.records), sealsIn(waiting)], [[], [BATCH]])
    }),
  )

  test(
    'whose commit nobody answered for is not sealed: what it recorded is the sweeper\u2019s to count',
    Effect.gen(function* () {
      const { ledger } = yield* Doubles
      ledger.state.barrier = yield* Deferred.make<void>()
      const sending = yield* Effect.forkChild(submit([service('a')], { batch: batchOf(BATCH, 1) }))
      yield* settle
      yield* TestClock.adjust('3 seconds')
      assert.deepStrictEqual((yield* Fiber.join(sending)).outcomes.map(word), ['internal_error'])
      yield* Deferred.succeed(ledger.state.barrier, undefined)
      yield* settle
      assert.strictEqual(ledger.rows.size, 1)
      assert.isTrue(ledger.batches.has(BATCH))
      assert.strictEqual(ledger.batches.get(BATCH)?.sealedAt, null)
    }),
  )

  test(
    'asks the hub\u2019s day once, and is refused whole before anything is created',
    Effect.gen(function* () {
      const { ledger, limits } = yield* Doubles
      yield* outcomesOf(service('known'))
      limits.state.daily = 7200
      limits.state.dailyAsked = 0
      const many = Array.from({ length: 2500 }, (_, i) => service(`m${i}`))
      const { batchCreatedAt, outcomes } = yield* submit([service('known'), ...many], {
        batch: batchOf(BATCH, 2501),
      })
      assert.isTrue(outcomes.every((one) => word(one) === 'hub_daily_limit_reached'))
      assert.strictEqual(limits.state.dailyAsked, 1)
      assert.deepStrictEqual([batchCreatedAt, ledger.rows.size, limits.reservations.size], [null, 1, 1])
      // What was accepted before is no new message.
      assert.deepStrictEqual((yield* outcomesOf(service('known'))).map(word), ['duplicate'])
    }),
  )
})
