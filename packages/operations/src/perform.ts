/** Performs use cases: the one place that checks permissions and writes the audit trail. */
import type { Sql, StorageError } from '@hub/store'
import { Effect } from 'effect'
import type { Actor } from './actor.ts'
import { audited } from './audit-trail.ts'
import { Forbidden, inputInvalid, type OperationRefused, refused } from './failures.ts'
import { allowingRole } from './permission.ts'
import type { UseCase } from './use-case.ts'

/**
 * Checks the permission of the actor, and runs the use case between two rows of the audit trail:
 * `begun`, then `done` or `failed`. Without the first row, nothing is done. The caller has decoded
 * the input.
 */
export const perform = <Input, Output, E, R>(
  actor: Actor,
  useCase: UseCase<Input, Output, E, R>,
  input: Input,
): Effect.Effect<Output, E | OperationRefused | Forbidden | StorageError, R | Sql> =>
  Effect.gen(function* () {
    const { audit, name, permission, result = () => ({}) } = useCase
    const role = allowingRole(actor, permission)
    if (role === null) return yield* new Forbidden({ permission })
    const mistake = useCase.check?.(input) ?? null
    if (mistake !== null) return yield* inputInvalid(mistake)
    const reason = useCase.reason?.(input) ?? null
    if (useCase.reason !== undefined && reason === null && actor.via === 'api') {
      return yield* refused('reason_required', 'Say why, for the audit trail.', 'reason')
    }
    const work = useCase.run(input, actor)
    if (audit === null) return yield* work
    return yield* audited({ actor, role, command: name, arguments: audit(input), reason }, work, result)
  })
