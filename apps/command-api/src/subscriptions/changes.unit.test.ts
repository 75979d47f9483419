import { describe, expect, it } from '@effect/vitest'
import { EventLog, KafkaUnavailable, type OutgoingRecord } from '@hub/kafka'
import { type Queries, Sql, StorageUnavailable } from '@hub/store'
import { Effect, Fiber, Logger } from 'effect'
import { TestClock } from 'effect/testing'
import { makeAwaitApplied, type OutboxEntry } from './changes.ts'

const entry: OutboxEntry = {
  id: '7',
  record: { topic: 't', key: 'k', type: 'x', id: 'i', occurredAt: 0, value: new Uint8Array() },
}

/**
 * A database with one outbox row and the position of the fan-out, and an event log; both can be
 * turned off.
 */
const makeFakes = () => {
  const state = {
    position: null as number | null,
    database: true,
    kafka: true,
    outbox: ['7'],
    appended: [] as Array<OutgoingRecord>,
  }
  const answer = (strings: TemplateStringsArray | string, ...values: ReadonlyArray<unknown>) => {
    // An identifier.
    if (typeof strings === 'string') return strings
    if (values[0] === 'command.outbox') {
      const deleted = values[1] as ReadonlyArray<string>
      state.outbox = state.outbox.filter((id) => !deleted.includes(id))
    } else if (state.position !== null) {
      return Promise.resolve([{ applied: state.position > Number(values[0]) }])
    }
    return Promise.resolve([])
  }
  const run: Sql['Service']['run'] = (body) =>
    Effect.suspend(() =>
      state.database
        ? Effect.promise(() => body(answer as unknown as Queries))
        : Effect.fail(new StorageUnavailable({ reason: 'unreachable', detail: 'test' })),
    )
  const append: EventLog['Service']['append'] = (records) =>
    Effect.suspend(() => {
      if (!state.kafka) return Effect.fail(new KafkaUnavailable({ reason: 'refused', detail: 'test' }))
      state.appended.push(...records)
      return Effect.succeed([{ topic: 't', partition: 0, offset: 41 }])
    })
  const awaitApplied = Effect.flatMap(makeAwaitApplied, (wait) => wait(entry, 0)).pipe(
    Effect.provideService(Sql, { run, transaction: run, answers: Effect.succeed(true) }),
    Effect.provideService(EventLog, { append, partitionOf: () => 0 }),
    Effect.provide(Logger.layer([])),
  )
  return { awaitApplied, state }
}

/** Runs everything that can run without a change of the clock. */
const settle = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

describe('a change of a subscription', () => {
  it.effect('is answered when the fan-out has applied it', () =>
    Effect.gen(function* () {
      const { awaitApplied, state } = makeFakes()
      state.position = 41
      const fiber = yield* Effect.forkChild(awaitApplied)
      yield* settle
      yield* TestClock.adjust('1 second')
      yield* settle
      expect(fiber.pollUnsafe()).toBeUndefined()
      expect(state.appended).toEqual([entry.record])
      expect(state.outbox).toEqual([])
      state.position = 42
      yield* TestClock.adjust('50 millis')
      yield* Fiber.join(fiber)
    }),
  )

  it.effect('is answered at the deadline even if the fan-out has not applied it', () =>
    Effect.gen(function* () {
      const { awaitApplied, state } = makeFakes()
      state.position = 0
      const fiber = yield* Effect.forkChild(awaitApplied)
      for (let turn = 0; turn < 50; turn++) {
        yield* settle
        yield* TestClock.adjust('50 millis')
      }
      yield* Fiber.join(fiber)
    }),
  )

  it.effect('is answered at once when the fan-out has never read the partition', () =>
    Effect.gen(function* () {
      const { awaitApplied, state } = makeFakes()
      yield* awaitApplied
      expect(state.outbox).toEqual([])
    }),
  )

  it.effect('stays in the outbox while Kafka is unavailable', () =>
    Effect.gen(function* () {
      const { awaitApplied, state } = makeFakes()
      state.kafka = false
      expect(yield* awaitApplied).toBe(false)
      expect(state.outbox).toEqual(['7'])
    }),
  )

  it.effect('is appended again by the relay, harmlessly, when its outbox row could not be deleted', () =>
    Effect.gen(function* () {
      const { awaitApplied, state } = makeFakes()
      state.database = false
      expect(yield* awaitApplied).toBe(true)
      expect([state.appended.length, state.outbox]).toEqual([1, ['7']])
    }),
  )
})
