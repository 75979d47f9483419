/** The shared texts in Redis: a compare-and-set, repeated until no other process was faster. */
import { settings } from '@hub/config'
import { type Config, Effect, Layer, type Scope } from 'effect'
import { script } from '../command.ts'
import { keyNames } from '../keys.ts'
import { makeLink } from '../link.ts'
import { CountersUnavailable } from '../port.ts'
import type { RedisCountersOptions } from '../redis.ts'
import { type Changed, SharedTexts, type SharedTextsShape, type StoredText } from './port.ts'

/** Each lost round is a change of another process. So many in a row mean that something is wrong. */
const MOST_ROUNDS = 100

const busy = new CountersUnavailable({ reason: 'busy', detail: 'changed by others' })

/** The answer of the scripts: the text, or nothing without one, and the time in milliseconds. */
const readFrom = (answer: unknown): StoredText => {
  const [now, text = null] = answer as readonly [string, string?]
  return { text, now: Number(now) }
}

/** Opens the shared texts until the scope closes. A process also starts without Redis. */
export const makeRedisSharedTexts = (
  options: RedisCountersOptions,
): Effect.Effect<SharedTextsShape, never, Scope.Scope> =>
  Effect.gen(function* () {
    const keys = keyNames(options.prefix ?? 'hub:')
    const clock = options.now
    const time = (): string => (clock === undefined ? '' : String(clock()))
    const link = yield* makeLink({
      url: options.url,
      name: options.name ?? 'hub',
      onAvailable: Effect.void,
      deadlineMs: options.deadlineMs,
    })

    const readKey = (key: string) =>
      Effect.map(link.call('shared', 'quick', script('readText', [key], [time()])), readFrom)

    /** Writes the text if it is still the expected one, and otherwise returns the current one. */
    const write = (key: string, expected: string | null, text: string, ttlMs: number) =>
      Effect.map(
        link.call(
          'shared',
          'quick',
          script('writeText', [key], [time(), expected === null ? 0 : 1, expected ?? '', text, ttlMs]),
        ),
        (answer) => (answer === null ? null : readFrom(answer)),
      )

    const change = Effect.fnUntraced(function* <A>(
      name: string,
      ttlMs: number,
      decide: (text: string | null, now: number) => Changed<A>,
    ) {
      const key = keys.shared(name)
      let read = yield* readKey(key)
      for (let round = 0; round < MOST_ROUNDS; round++) {
        const { result, text } = decide(read.text, read.now)
        const current: StoredText | null = yield* write(key, read.text, text, ttlMs)
        if (current === null) return result
        read = current
      }
      return yield* busy
    })

    return { change, read: (name) => readKey(keys.shared(name)) }
  })

/** The shared texts of the hub. Settings: `redisUrl`, `redisPrefix`. */
export const sharedTextsLayer = (app: string): Layer.Layer<SharedTexts, Config.ConfigError> =>
  Layer.effect(
    SharedTexts,
    Effect.gen(function* () {
      const url = yield* settings.redisUrl.config
      const prefix = yield* settings.redisPrefix.config
      return yield* makeRedisSharedTexts({ url, prefix, name: app })
    }),
  )
