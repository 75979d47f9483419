/** Performs the use cases of `@hub/operations` for the person at the command line, here or through the API. */
import { userInfo } from 'node:os'
import { settings } from '@hub/config'
import { type Actor, actorId, OperationRefused, perform, type UseCase } from '@hub/operations'
import { maskNumbers } from '@hub/telemetry'
import { type Config, Effect } from 'effect'
import { performOverApi, selectedApi } from './api.ts'

/** The user id of a container may have no name. */
const osUser = Effect.sync(() => {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`
  }
})

/**
 * `HUBCTL_ACTOR`, for jobs and shared machines, or the user of the operating system. Whoever has the
 * URL of the database may do everything.
 */
export const actor: Effect.Effect<Actor, Config.ConfigError> = Effect.gen(function* () {
  const name = (yield* settings.hubctlActor.config) ?? (yield* osUser)
  return { id: actorId('hubctl', name), name: maskNumbers(name), roles: ['admin'], via: 'hubctl' }
})

/** Performs a use case. Confirm first: an unconfirmed command leaves no row in the audit trail. */
export const run = <Input, Output, E, R>(useCase: UseCase<Input, Output, E, R>, input: Input) =>
  Effect.gen(function* () {
    const api = yield* selectedApi
    if (api !== null) return yield* performOverApi(api, useCase, input)
    return yield* perform(yield* actor, useCase, input)
  })

/** Adds the command that helps to the sentence of a refusal with this code. */
export const withHint = (code: string, hint: string) =>
  Effect.mapError(<E>(error: E) =>
    error instanceof OperationRefused && error.code === code
      ? new OperationRefused({ code, message: `${error.message} ${hint}` })
      : error,
  )
