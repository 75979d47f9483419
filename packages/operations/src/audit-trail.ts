/**
 * The audit trail: who performed which operation when, in which role, with which outcome. It has
 * every operation that changes something or reads data of a person. The first row is written before
 * the operation does anything. If that is not possible, the operation does nothing.
 */
import { randomUUID } from 'node:crypto'
import { Sql, type StorageError } from '@hub/store'
import { maskNumbers } from '@hub/telemetry'
import { Cause, Effect, Exit } from 'effect'
import type { Actor, Role } from './actor.ts'
import { failureCode, LookupLimitReached, type OperationRefused, refused } from './failures.ts'
import { lookupsCounted } from './metrics.ts'
import { query } from './sql.ts'
import {
  type AuditEntry,
  type AuditFacts,
  containsNumber,
  insert,
  insertAttempt,
  insertCounted,
  NUMBER_CONSTRAINTS,
} from './tables/audit.ts'

/** What is recorded about one operation. */
export interface AuditedOperation extends Pick<AuditEntry, 'command' | 'arguments' | 'reason'> {
  readonly actor: Actor
  readonly role: Role
  /** The look-ups of the actor in an hour, of which this is one; `null`: it is none, or has no limit. */
  readonly lookups: number | null
}

type RecordedOperation = Omit<AuditedOperation, 'lookups'>

const entryOf = (
  { actor, arguments: facts, command, reason, role }: RecordedOperation,
  row: Pick<AuditEntry, 'run' | 'outcome' | 'detail'>,
): AuditEntry => ({
  ...row,
  arguments: facts,
  command,
  reason,
  role,
  actor: maskNumbers(actor.name),
  actorId: actor.id,
  counted: false,
})

const write = (
  operation: RecordedOperation,
  row: Pick<AuditEntry, 'run' | 'outcome' | 'detail'>,
): Effect.Effect<void, StorageError, Sql> => query((q) => insert(q, entryOf(operation, row)))

/** Writes the first row of an operation. A look-up above the limit of its actor is refused. */
const begin = (
  operation: AuditedOperation,
  run: string,
): Effect.Effect<void, StorageError | LookupLimitReached, Sql> =>
  Effect.gen(function* () {
    const { actor, command, lookups } = operation
    const row = { run, outcome: 'begun', detail: null } as const
    if (lookups === null) return yield* write(operation, row)
    const sql = yield* Sql
    const wait = yield* sql.transaction((q) =>
      insertCounted(q, { ...entryOf(operation, row), counted: true }, lookups),
    )
    lookupsCounted.add({ result: wait === null ? 'begun' : 'refused' })
    if (wait === null) return
    yield* recordAttempt(actor, command, 'lookup_limit_reached', { limit: lookups })
    return yield* new LookupLimitReached({ limit: lookups, retryAfterSeconds: wait })
  })

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

const numberAsRefusal = <E extends StorageError | LookupLimitReached>(error: E): E | OperationRefused =>
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
): Effect.Effect<A, E | OperationRefused | LookupLimitReached | StorageError, R | Sql> =>
  Effect.gen(function* () {
    const run = randomUUID()
    if (containsNumber(operation)) return yield* NUMBER_IN_AUDIT
    yield* Effect.mapError(begin(operation, run), numberAsRefusal)
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
 * Records an attempt that is refused before it begins: one line for each actor, operation, code and hour. It
 * never fails, so that the actor always gets the same answer.
 */
export const recordAttempt = (
  actor: Actor,
  command: string,
  code: Parameters<typeof insertAttempt>[1]['code'],
  facts: AuditFacts,
): Effect.Effect<void, never, Sql> =>
  query((q) =>
    insertAttempt(q, {
      run: randomUUID(),
      actor: maskNumbers(actor.name),
      actorId: actor.id,
      command,
      code,
      facts,
    }),
  ).pipe(
    Effect.catch((error) =>
      Effect.logWarning('operations: a refused attempt is not in the audit trail').pipe(
        Effect.annotateLogs({ operation: command, code, error: error._tag }),
      ),
    ),
  )

/**
 * Records an operation that is already done. Only for migrations, which create the table of the
 * audit trail.
 */
export const auditedAfterwards = (
  operation: RecordedOperation,
  detail: AuditFacts,
): Effect.Effect<void, StorageError, Sql> =>
  Effect.gen(function* () {
    const run = randomUUID()
    yield* write(operation, { run, outcome: 'begun', detail: null })
    yield* write(operation, { run, outcome: 'done', detail })
  })
