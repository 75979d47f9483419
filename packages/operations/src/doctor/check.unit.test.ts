/** Checks run concurrently, each with a deadline. */
import { assert, describe, it } from '@effect/vitest'
import { settingError, settings } from '@hub/config'
import { KafkaUnavailable } from '@hub/kafka'
import { StorageUnavailable } from '@hub/store'
import { Deferred, Duration, Effect, Fiber } from 'effect'
import { TestClock } from 'effect/testing'
import { type Check, DEADLINE, notice, type Outcome, runChecks, ok } from './check.ts'

const check = (
  subject: string,
  run: Effect.Effect<Outcome | null, unknown>,
  needs: ReadonlyArray<string> = [],
): Check<never> => ({ subject, needs, mend: `Mend ${subject}.`, run })

describe('checks', () => {
  it.effect('run concurrently, and report in their order', () =>
    Effect.gen(function* () {
      const met = yield* Deferred.make<void>()
      const findings = yield* runChecks([
        check('first', Effect.as(Deferred.await(met), ok('met'))),
        check('second', Effect.as(Deferred.succeed(met, undefined), ok('meets'))),
      ])
      assert.deepStrictEqual(
        findings.map(({ said, subject }) => `${subject} ${said}`),
        ['first met', 'second meets'],
      )
    }),
  )

  it.effect('report all findings if one of them hangs', () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(
        runChecks([
          check('hung', Effect.never),
          check('upon it', Effect.succeed(ok('fine')), ['hung']),
          check('upon that', Effect.succeed(ok('fine')), ['upon it']),
          check('beside it', Effect.succeed(ok('fine'))),
        ]),
      )
      yield* TestClock.adjust(DEADLINE)
      const findings = yield* Fiber.join(fiber)
      assert.deepStrictEqual(
        findings.map(({ mend, said, verdict }) => [verdict, said, mend]),
        [
          ['ill', `does not answer within ${Duration.toSeconds(DEADLINE)} s`, 'Mend hung.'],
          ['unknown', 'not known without hung', null],
          ['unknown', 'not known without upon it', null],
          ['well', 'fine', null],
        ],
      )
    }),
  )

  it.effect('report nothing if there is nothing to say, and checks after it run', () =>
    Effect.gen(function* () {
      const findings = yield* runChecks([
        check('silent', Effect.succeed(null)),
        check('upon it', Effect.succeed(ok('fine')), ['silent']),
      ])
      assert.deepStrictEqual(
        findings.map(({ said, subject }) => `${subject} ${said}`),
        ['upon it fine'],
      )
    }),
  )

  it.effect('run after a check that reports a notice', () =>
    Effect.gen(function* () {
      const findings = yield* runChecks([
        check('remark', Effect.succeed(notice('late'))),
        check('upon it', Effect.succeed(ok('fine')), ['remark']),
      ])
      assert.deepStrictEqual(
        findings.map(({ verdict }) => verdict),
        ['note', 'well'],
      )
    }),
  )

  it.effect('describe failures in sentences, and an invalid setting by its name', () =>
    Effect.gen(function* () {
      const findings = yield* runChecks([
        check(
          'server',
          Effect.fail(new StorageUnavailable({ reason: 'unreachable', detail: 'ECONNREFUSED' })),
        ),
        check(
          'request',
          Effect.fail(
            new KafkaUnavailable({ reason: 'rejected', detail: 'KafkaJSProtocolError NOT_COORDINATOR' }),
          ),
        ),
        // invalid_password in the list of PostgreSQL's error codes.
        check('password', Effect.fail(new StorageUnavailable({ reason: 'failed', detail: '28P01' }))),
        check('setting', Effect.fail(settingError(settings.redisUrl, 'is not set'))),
        check('defect', Effect.fail('something')),
      ])
      assert.deepStrictEqual(
        findings.map(({ mend, said }) => `${said} ${mend}`),
        [
          'does not answer (ECONNREFUSED) Mend server.',
          'cannot be checked: the request failed (KafkaJSProtocolError NOT_COORDINATOR) Mend request.',
          'refuses the settings (28P01) PostgreSQL refuses the user or the password. Correct HUB_DATABASE_URL.',
          'HUB_REDIS_URL is not set. Expected: a URL that begins with redis://, redis+sentinel:// or redis+cluster://, or the same with rediss for TLS. Set it as docs/configuration.md says.',
          'cannot be checked Mend defect.',
        ],
      )
    }),
  )
})
