/**
 * The audit trail: who did what, when, and what came of it. Every command that changes something leaves a line, and so does every one that
 * reads about a person. A line is written before the command does anything; where that is not possible, it does nothing.
 */
import { randomUUID } from 'node:crypto'
import { userInfo } from 'node:os'
import { maskNumbers } from '@hub/telemetry'
import { Sql, type StorageError } from '@hub/store'
import { settings } from '@hub/config'
import { Cause, type Config, Effect, Exit } from 'effect'
import { toCommandFailed } from '../command-line/failure.ts'
import { note } from '../command-line/output.ts'

/** Arguments and results as they are kept: no personal data. A recipient is named by their hash. */
type AuditFacts = Readonly<Record<string, string | number | boolean | null | ReadonlyArray<string>>>

interface AuditEntry {
  /** The words of the command: `keys issue`. */
  readonly command: string
  readonly arguments: AuditFacts
}

/** A container may run under a user id that has no name. */
const osUser = Effect.sync(() => {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`
  }
})

/** Who is at work: `HUBCTL_ACTOR`, for jobs and shared machines, or the user of the operating system. */
export const actor: Effect.Effect<string, Config.ConfigError> = Effect.gen(function* () {
  const given = yield* settings.hubctlActor.config
  return given ?? (yield* osUser)
})

type Outcome = 'begun' | 'done' | 'failed'

const write = Effect.fnUntraced(function* (
  run: string,
  entry: AuditEntry,
  outcome: Outcome,
  detail: AuditFacts | null,
): Effect.fn.Return<void, StorageError | Config.ConfigError, Sql> {
  const sql = yield* Sql
  const who = maskNumbers(yield* actor)
  const given = JSON.stringify(entry.arguments)
  const found = detail === null ? null : JSON.stringify(detail)
  yield* sql.run(
    (q) => q`
      INSERT INTO command.audit (run, actor, command, arguments, outcome, detail)
      VALUES (${run}, ${who}, ${entry.command}, ${given}::text::jsonb, ${outcome}, ${found}::text::jsonb)`,
  )
})

const endOf = <A, E>(exit: Exit.Exit<A, E>, result: (value: A) => AuditFacts): [Outcome, AuditFacts] => {
  if (Exit.isSuccess(exit)) return ['done', result(exit.value)]
  const code = Cause.hasInterruptsOnly(exit.cause)
    ? 'interrupted'
    : (toCommandFailed(Cause.squash(exit.cause))?.code ?? 'internal_error')
  return ['failed', { code }]
}

/**
 * Does `work` between two lines of the audit trail. `result` says what is kept of its outcome. Confirmation comes before: what was not begun
 * leaves no line.
 */
export const audited = <A, E, R>(
  entry: AuditEntry,
  work: Effect.Effect<A, E, R>,
  result: (value: A) => AuditFacts = () => ({}),
): Effect.Effect<A, E | StorageError | Config.ConfigError, R | Sql> =>
  Effect.gen(function* () {
    const run = randomUUID()
    yield* write(run, entry, 'begun', null)
    return yield* Effect.onExit(work, (exit) =>
      write(run, entry, ...endOf(exit, result)).pipe(
        Effect.catch(() =>
          note(`hubctl: the audit trail shows that ${entry.command} was begun, and not how it ended.`),
        ),
      ),
    )
  })

/**
 * A line about what has already been done, for the one kind of command that cannot leave one before: migrations, which make the table that
 * the trail is in.
 */
export const auditedAfterwards = (
  entry: AuditEntry,
  result: AuditFacts,
): Effect.Effect<void, StorageError | Config.ConfigError, Sql> =>
  Effect.gen(function* () {
    const run = randomUUID()
    yield* write(run, entry, 'begun', null)
    yield* write(run, entry, 'done', result)
  })
