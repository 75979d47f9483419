import { assert, it } from '@effect/vitest'
import { Effect, Layer } from 'effect'
import { MemorySharedTexts, memorySharedTexts } from './memory.ts'
import { sharedTextsContract, TestSharedTexts } from './port.contract.ts'
import { SharedTexts } from './port.ts'

const adapter = Layer.effect(
  TestSharedTexts,
  Effect.gen(function* () {
    const { setUnreachable } = yield* MemorySharedTexts
    return { setUnreachable, other: yield* SharedTexts }
  }),
).pipe(Layer.provideMerge(memorySharedTexts))

sharedTextsContract('memory', Layer.fresh(adapter))

it.effect('forgets a text after its time to live', () =>
  Effect.gen(function* () {
    const { change } = yield* SharedTexts
    const { advance } = yield* MemorySharedTexts
    const touch = change('a', 1000, (text) => ({ text: 'x', result: text }))
    yield* touch
    yield* advance(999)
    assert.strictEqual(yield* touch, 'x')
    yield* advance(1000)
    assert.isNull(yield* touch)
  }).pipe(Effect.provide(Layer.fresh(memorySharedTexts))),
)
