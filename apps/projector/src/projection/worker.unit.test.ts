import { assert, describe, it } from '@effect/vitest'
import { Effect, Fiber } from 'effect'
import { TestClock } from 'effect/testing'
import { Worker } from './worker.ts'

const settle = Effect.repeat(Effect.yieldNow, { times: 20 })

describe('a worker', () => {
  /** Buffers a record, and returns after how many milliseconds it is in a transaction. */
  const waitOf = Effect.fnUntraced(function* (worker: Worker, offset: number, applied: () => number) {
    const before = applied()
    worker.buffer.ingest('p.lane', 0, [
      {
        topic: 'p.lane',
        partition: 0,
        offset,
        key: '',
        type: '',
        id: '',
        occurredAt: 0,
        traceparent: null,
        appendedAt: 0,
        value: new Uint8Array(),
      },
    ])
    worker.updateLatches()
    yield* settle
    let waited = 0
    while (applied() === before) {
      waited++
      yield* TestClock.adjust(1)
      yield* settle
    }
    return waited
  })

  it.effect('lets a small batch wait for 50 ms, and for 1 ms while accounts with webhooks get events', () =>
    Effect.gen(function* () {
      const worker = new Worker(100)
      worker.buffer.addPartition(
        'p.lane',
        { topic: 'lane', partition: 0, position: 0, epoch: 1, fence: 0 },
        0,
      )
      let applied = 0
      const loop = yield* Effect.forkChild(
        worker.run(() =>
          Effect.sync(() => {
            applied++
          }),
        ),
      )
      let offset = 0
      const wait = Effect.suspend(() => waitOf(worker, offset++, () => applied))
      assert.strictEqual(yield* wait, 50)
      worker.onApplied(true)
      assert.strictEqual(yield* wait, 1)
      // A transaction without events, such as one with claims only.
      worker.onApplied(false)
      assert.strictEqual(yield* wait, 1)
      for (let i = 0; i < 50; i++) worker.onApplied(false)
      assert.strictEqual(yield* wait, 50)
      worker.end()
      yield* TestClock.adjust(50)
      yield* Fiber.join(loop)
    }),
  )
})
