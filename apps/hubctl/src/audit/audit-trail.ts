/**
 * The audit trail: who ran which command when, with which outcome. It has every command that
 * changes something or reads data of a person. The first row is written before the command does
 * anything. If that is not possible, the command does nothing.
 */
import { randomUUID } from 'node:crypto'
import { userInfo } from 'node:os'
import { settings } from '@hub/config'
import type { Sql, StorageError } from '@hub/store'
import { maskNumbers } from '@hub/telemetry'
import { Cause, type Config, Effect, Exit } from 'effect'
import { query } from '../command-line/connections.ts'
import { toCommandFailed } from '../command-line/failure.ts'
import { printNote } from '../command-line/output.ts'
import { type AuditEntry, type AuditFacts, insert } from '../tables/audit.ts'

type AuditedCommand = Pick<AuditEntry, 'command' | 'arguments'>

/** The user id of a container may have no name. */
const osUser = Effect.sync(() => {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`
  }
})

/** `HUBCTL_ACTOR`, for jobs and shared machines, or the user of the operating system. */
export const actor: Effect.Effect<string, Config.ConfigError> = Effect.gen(function* () {
  return (yield* settings.hubctlActor.config) ?? (yield* osUser)
})

const write = Effect.fnUntraced(function* (
  entry: Omit<AuditEntry, 'actor'>,
): Effect.fn.Return<void, StorageError | Config.ConfigError, Sql> {
  const name = maskNumbers(yield* actor)
  yield* query((q) => insert(q, { ...entry, actor: name }))
})

const outcomeOf = <A, E>(
  exit: Exit.Exit<A, E>,
  result: (value: A) => AuditFacts,
): Pick<AuditEntry, 'outcome' | 'detail'> => {
  if (Exit.isSuccess(exit)) return { outcome: 'done', detail: result(exit.value) }
  const code = Cause.hasInterruptsOnly(exit.cause)
    ? 'interrupted'
    : (toCommandFailed(Cause.squash(exit.cause))?.code ?? 'internal_error')
  return { outcome: 'failed', detail: { code } }
}

/**
 * Runs `work` between two rows of the audit trail. `result` selects the facts of the outcome to
 * record. Confirm first: an unconfirmed command leaves no row.
 */
export const audited = <A, E, R>(
  command: AuditedCommand,
  work: Effect.Effect<A, E, R>,
  result: (value: A) => AuditFacts = () => ({}),
): Effect.Effect<A, E | StorageError | Config.ConfigError, R | Sql> =>
  Effect.gen(function* () {
    const run = randomUUID()
    yield* write({ run, ...command, outcome: 'begun', detail: null })
    return yield* Effect.onExit(work, (exit) =>
      write({ run, ...command, ...outcomeOf(exit, result) }).pipe(
        Effect.catch(() =>
          printNote(`hubctl: the audit trail has the start of ${command.command}, but not its outcome.`),
        ),
      ),
    )
  })

/**
 * Records a command that is already done. Only for migrations, which create the table of the audit
 * trail.
 */
export const auditedAfterwards = (
  command: AuditedCommand,
  result: AuditFacts,
): Effect.Effect<void, StorageError | Config.ConfigError, Sql> =>
  Effect.gen(function* () {
    const run = randomUUID()
    yield* write({ run, ...command, outcome: 'begun', detail: null })
    yield* write({ run, ...command, outcome: 'done', detail: result })
  })
