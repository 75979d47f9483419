/** How the handover loop orders messages, and groups them for an operator. */
import { assert, describe, it } from '@effect/vitest'
import type { Operator, Submission, SubmitOutcome } from '@hub/operator'
import { Tracing } from '@hub/telemetry'
import { Deferred, Effect } from 'effect'
import { type HandoverLoop, makeHandoverLoop } from './handover-loop.ts'
import type { Metrics } from '../metrics.ts'
import type { ShardRuntime } from '../shard/shard-runtime.ts'
import type { ShardInput } from '../shard/inputs.ts'
import type { Message, PreparedSubmission } from '../shard/message.ts'
import { grantOf } from '../testing/grant.ts'
import { MessageTraces } from '../tracing/message-traces.ts'

type AnsweredInput = Extract<ShardInput, { readonly type: 'answered' }>

const NOW = 100_000
const ACCOUNT = 'acc_a'
const messageOf = (id: string, account = ACCOUNT, parts = 1) =>
  ({
    id,
    account,
    lane: 0,
    route: 'op',
    laneRecord: { parts },
    state: { class: 'otp', attempts: 1 },
  }) as Message

const submissionOf = (reference: string) =>
  ({ request: { reference, parts: 1 }, acceptedAt: 0, expiresAt: 60_000, mode: 'live' }) as PreparedSubmission

const makeLoop = (
  operator: Operator,
  shards: ReadonlyArray<ShardRuntime>,
  weightOf: (account: string) => number = () => 1,
  observed: Array<readonly [operator: string, lane: number, index: number, waitMs: number]> = [],
  pacing: Partial<
    Pick<Parameters<typeof makeHandoverLoop>[0], 'appendDelayMs' | 'apply' | 'monotonicNow' | 'requestGrant'>
  > = {},
) =>
  Effect.gen(function* () {
    return yield* makeHandoverLoop({
      operators: [operator],
      shards: () => shards,
      mayStart: () => true,
      weightOf,
      appendDelayMs: () => 0,
      apply: (change) => change(),
      now: () => NOW,
      monotonicNow: () => NOW,
      requestGrant: () => Effect.succeed(null),
      ...pacing,
      metrics: {
        accounts: (...values: (typeof observed)[number]) => observed.push(values),
        acceptedByOperator: () => {},
        submitAnswered: () => {},
        partsAnswered: () => {},
        leaseStopped: () => {},
      } as unknown as Metrics,
      traces: new MessageTraces(yield* Tracing, 'group'),
      supervise: (effect) => Effect.asVoid(Effect.orDie(effect)),
    })
  })

/** Hands three messages over through a shard stub, and returns the outcomes by message id. */
const submitMessages = (submit: Operator['submit'], submitsIndividually: boolean) =>
  Effect.gen(function* () {
    const outcomes = new Map<string, string>()
    const allAnswered = yield* Deferred.make<void>()
    const waiting = ['msg_slow', 'msg_a', 'msg_b'].map((id) => messageOf(id))
    const count = waiting.length
    let started = 0
    let loop: HandoverLoop | null = null
    const shard = {
      handle: { isCurrent: () => true, hasLease: () => true },
      messages: { handovers: { countAt: () => 0, count: 0 }, take: () => waiting.shift() ?? null },
      start: (message: Message) => {
        loop?.enqueueClaimed(shard, message, submissionOf(message.id))
        // All claims are acknowledged together.
        if (++started === count) loop?.dispatch()
      },
      run: ({ message, outcome }: AnsweredInput) => {
        outcomes.set(message.id, outcome.type)
        const expected = submitsIndividually ? count - 1 : count
        if (outcomes.size >= expected) Deferred.doneUnsafe(allAnswered, Effect.void)
      },
    } as unknown as ShardRuntime
    const operator: Operator = {
      name: 'op',
      capabilities: { dedupesByReference: false, window: 10, submitsIndividually },
      submit,
      resume: () => Effect.void,
    }
    loop = yield* makeLoop(operator, [shard])
    loop.onReady(shard, 0, 'op', ACCOUNT)
    loop.dispatch()
    yield* Deferred.await(allAnswered)
    return outcomes
  })

const accepted = ({ reference }: Submission): SubmitOutcome => ({
  type: 'accepted',
  operatorIds: [reference],
})

describe('the handover loop', () => {
  it.effect('starts the `otp` messages of all shards before any `service` message', () =>
    Effect.gen(function* () {
      const started: Array<string> = []
      const shardOf = (name: string) => {
        const lanes = ['otp', 'service'].map((lane) => [1, 2].map((n) => messageOf(`${lane}_${name}${n}`)))
        return {
          messages: {
            handovers: { countAt: () => 0, count: 0 },
            take: (lane: number) => lanes[lane]!.shift() ?? null,
          },
          start: ({ id }: Message) => started.push(id),
        } as unknown as ShardRuntime
      }
      const operator: Operator = {
        name: 'op',
        capabilities: { dedupesByReference: false, window: 100 },
        submit: () => Effect.never,
        resume: () => Effect.void,
      }
      const shards = ['a', 'b', 'c'].map(shardOf)
      const loop = yield* makeLoop(operator, shards)
      for (const shard of shards) for (const lane of [0, 1]) loop.onReady(shard, lane, 'op', ACCOUNT)
      loop.dispatch()
      const inTurn = ['a1', 'b1', 'c1', 'a2', 'b2', 'c2']
      assert.deepStrictEqual(
        started,
        ['otp', 'service'].flatMap((lane) => inTurn.map((message) => `${lane}_${message}`)),
      )
    }).pipe(Effect.scoped),
  )

  it.effect('lets the accounts of all shards take turns, and counts the parts of their messages', () =>
    Effect.gen(function* () {
      const started: Array<string> = []
      const shardOf = (waiting: Readonly<Record<string, ReadonlyArray<Message>>>) => {
        const queues = new Map(Object.entries(waiting).map(([account, messages]) => [account, [...messages]]))
        return {
          messages: {
            handovers: {
              countAt: () => 0,
              count: 0,
            },
            take: (_lane: number, _operator: string, account: string) => queues.get(account)?.shift() ?? null,
          },
          start: ({ id }: Message) => started.push(id),
        } as unknown as ShardRuntime
      }
      const campaign = (name: string) =>
        Array.from({ length: 4 }, (_, i) => messageOf(`${name}${i + 1}`, 'acc_a'))
      // All messages of B are in one of the three shards, and have two parts.
      const shards = [
        shardOf({ acc_a: campaign('a') }),
        shardOf({ acc_a: campaign('b') }),
        shardOf({
          acc_a: campaign('c'),
          acc_b: Array.from({ length: 3 }, (_, i) => messageOf(`other${i + 1}`, 'acc_b', 2)),
        }),
      ]
      const loop = yield* makeLoop(
        {
          name: 'op',
          capabilities: { dedupesByReference: false, window: 100 },
          submit: () => Effect.never,
          resume: () => Effect.void,
        },
        shards,
      )
      for (const shard of shards) loop.onReady(shard, 1, 'op', 'acc_a')
      loop.onReady(shards[2]!, 1, 'op', 'acc_b')
      // A closed shard still has messages.
      loop.onReady(shardOf({ acc_c: [messageOf('closed', 'acc_c')] }), 1, 'op', 'acc_c')
      loop.dispatch()
      const parts = { campaign: 0, other: 0 }
      for (const id of started.slice(0, 9)) {
        if (id.startsWith('other')) parts.other += 2
        else parts.campaign += 1
        assert.isAtMost(Math.abs(parts.campaign - parts.other), 2)
      }
      assert.strictEqual(started.length, 15)
      assert.deepStrictEqual(started.filter((id) => !id.startsWith('other')).slice(0, 6), [
        'a1',
        'b1',
        'c1',
        'a2',
        'b2',
        'c2',
      ])
    }).pipe(Effect.scoped),
  )

  it.effect('gives an account more turns by its weight', () =>
    Effect.gen(function* () {
      const started: Array<string> = []
      const shard = {
        messages: {
          handovers: {
            countAt: () => 0,
            count: 0,
          },
          take: (_lane: number, _operator: string, account: string) => messageOf('msg', account),
        },
        start: ({ account }: Message) => started.push(account),
      } as unknown as ShardRuntime
      const operator: Operator = {
        name: 'op',
        capabilities: { dedupesByReference: false, window: 50 },
        submit: () => Effect.never,
        resume: () => Effect.void,
      }
      const loop = yield* makeLoop(operator, [shard], (account) => (account === 'acc_heavy' ? 3 : 1))
      for (const account of ['acc_light', 'acc_heavy']) loop.onReady(shard, 0, 'op', account)
      loop.dispatch()
      assert.lengthOf(started, 50)
      const heavy = started.slice(0, 48).filter((account) => account === 'acc_heavy')
      assert.isAtMost(Math.abs(heavy.length - 36), 1)
    }).pipe(Effect.scoped),
  )

  it.effect('has few claims without an acknowledgement while Kafka is slow', () =>
    Effect.gen(function* () {
      let delayMs = 10
      let unacknowledged = 0
      let started = 0
      const shard = {
        messages: {
          handovers: {
            countAt: () => 0,
            count: 0,
            get unacknowledged() {
              return unacknowledged
            },
          },
          take: () => messageOf('msg'),
        },
        start: () => started++,
      } as unknown as ShardRuntime
      const operator: Operator = {
        name: 'op',
        capabilities: { dedupesByReference: false, window: 100 },
        submit: () => Effect.never,
        resume: () => Effect.void,
      }
      const loop = yield* makeLoop(operator, [shard], () => 1, [], { appendDelayMs: () => delayMs })
      loop.onReady(shard, 0, 'op', ACCOUNT)
      const startedBy = () => {
        started = 0
        loop.dispatch()
        return started
      }
      assert.strictEqual(startedBy(), 100)
      delayMs = 250
      assert.strictEqual(startedBy(), 32)
      unacknowledged = 30
      assert.strictEqual(startedBy(), 2)
      unacknowledged = 100
      assert.strictEqual(startedBy(), 0)
    }).pipe(Effect.scoped),
  )

  /** The operator accepts three messages of A for each of B, while both wait. */
  const observed = (weightOfA: number) =>
    Effect.gen(function* () {
      const waiting = ['acc_a', 'acc_b'].map((account, i) => ({
        account,
        isBehind: i === 0,
        oldest: () => ({ laneRecord: { at: NOW - 1000 * (i + 1) } }),
      }))
      const messages = ['acc_a', 'acc_a', 'acc_a', 'acc_b'].map((account) => messageOf('msg', account))
      let loop: HandoverLoop | null = null
      const answered = yield* Deferred.make<void>()
      let answers = 0
      const shard = {
        handle: { isCurrent: () => true, hasLease: () => true },
        messages: {
          handovers: { countAt: () => 0, count: 0 },
          take: () => messages.shift() ?? null,
          queues: { shares: (lane: number) => (lane === 0 ? waiting : []) },
        },
        start: (message: Message) => loop?.enqueueClaimed(shard, message, submissionOf(message.id)),
        run: () => {
          if (++answers === 4) Deferred.doneUnsafe(answered, Effect.void)
        },
      } as unknown as ShardRuntime
      const operator: Operator = {
        name: 'op',
        capabilities: { dedupesByReference: false, window: 10 },
        submit: (batch) => Effect.succeed(batch.map(accepted)),
        resume: () => Effect.void,
      }
      const found: NonNullable<Parameters<typeof makeLoop>[3]> = []
      loop = yield* makeLoop(operator, [shard], (account) => (account === 'acc_a' ? weightOfA : 1), found)
      loop.onReady(shard, 0, 'op', 'acc_a')
      loop.dispatch()
      loop.dispatch()
      yield* Deferred.await(answered)
      for (let second = 0; second < 60; second++) loop.observeAccounts()
      return found.slice(-2)
    })

  it.effect('measures how equally accounts share, by their weights, and the longest wait', () =>
    Effect.gen(function* () {
      const nothing = ['op', 1, 1, 0] as const
      assert.deepStrictEqual(yield* observed(1), [['op', 0, 16 / 20, 2000], nothing])
      assert.deepStrictEqual(yield* observed(3), [['op', 0, 1, 2000], nothing])
    }).pipe(Effect.scoped),
  )

  it.effect('continues by itself with each tenth of a second of the slow start', () =>
    Effect.gen(function* () {
      const allAnswered = yield* Deferred.make<void>()
      const waiting = Array.from({ length: 20 }, (_, i) => messageOf(`msg_${i}`))
      let answers = 0
      let requests = 0
      let loop: HandoverLoop | null = null
      const shard = {
        handle: { isCurrent: () => true, hasLease: () => true },
        messages: {
          handovers: {
            countAt: () => 0,
            count: 0,
          },
          take: () => waiting.shift() ?? null,
          queues: {
            peek: () => waiting[0] ?? null,
            count: (lane: number) => (lane === 0 ? waiting.length : 0),
          },
        },
        start: (message: Message) => {
          loop?.enqueueClaimed(shard, message, submissionOf(message.id))
          // Its claim is acknowledged.
          queueMicrotask(() => loop?.dispatch())
        },
        run: () => {
          if (++answers === 20) Deferred.doneUnsafe(allAnswered, Effect.void)
        },
      } as unknown as ShardRuntime
      loop = yield* makeLoop(
        {
          name: 'op',
          capabilities: { dedupesByReference: false, window: 100, isPaced: true },
          submit: (batch) => Effect.succeed(batch.map(accepted)),
          resume: () => Effect.void,
        },
        [shard],
        () => 1,
        [],
        {
          apply: (change) => {
            change()
            loop?.dispatch()
          },
          monotonicNow: () => performance.now(),
          // The second request gets no answer, so only timers of the slow start wake the loop.
          requestGrant: () =>
            requests++ === 0 ? Effect.succeed(grantOf({ rate: null, retryInMs: 1000 })) : Effect.never,
        },
      )
      loop.onReady(shard, 0, 'op', ACCOUNT)
      loop.dispatch()
      yield* Deferred.await(allAnswered)
    }).pipe(Effect.scoped),
  )

  it.effect('submits to an individual operator without waiting for the slowest answer', () =>
    Effect.gen(function* () {
      const outcomes = yield* submitMessages(
        (batch) =>
          batch.some(({ reference }) => reference === 'msg_slow')
            ? Effect.never
            : Effect.succeed(batch.map(accepted)),
        true,
      )
      assert.deepStrictEqual(
        Array.from(outcomes).sort(([a], [b]) => (a < b ? -1 : 1)),
        [
          ['msg_a', 'accepted'],
          ['msg_b', 'accepted'],
        ],
      )
    }).pipe(Effect.scoped),
  )

  it.effect('submits messages that were claimed together in one batch', () =>
    Effect.gen(function* () {
      const batches: Array<number> = []
      const outcomes = yield* submitMessages((batch) => {
        batches.push(batch.length)
        return Effect.succeed(batch.map(accepted))
      }, false)
      assert.deepStrictEqual(batches, [3])
      assert.strictEqual(outcomes.size, 3)
    }).pipe(Effect.scoped),
  )
})
