import { assert, describe, it } from '@effect/vitest'
import { Effect, Fiber } from 'effect'
import { incomingRecord } from '../testing/incoming-record.ts'
import { recordCount } from './record-buffer.ts'
import { Worker } from './worker.ts'

const settle = Effect.repeat(Effect.yieldNow, { times: 20 })

const LANES = ['p.first', 'p.second']

describe('a worker', () => {
  it.effect(
    'applies the records of one turn together, without a pause, and later ones in the next batch',
    () =>
      Effect.gen(function* () {
        const worker = new Worker(100)
        for (const topic of LANES) {
          worker.buffer.addPartition(topic, { topic, partition: 0, position: 0, epoch: 1, fence: 0 }, 0)
        }
        const applied: Array<number> = []
        const loop = yield* Effect.forkChild(
          worker.run((batch) => Effect.sync(() => void applied.push(recordCount(batch)))),
        )
        yield* settle
        // The consumer hands over the partitions of a fetch one after the other.
        for (const topic of LANES) {
          worker.buffer.ingest(topic, 0, [
            incomingRecord({ topic, offset: 0 }),
            incomingRecord({ topic, offset: 1 }),
          ])
          worker.updateLatches()
        }
        // The clock of the test stands still.
        yield* settle
        assert.deepStrictEqual(applied, [4])
        worker.buffer.ingest('p.first', 0, [incomingRecord({ topic: 'p.first', offset: 2 })])
        worker.updateLatches()
        yield* settle
        assert.deepStrictEqual(applied, [4, 1])
        worker.end()
        yield* Fiber.join(loop)
      }),
  )
})
