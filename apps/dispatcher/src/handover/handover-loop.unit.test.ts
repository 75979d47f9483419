/** How the handover loop orders messages, and groups them for an operator. */
import { assert, describe, it } from '@effect/vitest'
import type { Operator, Submission, SubmitOutcome } from '@hub/operator'
import { Tracing } from '@hub/telemetry'
import { Deferred, Effect } from 'effect'
import { type HandoverLoop, makeHandoverLoop } from './handover-loop.ts'
import type { Metrics } from '../metrics.ts'
import type { DispatcherShard } from '../shard/dispatcher-shard.ts'
import type { Message, PreparedSubmission } from '../shard/message.ts'
import { MessageTraces } from '../tracing/message-traces.ts'

const messageOf = (id: string) => ({ id, route: 'op', state: { class: 'otp', attempts: 1 } }) as Message

const submissionOf = (reference: string) =>
  ({ request: { reference }, acceptedAt: 0, expiresAt: 60_000, mode: 'live' }) as PreparedSubmission

const makeLoop = (operator: Operator, shards: ReadonlyArray<DispatcherShard>) =>
  Effect.gen(function* () {
    return yield* makeHandoverLoop({
      operators: [operator],
      shards: () => shards,
      mayStart: () => true,
      apply: (change) => change(),
      now: () => 0,
      metrics: {
        handedOver: () => {},
        submitAnswered: () => {},
        leaseStopped: () => {},
      } as unknown as Metrics,
      traces: new MessageTraces(yield* Tracing, 'group'),
      supervise: (effect) => Effect.asVoid(Effect.orDie(effect)),
    })
  })

/** Hands three messages over through a shard stub, and returns the outcomes by message id. */
const handOver = (submit: Operator['submit'], submitsIndividually: boolean) =>
  Effect.gen(function* () {
    const outcomes = new Map<string, string>()
    const allAnswered = yield* Deferred.make<void>()
    const waiting = ['msg_slow', 'msg_a', 'msg_b'].map(messageOf)
    const count = waiting.length
    let started = 0
    let loop: HandoverLoop | null = null
    const shard = {
      handle: { isCurrent: () => true, hasLease: () => true },
      messages: { handovers: { countAt: () => 0, count: 0, take: () => waiting.shift() ?? null } },
      start: (message: Message) => {
        loop?.submit(shard, message, submissionOf(message.id))
        // All claims are acknowledged together.
        if (++started === count) loop?.dispatch()
      },
      submitAnswered: (message: Message, outcome: SubmitOutcome) => {
        outcomes.set(message.id, outcome.type)
        const expected = submitsIndividually ? count - 1 : count
        if (outcomes.size >= expected) Deferred.doneUnsafe(allAnswered, Effect.void)
      },
    } as unknown as DispatcherShard
    const operator: Operator = {
      name: 'op',
      capabilities: { dedupesByReference: false, window: 10, submitsIndividually },
      submit,
      resume: () => Effect.void,
    }
    loop = yield* makeLoop(operator, [shard])
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
            handovers: { countAt: () => 0, count: 0, take: (lane: number) => lanes[lane]!.shift() ?? null },
          },
          start: ({ id }: Message) => started.push(id),
        } as unknown as DispatcherShard
      }
      const operator: Operator = {
        name: 'op',
        capabilities: { dedupesByReference: false, window: 100 },
        submit: () => Effect.never,
        resume: () => Effect.void,
      }
      const loop = yield* makeLoop(operator, ['a', 'b', 'c'].map(shardOf))
      loop.dispatch()
      const inTurn = ['a1', 'b1', 'c1', 'a2', 'b2', 'c2']
      assert.deepStrictEqual(
        started,
        ['otp', 'service'].flatMap((lane) => inTurn.map((message) => `${lane}_${message}`)),
      )
    }).pipe(Effect.scoped),
  )

  it.effect('submits to an individual operator without waiting for the slowest answer', () =>
    Effect.gen(function* () {
      const outcomes = yield* handOver(
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
      const outcomes = yield* handOver((batch) => {
        batches.push(batch.length)
        return Effect.succeed(batch.map(accepted))
      }, false)
      assert.deepStrictEqual(batches, [3])
      assert.strictEqual(outcomes.size, 3)
    }).pipe(Effect.scoped),
  )
})
