/**
 * The shared texts in memory: the test double of the port, which passes the same contract suite. For
 * one process. Its time is Effect's clock, plus what `advance` has added.
 */
import { Clock, Context, Effect, Layer } from 'effect'
import { CountersUnavailable } from '../port.ts'
import { SharedTexts } from './port.ts'

/** How a test controls the shared texts. */
export class MemorySharedTexts extends Context.Service<
  MemorySharedTexts,
  {
    readonly setUnreachable: (isUnreachable: boolean) => Effect.Effect<void>
    /** Advances the time of the store. */
    readonly advance: (ms: number) => Effect.Effect<void>
  }
>()('@hub/counters/MemorySharedTexts') {}

const unreachable = new CountersUnavailable({ reason: 'unreachable', detail: 'ECONNREFUSED' })

export const memorySharedTexts: Layer.Layer<SharedTexts | MemorySharedTexts> = Layer.effectContext(
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const texts = new Map<string, { readonly text: string; readonly expiresAt: number }>()
    let advanced = 0
    let isUnreachable = false
    const read = (name: string) =>
      Effect.suspend(() => {
        if (isUnreachable) return Effect.fail(unreachable)
        const now = clock.currentTimeMillisUnsafe() + advanced
        const found = texts.get(name)
        return Effect.succeed({ text: found !== undefined && found.expiresAt > now ? found.text : null, now })
      })
    return Context.make(SharedTexts, {
      change: (name, ttlMs, change) =>
        Effect.map(read(name), (before) => {
          const { result, text } = change(before.text, before.now)
          texts.set(name, { text, expiresAt: before.now + ttlMs })
          return result
        }),
      read,
    }).pipe(
      Context.add(MemorySharedTexts, {
        setUnreachable: (value) =>
          Effect.sync(() => {
            isUnreachable = value
          }),
        advance: (ms) =>
          Effect.sync(() => {
            advanced += ms
          }),
      }),
    )
  }),
)
