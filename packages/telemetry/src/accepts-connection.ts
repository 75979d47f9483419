/** A check whether a server can be reached, for readiness and for `hubctl doctor`. */
import { connect } from 'node:net'
import { type Duration, Effect } from 'effect'

/** Whether a server accepts a TCP connection in this time. `address`: `host:port`. */
export const acceptsConnection = (address: string, within: Duration.Duration): Effect.Effect<boolean> =>
  Effect.callback<boolean>((resume) => {
    const colon = address.lastIndexOf(':')
    const host = address.slice(0, colon).replace(/^\[|\]$/gu, '')
    const socket = connect({ host, port: Number(address.slice(colon + 1)) })
    const end = (reached: boolean) => {
      socket.destroy()
      resume(Effect.succeed(reached))
    }
    socket.once('connect', () => end(true))
    socket.once('error', () => end(false))
    return Effect.sync(() => socket.destroy())
  }).pipe(Effect.timeoutOrElse({ duration: within, orElse: () => Effect.succeed(false) }))
