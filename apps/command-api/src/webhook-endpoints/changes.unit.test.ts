import { describe, expect, it } from '@effect/vitest'
import { KafkaUnavailable, EventLog, type OutgoingRecord } from '@hub/kafka'
import { type Queries, Sql, StorageUnavailable } from '@hub/store'
import { Effect, Fiber, Logger } from 'effect'
import { TestClock } from 'effect/testing'
import { makeInForce, type Told } from './changes.ts'

const told: Told = {
  outboxId: '7',
  record: { topic: 't', key: 'k', type: 'x', id: 'i', occurredAt: 0, value: new Uint8Array() },
}

/** A database that knows how far the fan-out has read, and what became of the outbox row. */
const world = () => {
  const state = {
    position: null as number | null,
    database: true,
    bus: true,
    outbox: ['7'],
    appended: [] as Array<OutgoingRecord>,
  }
  const answer = (strings: TemplateStringsArray, ...values: ReadonlyArray<unknown>) => {
    if (strings.join('').includes('command.outbox'))
      state.outbox = state.outbox.filter((id) => id !== values[0])
    else if (state.position !== null) return Promise.resolve([{ passed: state.position > Number(values[0]) }])
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
      if (!state.bus) return Effect.fail(new KafkaUnavailable({ reason: 'refused', detail: 'test' }))
      state.appended.push(...records)
      return Effect.succeed([{ topic: 't', partition: 0, offset: 41 }])
    })
  const inForce = Effect.flatMap(makeInForce, (wait) => wait(told)).pipe(
    Effect.provideService(Sql, { run, transaction: run }),
    Effect.provideService(EventLog, { append, partitionOf: () => 0 }),
    Effect.provide(Logger.layer([])),
  )
  return { inForce, state }
}

/** Lets everything happen that can happen now. */
const settle = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

describe('a change of a subscription', () => {
  it.effect('is answered when the fan-out has read on behind it', () =>
    Effect.gen(function* () {
      const { inForce, state } = world()
      state.position = 41
      const fiber = yield* Effect.forkChild(inForce)
      yield* settle
      yield* TestClock.adjust('1 second')
      yield* settle
      expect(fiber.pollUnsafe()).toBeUndefined()
      expect(state.appended).toEqual([told.record])
      expect(state.outbox).toEqual([])
      state.position = 42
      yield* TestClock.adjust('50 millis')
      yield* Fiber.join(fiber)
    }),
  )

  it.effect('is answered all the same after two seconds', () =>
    Effect.gen(function* () {
      const { inForce, state } = world()
      state.position = 0
      const fiber = yield* Effect.forkChild(inForce)
      for (let turn = 0; turn < 50; turn++) {
        yield* settle
        yield* TestClock.adjust('50 millis')
      }
      yield* Fiber.join(fiber)
    }),
  )

  it.effect('waits for nobody where nobody has ever read', () =>
    Effect.gen(function* () {
      const { inForce, state } = world()
      yield* inForce
      expect(state.outbox).toEqual([])
    }),
  )

  it.effect('stays in the outbox while Kafka is away', () =>
    Effect.gen(function* () {
      const { inForce, state } = world()
      state.bus = false
      yield* inForce
      expect(state.outbox).toEqual(['7'])
    }),
  )

  it.effect(
    'that was published and not removed from the outbox is published once more, which does no harm',
    () =>
      Effect.gen(function* () {
        const { inForce, state } = world()
        state.database = false
        yield* inForce
        expect([state.appended.length, state.outbox]).toEqual([1, ['7']])
      }),
  )
})
