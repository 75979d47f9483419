/** How an export ends early: with the session of its caller, and with the process. */
import { assert, describe, it } from '@effect/vitest'
import { Serving } from '@hub/http-server'
import { Effect, Exit, Fiber, Stream } from 'effect'
import { TestClock } from 'effect/testing'
import type { Caller } from '../access/caller.ts'
import type { Sessions } from '../access/sessions.ts'
import { makeExportLimits } from './streams.ts'

type Session = NonNullable<Caller['session']>

const session: Session = { token: 'a token' } as unknown as Session

const callerWith = (own: Session | null): Caller => ({
  actor: { id: 'https://id.example|vera', name: 'vera', roles: ['viewer'], via: 'api' },
  session: own,
})

/** Sessions that are over from the n-th look on. */
const sessionsUntil = (looks: number): Pick<Sessions['Service'], 'find'> => {
  let count = 0
  return { find: () => Effect.sync(() => (++count >= looks ? null : session)) }
}

/** A body that never ends by itself. */
const answer = {
  contentType: 'text/csv; charset=utf-8',
  headers: {},
  body: Stream.concat(Stream.make(new Uint8Array([1])), Stream.never),
}

const exported = (sessions: Pick<Sessions['Service'], 'find'>, own: Session | null) =>
  Effect.gen(function* () {
    const { body } = yield* makeExportLimits(sessions)(callerWith(own), answer)
    return yield* Effect.forkChild(Effect.exit(Stream.runDrain(body)))
  })

const inApp = it.layer(Serving.layer)

describe('an export that has not ended', () => {
  inApp('fails', (test) => {
    test.effect('when the session of its caller is over, so that nobody takes the file for complete', () =>
      Effect.gen(function* () {
        const fiber = yield* exported(sessionsUntil(2), session)
        yield* TestClock.adjust('6 seconds')
        assert.isUndefined(fiber.pollUnsafe())
        yield* TestClock.adjust('6 seconds')
        assert.isTrue(Exit.isFailure(yield* Fiber.join(fiber)))
      }),
    )

    test.effect('when the process ends', () =>
      Effect.gen(function* () {
        const fiber = yield* exported(sessionsUntil(1), null)
        yield* TestClock.adjust('1 hour')
        assert.isUndefined(fiber.pollUnsafe())
        const serving = yield* Serving
        serving.enter('draining')
        assert.isTrue(Exit.isFailure(yield* Fiber.join(fiber)))
      }),
    )
  })
})
