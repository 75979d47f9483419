/**
 * Runs the work of admitted requests in slices: for some milliseconds in each turn of the event loop,
 * urgent work first. Between two slices the process reads from its sockets. So refusals, new connections
 * and the answers of PostgreSQL, Redis and Kafka never wait until a hundred requests are parsed or
 * answered. Source: docs/decisions/overload.md#limits.
 */

/**
 * The length of a slice. The work that runs at its end exceeds it. A slice may take as
 * long as the time since the last one, up to a bound. Otherwise refusals would take most of the time of
 * an overloaded process, and answers to admitted requests would wait for seconds.
 */
const SLICE_MS = { shortest: 4, longest: 10 }

type Work = () => void

export interface SlicesOptions {
  readonly sliceMs?: Readonly<typeof SLICE_MS>
  /** A clock, milliseconds. */
  readonly now?: () => number
  /** Runs work in the next turn of the event loop. */
  readonly nextTurn?: (work: Work) => void
}

export const makeSlices = ({
  nextTurn = (work) => void setImmediate(work),
  now = () => performance.now(),
  sliceMs = SLICE_MS,
}: SlicesOptions = {}) => {
  const urgent: Array<Work> = []
  const others: Array<Work> = []
  let isScheduled = false
  /** When the last slice ended. */
  let ended = now()

  const schedule = (): void => {
    if (isScheduled || urgent.length + others.length === 0) return
    isScheduled = true
    nextTurn(run)
  }
  const run = (): void => {
    isScheduled = false
    const begun = now()
    const end = begun + Math.min(sliceMs.longest, Math.max(sliceMs.shortest, begun - ended))
    try {
      // Urgent work must not stop the other work completely.
      others.shift()?.()
      while (now() < end) {
        const work = urgent.shift() ?? others.shift()
        if (work === undefined) return
        work()
      }
    } finally {
      ended = now()
      schedule()
    }
  }

  return {
    add: (isUrgent: boolean, work: Work): void => {
      ;(isUrgent ? urgent : others).push(work)
      schedule()
    },
  }
}
export type Slices = ReturnType<typeof makeSlices>

/** The slices of this process: it has one event loop. */
export const slices = makeSlices()
