/**
 * Keeps the token of the transit engine valid: renews it when half of its time is over. A token in a file may also be
 * replaced by another program, such as the agent of the server.
 */
import { Clock, Effect } from 'effect'
import type { TransitClient } from './transit-client.ts'

/** The first look at the token, and the next one after a failure. A command of hubctl has ended by then. */
const SOON_MS = 30_000
/** The next look at a token that does not end soon. Its file may contain another one by then. */
const LATEST_MS = 3_600_000

const nextLook = (ttlSeconds: number | null): number =>
  ttlSeconds === null ? LATEST_MS : Math.min(LATEST_MS, Math.max(SOON_MS, ttlSeconds * 500))

const ENDS =
  'transit engine: the token cannot be renewed; replace it in its file before it ends, or give the hub a periodic token'

/** Never ends. Each cause is a warning once, until the token can be renewed again. */
export const keepToken = ({ lookUpToken, renewToken }: TransitClient): Effect.Effect<never> =>
  Effect.suspend(() => {
    let warned = ''
    const warnOnce = (message: string, error?: unknown) => {
      if (warned === message) return Effect.void
      warned = message
      return error === undefined ? Effect.logWarning(message) : Effect.logWarning(message, error)
    }
    const warnThatItEnds = Effect.fnUntraced(function* (ttlSeconds: number) {
      const at = yield* Clock.currentTimeMillis
      yield* Effect.annotateLogs(warnOnce(ENDS), { ends_at: new Date(at + ttlSeconds * 1000).toISOString() })
    })
    const look = Effect.gen(function* () {
      const { createdForSeconds, isRenewable, ttlSeconds } = yield* lookUpToken
      if (ttlSeconds === null) return LATEST_MS
      if (!isRenewable) {
        yield* warnThatItEnds(ttlSeconds)
        return nextLook(ttlSeconds)
      }
      const renewed = yield* renewToken
      // A renewal gives a token that is not periodic no more than the rest of its longest lifetime.
      if (renewed.ttlSeconds !== null && renewed.ttlSeconds < (createdForSeconds ?? 0) / 2) {
        yield* warnThatItEnds(renewed.ttlSeconds)
      } else warned = ''
      return nextLook(renewed.ttlSeconds)
    })
    return Effect.catch(look, (error) =>
      Effect.as(warnOnce('transit engine: the token cannot be renewed now', error), SOON_MS),
    ).pipe(
      Effect.flatMap((ms) => Effect.sleep(ms)),
      Effect.forever,
      (loop) => Effect.andThen(Effect.sleep(SOON_MS), loop),
    )
  })
