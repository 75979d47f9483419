/** What the log says about an outage of Redis. */
import { connectionFault } from '@hub/config'
import { Effect } from 'effect'
import type { CountersUnavailable } from './port.ts'

export interface OutageLog {
  /** Warns once for each cause, because attempts to connect follow each other quickly. */
  readonly warn: (cause: CountersUnavailable) => Effect.Effect<void>
  /** The outage is over: the same cause is news again. */
  readonly end: () => void
}

/** `unknown`: the sentence about a cause that has none of its own. Without it, there is no warning. */
export const makeOutageLog = (unknown?: string): OutageLog => {
  let said: string | undefined
  return {
    warn: (cause) =>
      Effect.suspend(() => {
        const sentence = connectionFault(cause)?.sentence ?? unknown
        if (sentence === undefined || sentence === said) return Effect.void
        said = sentence
        const { detail, reason } = cause
        return Effect.logWarning(`counters: ${sentence}`).pipe(Effect.annotateLogs({ reason, detail }))
      }),
    end: () => {
      said = undefined
    },
  }
}
