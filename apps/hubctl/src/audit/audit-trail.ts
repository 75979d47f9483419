/** Records commands that are not use cases of `@hub/operations` in the audit trail. */
import * as Operations from '@hub/operations'
import { Effect } from 'effect'
import { toCommandFailed } from '../command-line/failure.ts'
import { actor } from '../operations.ts'

interface AuditedCommand {
  readonly command: string
  readonly arguments: Operations.AuditFacts
}

const operationOf = (command: AuditedCommand) =>
  Effect.map(actor, (who): Operations.AuditedOperation => ({
    ...command,
    actor: who,
    role: 'admin',
    reason: null,
  }))

/**
 * Runs `work` between two rows of the audit trail. `result` selects the facts of the outcome to
 * record. Confirm first: an unconfirmed command leaves no row.
 */
export const audited = <A, E, R>(
  command: AuditedCommand,
  work: Effect.Effect<A, E, R>,
  result: (value: A) => Operations.AuditFacts = () => ({}),
) =>
  Effect.flatMap(operationOf(command), (operation) =>
    Operations.audited(operation, work, result, (error) => toCommandFailed(error)?.code ?? 'internal_error'),
  )

/**
 * Records a command that is already done. Only for migrations, which create the table of the audit
 * trail.
 */
export const auditedAfterwards = (command: AuditedCommand, result: Operations.AuditFacts) =>
  Effect.flatMap(operationOf(command), (operation) => Operations.auditedAfterwards(operation, result))
