/** Performs use cases: the one place that checks permissions and writes the audit trail. */
import { settings } from '@hub/config'
import type { Sql, StorageError } from '@hub/store'
import { type Config, Effect } from 'effect'
import type { Actor, Role } from './actor.ts'
import { audited, recordAttempt } from './audit-trail.ts'
import {
  Forbidden,
  inputInvalid,
  type LookupLimitReached,
  type OperationRefused,
  refused,
} from './failures.ts'
import { type Permission, roleAmong, rolesOf, rolesWith } from './permission.ts'
import { withinAccounts } from './scope.ts'
import type { UseCase } from './use-case.ts'

/** The role of the actor among those that are allowed. An attempt without one is not recorded. */
const requireAmong = (
  actor: Actor,
  permission: Permission,
  roles: ReadonlyArray<Role>,
): Effect.Effect<Role, Forbidden> =>
  Effect.suspend(() => {
    const role = roleAmong(actor, roles)
    return role === null ? Effect.fail(new Forbidden({ permission, roles })) : Effect.succeed(role)
  })

/** The role of the actor that has a permission. An attempt without one is not recorded. */
export const requirePermission = (actor: Actor, permission: Permission): Effect.Effect<Role, Forbidden> =>
  requireAmong(actor, permission, rolesWith(permission))

/**
 * The role of the actor that allows a use case. An attempt without one is recorded, if the use case itself
 * would be.
 */
export const requireRole = (
  actor: Actor,
  useCase: Pick<UseCase<never, never, never, never>, 'audit' | 'members' | 'name' | 'permission'>,
): Effect.Effect<Role, Forbidden, Sql> => {
  const { audit, name, permission } = useCase
  return Effect.tapError(requireAmong(actor, permission, rolesOf(useCase)), () =>
    audit === null ? Effect.void : recordAttempt(actor, name, 'forbidden', { permission }),
  )
}

/**
 * Checks the permission of the actor, limits a member to their accounts, and runs the use case between two rows of the
 * audit trail:
 * `begun`, then `done` or `failed`. Without the first row, nothing is done. A look-up above the limit of its
 * actor is refused. The caller has decoded the input.
 */
export const perform = <Input, Output, E, R>(
  actor: Actor,
  useCase: UseCase<Input, Output, E, R>,
  input: Input,
): Effect.Effect<
  Output,
  E | OperationRefused | Forbidden | LookupLimitReached | StorageError | Config.ConfigError,
  R | Sql
> =>
  Effect.gen(function* () {
    const { audit, name, result = () => ({}) } = useCase
    const role = yield* requireRole(actor, useCase)
    const mistake = useCase.check?.(input) ?? null
    if (mistake !== null) return yield* inputInvalid(mistake)
    const reason = useCase.reason?.(input) ?? null
    if (useCase.reason !== undefined && reason === null && actor.via === 'api') {
      return yield* refused('reason_required', 'Say why, for the audit trail.', 'reason')
    }
    const scoped = yield* withinAccounts(actor, useCase, input)
    const work = scoped.restore(useCase.run(scoped.input, actor))
    if (audit === null) return yield* work
    // Who runs hubctl has the keys of the hub, so a limit would stop nobody.
    const isLimited = actor.via === 'api' && useCase.counts?.(input) === true
    const lookups = isLimited ? yield* settings.lookupsPerHour.config : null
    return yield* audited(
      { actor, role, command: name, arguments: audit(scoped.asked), reason, lookups },
      work,
      result,
    )
  })
