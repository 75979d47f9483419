/** Checks of the dependencies of a hub. They run concurrently, each with a deadline. */
import { connectionFault, invalidSettingOf } from '@hub/config'
import type { Sql } from '@hub/store'
import { Config, Duration, Effect } from 'effect'
import { describeFailure } from '../failures.ts'

/**
 * `well`: in order. `note`: a notice without a required action. `ill`: a problem to repair.
 * `unknown`: not checked, because another check has found a problem. The words are part of the JSON
 * output.
 */
export type Verdict = 'well' | 'note' | 'ill' | 'unknown'

/** The data of a finding, for programs. */
type Facts = Readonly<Record<string, string | number | boolean | null | ReadonlyArray<string>>>

export interface Finding {
  readonly subject: string
  readonly verdict: Verdict
  /** The result as a sentence. */
  readonly said: string
  /** How to repair a problem; `null` without one. */
  readonly mend: string | null
  readonly facts: Facts
}

/** A finding without the subject of its check. */
export type Outcome = Omit<Finding, 'subject'>

const outcome =
  (verdict: Verdict) =>
  (said: string, facts: Facts = {}): Outcome => ({ verdict, said, mend: null, facts })

export const ok = outcome('well')
export const notice = outcome('note')
const unknown = outcome('unknown')

export const problem = (said: string, mend: string, facts: Facts = {}): Outcome => ({
  verdict: 'ill',
  said,
  mend,
  facts,
})

export interface Check<R = Sql> {
  /** The unique name of the check in the output. */
  readonly subject: string
  /** Subjects of checks that must find no problem first. */
  readonly needs: ReadonlyArray<string>
  /** How to repair it if the check itself fails. */
  readonly mend: string
  /** `null`: there is nothing to say. It is for what few hubs use, so that a healthy hub fits on one screen. */
  readonly run: Effect.Effect<Outcome | null, unknown, R>
}

/** For one check. A server usually answers within 60 ms; a busy machine needs more. */
export const DEADLINE = Duration.seconds(6)

/** Tags of package errors that mean that a server does not answer. */
const NO_ANSWER: ReadonlySet<string> = new Set([
  'StorageUnavailable',
  'KafkaUnavailable',
  'RedisUnusable',
  'NoAnswer',
])

/** The sentence of a server that refuses the settings; `null` for other failures. */
const refusalOf = (error: unknown): string | null => {
  if (typeof error !== 'object' || error === null || !('_tag' in error)) return null
  const fault = connectionFault(error as { readonly _tag: string })
  return fault?.isRefusal === true ? fault.sentence : null
}

/** Describes a failure. Of package errors it shows only codes. */
const sentenceOf = (error: unknown): string => {
  if (error instanceof Config.ConfigError) {
    const mistake = invalidSettingOf(error)
    if (mistake !== null) return mistake.message
  }
  if (typeof error === 'object' && error !== null && '_tag' in error && NO_ANSWER.has(String(error._tag))) {
    const detail = 'detail' in error ? String(error.detail) : 'no reason'
    if (refusalOf(error) !== null) return `refuses the settings (${detail})`
    // The server answered with an error, or the client has a defect.
    const isRejected = 'reason' in error && error.reason === 'rejected'
    return isRejected ? `cannot be checked: the request failed (${detail})` : `does not answer (${detail})`
  }
  return describeFailure(error)?.message ?? 'cannot be checked'
}

/** An invalid setting, and one that a server refuses, have their own repair. */
const mendOf = (error: unknown, mend: string): string =>
  error instanceof Config.ConfigError ? 'Set it as docs/configuration.md says.' : (refusalOf(error) ?? mend)

/**
 * Runs all checks. `deadline` bounds each check, so a chain of `needs` can take a multiple of it.
 */
export const runChecks = Effect.fnUntraced(function* <R>(
  checks: ReadonlyArray<Check<R>>,
  deadline: Duration.Duration = DEADLINE,
) {
  const running = new Map<string, Effect.Effect<Finding | null, never, R>>()
  const findingOf = ({ mend, needs, run, subject }: Check<R>): Effect.Effect<Finding | null, never, R> =>
    Effect.gen(function* () {
      for (const need of needs) {
        const found = yield* (
          running.get(need) ??
            Effect.die(new Error(`the check ${need} does not exist; correct the needs of ${subject}`))
        )
        if (found?.verdict === 'ill' || found?.verdict === 'unknown') {
          return { subject, ...unknown(`not known without ${need}`) }
        }
      }
      const result = yield* run.pipe(
        // On a busy machine a connection can take longer than the timeout of its client.
        Effect.retry({ times: 1, while: (error) => !(error instanceof Config.ConfigError) }),
        Effect.catch((error) => Effect.succeed(problem(sentenceOf(error), mendOf(error, mend)))),
        Effect.timeoutOrElse({
          duration: deadline,
          orElse: () =>
            Effect.succeed(problem(`does not answer within ${Duration.toSeconds(deadline)} s`, mend)),
        }),
      )
      return result === null ? null : { subject, ...result }
    })
  for (const check of checks) running.set(check.subject, yield* Effect.cached(findingOf(check)))
  const findings = yield* Effect.all([...running.values()], { concurrency: 'unbounded' })
  return findings.filter((finding) => finding !== null)
})
