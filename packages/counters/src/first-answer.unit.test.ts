import { assert, describe, it } from '@effect/vitest'
import { Effect } from 'effect'
import { unreachable } from './failures.ts'
import { firstAnswer } from './first-answer.ts'

const AWAY = unreachable('SENTINELS_AWAY')

describe('the first answer', () => {
  it.live('is that of the only server that answers, whatever the order is', () =>
    Effect.gen(function* () {
      const ask = firstAnswer(
        ['refuses', 'silent', 'answers'],
        (url) =>
          url === 'answers'
            ? Effect.succeed(url)
            : url === 'silent'
              ? Effect.never
              : Effect.fail(unreachable('ECONNREFUSED')),
        () => AWAY,
      )
      const answers = yield* Effect.all(
        Array.from({ length: 20 }, () => ask),
        { concurrency: 'unbounded' },
      )
      assert.deepStrictEqual(new Set(answers), new Set(['answers']))
    }),
  )

  it.live('is a refusal before a server that is away', () =>
    Effect.gen(function* () {
      const failure = yield* Effect.flip(
        firstAnswer(
          ['away', 'refuses', 'away, too'],
          (url) => Effect.fail(unreachable(url === 'refuses' ? 'SENTINEL_WRONGPASS' : 'ECONNREFUSED')),
          () => AWAY,
        ),
      )
      assert.strictEqual(failure.detail, 'SENTINEL_WRONGPASS')
    }),
  )

  it.live('does not exist if all servers are away', () =>
    Effect.gen(function* () {
      const failure = yield* Effect.flip(
        firstAnswer(
          ['one', 'other'],
          () => Effect.fail(unreachable('ECONNREFUSED')),
          (failures) => {
            assert.lengthOf(failures, 2)
            return AWAY
          },
        ),
      )
      assert.strictEqual(failure, AWAY)
    }),
  )
})
