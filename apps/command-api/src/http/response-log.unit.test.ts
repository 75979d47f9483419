import { assert, describe, it } from '@effect/vitest'
import { apiError } from '@hub/contract'
import { Effect, Logger } from 'effect'
import { TestClock } from 'effect/testing'
import { makeResponseLog } from './response-log.ts'

describe('the log of responses', () => {
  // Source: docs/telemetry.md, "In an overload, at most ten refused requests per second have a line".
  it.effect(
    'has ten lines per second about requests that overload refuses, and all lines about others',
    () => {
      const lines: Array<unknown> = []
      const logger = Logger.make(({ message }) => void lines.push(message))
      return Effect.gen(function* () {
        const log = makeResponseLog(1)
        const answer = (code: 'overloaded' | 'rate_limited', status: number) =>
          log({
            method: 'POST',
            route: '/v1/messages',
            answer: { status, body: '{}', error: apiError(code, { retryAfter: 1 }) },
            caller: null,
            seconds: 0,
          })
        for (let second = 1; second <= 2; second++) {
          for (let i = 0; i < 100; i++) yield* answer('overloaded', 503)
          assert.lengthOf(lines, 10 * second)
          yield* TestClock.adjust('1 second')
        }
        for (let i = 0; i < 100; i++) yield* answer('rate_limited', 429)
        assert.lengthOf(lines, 120)
      }).pipe(Effect.provide(Logger.layer([logger])))
    },
  )
})
