import { assert, describe, it } from '@effect/vitest'
import type { Operator, Submission, SubmitOutcome } from '@hub/operator'
import { PayloadEncryption } from '@hub/store'
import { Tracing } from '@hub/telemetry'
import { Deferred, Effect } from 'effect'
import { type Handover, makeHandover } from './handover.ts'
import type { Metrics } from './metrics.ts'
import type { DispatcherShard } from './shard/dispatcher-shard.ts'
import type { Message } from './shard/message.ts'
import { MessageTraces } from './traces.ts'

/** What a shard and its messages are to the hand-over, and nothing else of them. */
const world = (submit: Operator['submit'], submitsIndividually: boolean) =>
  Effect.gen(function* () {
    const answered = new Map<string, string>()
    const all = yield* Deferred.make<void>()
    const waiting = ['msg_slow', 'msg_a', 'msg_b'].map(
      (id): Message =>
        ({
          id,
          key: 'r',
          route: 'op',
          state: { class: 'otp' },
          accepted: {
            messageId: id,
            mode: 'live',
            class: 'otp',
            sender: 'HUB',
            parts: 1,
            at: 0,
            expiresAt: 60_000,
            sealingKey: 'k',
            sealed: new Uint8Array(),
          },
        }) as unknown as Message,
    )
    const count = waiting.length
    let claimed = 0
    let handover: Handover | null = null
    const shard = {
      handle: { isCurrent: () => true, hasLease: () => true },
      messages: {
        take: () => waiting.shift() ?? null,
        handoversAt: () => 0,
        handovers: 0,
        claim: (message: Message) => {
          handover?.submit(shard, message)
          // All claims are acknowledged together.
          if (++claimed === count) handover?.dispatch()
        },
        answered: (message: Message, outcome: SubmitOutcome) => {
          answered.set(message.id, outcome.type)
          if (answered.size >= (submitsIndividually ? count - 1 : count))
            Deferred.doneUnsafe(all, Effect.void)
        },
      },
    } as unknown as DispatcherShard
    const payloadEncryption = {
      decrypt: () => Effect.succeed(Buffer.from(JSON.stringify({ to: '+79001234567', text: 'Code 1234' }))),
    } as unknown as PayloadEncryption['Service']
    const operator: Operator = {
      name: 'op',
      capabilities: { dedupesByReference: false, window: 10, submitsIndividually },
      submit,
      resume: () => Effect.void,
    }
    handover = yield* makeHandover({
      operators: [operator],
      shards: () => [shard],
      mayBegin: () => true,
      act: (change) => change(),
      now: () => 0,
      metrics: { handedOver: () => {}, answered: () => {}, leaseStopped: () => {} } as unknown as Metrics,
      traces: new MessageTraces(yield* Tracing, 'group'),
      supervise: (effect) => Effect.asVoid(Effect.orDie(effect)),
    }).pipe(Effect.provideService(PayloadEncryption, payloadEncryption))
    handover.dispatch()
    yield* Deferred.await(all)
    return answered
  })

const accepted = ({ reference }: Submission): SubmitOutcome => ({
  type: 'accepted',
  operatorIds: [reference],
})

describe('handing over', () => {
  it.effect('one by one, a message does not wait for the slowest to be answered', () =>
    Effect.gen(function* () {
      const answered = yield* world(
        (batch) =>
          batch.some(({ reference }) => reference === 'msg_slow')
            ? Effect.never
            : Effect.succeed(batch.map(accepted)),
        true,
      )
      assert.deepStrictEqual(
        Array.from(answered).sort(([a], [b]) => (a < b ? -1 : 1)),
        [
          ['msg_a', 'accepted'],
          ['msg_b', 'accepted'],
        ],
      )
    }).pipe(Effect.scoped),
  )

  it.effect('together, what was claimed together is one submission', () =>
    Effect.gen(function* () {
      const batches: Array<number> = []
      const answered = yield* world((batch) => {
        batches.push(batch.length)
        return Effect.succeed(batch.map(accepted))
      }, false)
      assert.deepStrictEqual(batches, [3])
      assert.strictEqual(answered.size, 3)
    }).pipe(Effect.scoped),
  )
})
