/**
 * The audit trail: who performed which operation when, in which role, with which outcome. It has
 * every operation that changes something or reads data of a person. The first row is written before
 * the operation does anything. If that is not possible, the operation does nothing.
 */
import { randomUUID } from 'node:crypto'
import type { Sql, StorageError } from '@hub/store'
import { maskNumbers } from '@hub/telemetry'
import { Cause, Effect, Exit } from 'effect'
import type { Actor, Role } from './actor.ts'
import { failureCode, type OperationRefused, refused } from './failures.ts'
import { query } from './sql.ts'
import {
  type AuditEntry,
  type AuditFacts,
  containsNumber,
  insert,
  insertForbidden,
  NUMBER_CONSTRAINTS,
} from './tables/audit.ts'

/** What is recorded about one operation. */
export interface AuditedOperation extends Pick<AuditEntry, 'command' | 'arguments' | 'reason'> {
  readonly actor: Actor
  readonly role: Role
}

const write = (
  { actor, ...operation }: AuditedOperation,
  row: Pick<AuditEntry, 'run' | 'outcome' | 'detail'>,
): Effect.Effect<void, StorageError, Sql> =>
  query((q) => insert(q, { ...operation, ...row, actor: maskNumbers(actor.name) }))

const outcomeOf = <A, E>(
  exit: Exit.Exit<A, E>,
  result: (value: A) => AuditFacts,
): Pick<AuditEntry, 'outcome' | 'detail'> => {
  if (Exit.isSuccess(exit)) return { outcome: 'done', detail: result(exit.value) }
  const code = Cause.hasInterruptsOnly(exit.cause) ? 'interrupted' : failureCode(Cause.squash(exit.cause))
  return { outcome: 'failed', detail: { code } }
}

const NUMBER_IN_AUDIT = refused(
  'number_in_audit',
  'An argument contains a phone number, which the audit trail must not contain. Nothing was done.',
)

const numberAsRefusal = (error: StorageError): StorageError | OperationRefused =>
  error._tag === 'StorageRejected' && NUMBER_CONSTRAINTS.includes(error.constraint ?? '')
    ? NUMBER_IN_AUDIT
    : error

/**
 * Runs `work` between two rows of the audit trail. `result` selects the facts of the outcome to
 * record.
 */
export const audited = <A, E, R>(
  operation: AuditedOperation,
  work: Effect.Effect<A, E, R>,
  result: (value: A) => AuditFacts,
): Effect.Effect<A, E | OperationRefused | StorageError, R | Sql> =>
  Effect.gen(function* () {
    const run = randomUUID()
    if (containsNumber(operation)) return yield* NUMBER_IN_AUDIT
    yield* Effect.mapError(write(operation, { run, outcome: 'begun', detail: null }), numberAsRefusal)
    return yield* Effect.onExit(work, (exit) =>
      write(operation, { run, ...outcomeOf(exit, result) }).pipe(
        Effect.catch((error) =>
          Effect.logWarning(
            'operations: the audit trail has the start of an operation, but not its outcome',
          ).pipe(Effect.annotateLogs({ operation: operation.command, error: error._tag })),
        ),
      ),
    )
  })

/**
 * Records that no role of the actor has the permission for an operation: one line for each actor, operation
 * and hour. It never fails, so that the actor always gets the same answer.
 */
export const recordForbidden = (
  actor: Actor,
  command: string,
  permission: string,
): Effect.Effect<void, never, Sql> =>
  query((q) =>
    insertForbidden(q, { run: randomUUID(), actor: maskNumbers(actor.name), command, permission }),
  ).pipe(
    Effect.catch((error) =>
      Effect.logWarning('operations: an attempt without a role is not in the audit trail').pipe(
        Effect.annotateLogs({ operation: command, error: error._tag }),
      ),
    ),
  )

/**
 * Records an operation that is already done. Only for migrations, which create the table of the
 * audit trail.
 */
export const auditedAfterwards = (
  operation: AuditedOperation,
  detail: AuditFacts,
): Effect.Effect<void, StorageError, Sql> =>
  Effect.gen(function* () {
    const run = randomUUID()
    yield* write(operation, { run, outcome: 'begun', detail: null })
    yield* write(operation, { run, outcome: 'done', detail })
  })
