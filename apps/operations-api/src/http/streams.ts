/** Answers that take long: they end with the process, and soon after the session of their caller. */
import { Serving } from '@hub/http-server'
import { Duration, Effect, Stream } from 'effect'
import type { Caller } from '../access/caller.ts'
import type { Sessions } from '../access/sessions.ts'
import type { StreamedAnswer } from './answer.ts'
import { makeCallerLimit } from './work.ts'

/** Another request can end the session, perhaps at another instance. */
const CHECK_SESSION_EVERY = Duration.seconds(5)

/** Makes an effect that ends when the process does, or when the session of the caller is over. */
export const makeCallerEnd =
  (sessions: Pick<Sessions['Service'], 'find'>) =>
  ({ session }: Caller): Effect.Effect<Effect.Effect<void>, never, Serving> =>
    Effect.map(Serving, ({ draining }) => {
      const sessionEnds =
        session === null
          ? Effect.never
          : sessions.find(session.token, false).pipe(
              Effect.map((found) => found === null),
              // If PostgreSQL does not answer, staff need what they read.
              Effect.orElseSucceed(() => false),
              // The request has just checked it.
              Effect.delay(CHECK_SESSION_EVERY),
              Effect.repeat({ until: (isOver) => isOver }),
            )
      return Effect.asVoid(
        Effect.race(
          Effect.promise(() => draining),
          sessionEnds,
        ),
      )
    })

/** Exports of one caller at a time. Each keeps the page that its reader has not read yet. */
const MAX_EXPORTS = 2

/**
 * Makes the limits of exports. An export of a caller whose session is over fails, and so does one at the end of the
 * process: a file that ends as usual is complete.
 */
export const makeExportLimits = (sessions: Pick<Sessions['Service'], 'find'>) => {
  const open = makeCallerLimit(MAX_EXPORTS)
  const endOf = makeCallerEnd(sessions)
  return Effect.fnUntraced(function* (caller: Caller, answer: StreamedAnswer) {
    const end = yield* endOf(caller)
    yield* open.check(caller)
    return {
      ...answer,
      // The client may have disconnected meanwhile. So the stream counts from its begin.
      body: Stream.unwrap(
        Effect.as(
          open.open(caller),
          answer.body.pipe(
            Stream.interruptWhen(Effect.andThen(end, Effect.fail('the session or the process has ended'))),
            Stream.tapError(() => Effect.logWarning('http: an export has ended before its last line')),
          ),
        ),
      ),
    }
  })
}
