import { randomBytes } from 'node:crypto'
import { assert, it } from '@effect/vitest'
import { testRedisUrl } from '@hub/testkit'
import { Context, Effect, Layer, Redacted } from 'effect'
import { Redis } from 'ioredis'
import { redisProxy } from '../redis-proxy.testing.ts'
import { sharedTextsContract, TestSharedTexts } from './port.contract.ts'
import { SharedTexts } from './port.ts'
import { makeRedisSharedTexts } from './redis.ts'

/** A unique prefix. Its keys expire after a minute. */
const freshPrefix = () => `t${randomBytes(6).toString('hex')}:`

/** The suite checks results, not times: a busy machine may answer later than after 250 ms. */
const DEADLINE_MS = 5000

const adapter = Layer.effectContext(
  Effect.gen(function* () {
    const prefix = freshPrefix()
    const proxy = yield* redisProxy(testRedisUrl())
    const open = (url: string) =>
      makeRedisSharedTexts({ url: Redacted.make(url), prefix, deadlineMs: DEADLINE_MS })
    return Context.make(SharedTexts, yield* open(proxy.url)).pipe(
      Context.add(TestSharedTexts, {
        setUnreachable: (isUnreachable) => Effect.sync(() => proxy.set(isUnreachable ? 'refusing' : 'up')),
        other: yield* open(testRedisUrl()),
      }),
    )
  }),
)

sharedTextsContract('redis', Layer.fresh(adapter))

it.live('lets Redis forget a text after its time to live', () =>
  Effect.gen(function* () {
    const prefix = freshPrefix()
    const url = testRedisUrl()
    const { change } = yield* makeRedisSharedTexts({
      url: Redacted.make(url),
      prefix,
      deadlineMs: DEADLINE_MS,
    })
    yield* change('a', 60_000, () => ({ text: 'x', result: null }))
    const redis = yield* Effect.acquireRelease(
      Effect.sync(() => new Redis(url)),
      (client) => Effect.sync(() => client.disconnect()),
    )
    const left = yield* Effect.promise(() => redis.pttl(`${prefix}shared:{a}`))
    assert.isAbove(left, 0)
    assert.isAtMost(left, 60_000)
  }).pipe(Effect.scoped),
)
