/**
 * When a part of the overview is read again. The more a read costs, the rarer it is, so that all viewers
 * together cost at most 1 % of a core, however many messages the hub has.
 */

/**
 * The pause after a read, as a multiple of its duration. A read occupies one connection of PostgreSQL, and
 * at most one core. The four reads together occupy at most 4 / 400 = 1 % of a core.
 */
const PAUSE_RATIO = 400

/**
 * The shortest of the last reads is what a read costs: others have waited for something, such as a busy
 * machine. The first reads do not count, because nothing is cached yet.
 */
const SAMPLES = 3

/** Of one read. Times in milliseconds. */
export interface Pace {
  /** The time from the start of a read to the next, if the read is fast. */
  readonly everyMs: number
  /** The durations of the last reads. */
  readonly durations: ReadonlyArray<number>
  /** The next read; 0: at once. */
  readonly dueAt: number
}

export const newPace = (everyMs: number): Pace => ({ everyMs, durations: [], dueAt: 0 })

export const isDue = ({ dueAt }: Pace, now: number): boolean => now >= dueAt

/**
 * The pause after a failed read. It waited for a server, so it does not say what a read costs. The longest one
 * waits for 9 s, so the overview shows a server that has come back after 90 s at the latest.
 */
const FAILED_PAUSE_RATIO = 10

/** The pace after a read that failed. */
export const afterFailure = (pace: Pace, startedAt: number, endedAt: number): Pace => ({
  ...pace,
  dueAt: Math.max(startedAt + pace.everyMs, endedAt + (endedAt - startedAt) * FAILED_PAUSE_RATIO),
})

/** The pace after a read. */
export const afterRead = (pace: Pace, startedAt: number, endedAt: number): Pace => {
  const durations = [...pace.durations, endedAt - startedAt].slice(-SAMPLES)
  const cost = durations.length < SAMPLES ? 0 : Math.min(...durations)
  return { ...pace, durations, dueAt: Math.max(startedAt + pace.everyMs, endedAt + cost * PAUSE_RATIO) }
}
