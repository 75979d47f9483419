import { assert, it } from '@effect/vitest'
import { Effect, Layer, Stream } from 'effect'
import { TestClock } from 'effect/testing'
import { MemoryCounters, memoryCounters } from './memory.ts'
import { portContract, TestCounters } from './port.contract.ts'
import { Counters } from './port.ts'

const adapter = Layer.effect(TestCounters, MemoryCounters).pipe(
  Layer.provideMerge(memoryCounters({ generation: 'empty', now: () => 1_795_000_000_000 })),
)

portContract('memory', Layer.fresh(adapter))

it.effect('uses the test clock, and is ready by default', () =>
  Effect.gen(function* () {
    const counters = yield* Counters
    assert.strictEqual(yield* counters.generation.rebuild(Stream.die('must not run')), 'ready')
    yield* counters.takeToken('key', 1)
    yield* TestClock.adjust(999)
    assert.isFalse((yield* counters.takeToken('key', 1)).allowed)
    yield* TestClock.adjust(1)
    assert.isTrue((yield* counters.takeToken('key', 1)).allowed)
  }).pipe(Effect.provide(memoryCounters())),
)
