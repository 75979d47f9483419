/** What a check of `hubctl doctor` is, and how checks run: side by side, each bounded, none hiding another. */
import { invalidSettingOf } from '@hub/config'
import type { Sql } from '@hub/store'
import { Config, Duration, Effect } from 'effect'
import { toCommandFailed } from '../command-line/failure.ts'

/**
 * `well`; `note`: worth knowing, and nothing has to be done; `ill`: something has to be done; `unknown`: it could not be looked at, because of
 * something else that is told where it belongs.
 */
export type Verdict = 'well' | 'note' | 'ill' | 'unknown'

/** What a program wants to know of a finding, beside its sentence. */
type Facts = Readonly<Record<string, string | number | boolean | null | ReadonlyArray<string>>>

export interface Finding {
  readonly subject: string
  readonly verdict: Verdict
  /** What was found, for people. */
  readonly said: string
  /** How to mend it; `null` where nothing has to be done. */
  readonly mend: string | null
  readonly facts: Facts
}

/** A finding without its subject, which the check has. */
export type Outcome = Omit<Finding, 'subject'>

export const well = (said: string, facts: Facts = {}): Outcome => ({
  verdict: 'well',
  said,
  mend: null,
  facts,
})
export const note = (said: string, facts: Facts = {}): Outcome => ({
  verdict: 'note',
  said,
  mend: null,
  facts,
})
export const ill = (said: string, mend: string, facts: Facts = {}): Outcome => ({
  verdict: 'ill',
  said,
  mend,
  facts,
})

export interface Check<R = Sql> {
  /** As it is shown, and unlike every other. */
  readonly subject: string
  /** Subjects that have to be usable before this can be looked at. */
  readonly needs: ReadonlyArray<string>
  /** How to mend it where it cannot be asked at all. */
  readonly mend: string
  readonly run: Effect.Effect<Outcome, unknown, R>
}

/** For one check. A server answers within a hundredth of it, a machine that is short of processor time within all of it. */
export const DEADLINE = Duration.seconds(6)

/** Errors of the packages that mean that a server could not be asked. */
const NOT_THERE: ReadonlySet<string> = new Set([
  'StorageUnavailable',
  'KafkaUnavailable',
  'RedisUnusable',
  'NoAnswer',
])

/** A failure in a sentence. Of what errors carry, only codes are shown. */
const sentenceOf = (error: unknown): string => {
  if (error instanceof Config.ConfigError) {
    const mistake = invalidSettingOf(error)
    if (mistake !== null) return mistake.message
  }
  if (typeof error === 'object' && error !== null && '_tag' in error && NOT_THERE.has(String(error._tag))) {
    return `does not answer (${'detail' in error ? String(error.detail) : 'it does not say why'})`
  }
  return toCommandFailed(error)?.message ?? 'cannot be looked at'
}

/** What is wrong with a setting is mended there, whatever else the check would say. */
const mendOf = (error: unknown, mend: string): string =>
  error instanceof Config.ConfigError ? 'Set it as docs/configuration.md says.' : mend

/** Runs all at once. Takes as long as the longest chain of needs, each link of it bounded by `deadline`. */
export const runChecks = Effect.fnUntraced(function* <R>(
  checks: ReadonlyArray<Check<R>>,
  deadline: Duration.Duration = DEADLINE,
) {
  const running = new Map<string, Effect.Effect<Finding, never, R>>()
  const findingOf = ({ mend, needs, run, subject }: Check<R>): Effect.Effect<Finding, never, R> =>
    Effect.gen(function* () {
      for (const need of needs) {
        const found = yield* running.get(need) ?? Effect.die(new Error(`there is no check of ${need}`))
        if (found.verdict === 'ill' || found.verdict === 'unknown') {
          return {
            subject,
            verdict: 'unknown' as const,
            said: `not known without ${need}`,
            mend: null,
            facts: {},
          }
        }
      }
      const outcome = yield* run.pipe(
        // Once more: on a busy machine a connection may take longer than its client waits.
        Effect.retry({ times: 1, while: (error) => !(error instanceof Config.ConfigError) }),
        Effect.catch((error) => Effect.succeed(ill(sentenceOf(error), mendOf(error, mend)))),
        Effect.timeoutOrElse({
          duration: deadline,
          orElse: () => Effect.succeed(ill(`does not answer within ${Duration.toSeconds(deadline)} s`, mend)),
        }),
      )
      return { subject, ...outcome }
    })
  for (const check of checks) running.set(check.subject, yield* Effect.cached(findingOf(check)))
  return yield* Effect.all([...running.values()], { concurrency: 'unbounded' })
})
