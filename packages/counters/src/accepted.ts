/** Whether Redis accepts the settings of this process. */
import { connectionFault } from '@hub/config'
import { Effect } from 'effect'
import type { CountersShape } from './port.ts'

/**
 * For readiness: false while Redis refuses the settings, for example the password, and has never accepted them. An
 * outage does not matter, because a process can work without Redis.
 */
export const acceptsSettings = ({ ping }: Pick<CountersShape, 'ping'>): Effect.Effect<boolean> => {
  let isAccepted = false
  return Effect.suspend(() =>
    isAccepted
      ? Effect.succeed(true)
      : Effect.match(ping, {
          onSuccess: () => (isAccepted = true),
          onFailure: (error) => connectionFault(error)?.isRefusal !== true,
        }),
  )
}
