/** The progress of a long command on standard error: a line that changes on a terminal, else a line now and then. */

const TERMINAL_EVERY_MS = 250
const LOG_EVERY_MS = 10_000
const BAR_WIDTH = 24

/** A count with separators: `1,234,567`. */
export const thousands = (count: number): string => count.toLocaleString('en-GB')

/** `1 h 2 min`, `3 min 5 s` or `8 s`. */
export const durationText = (seconds: number): string => {
  const whole = Math.ceil(seconds)
  if (whole >= 3600) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`
  return whole >= 60 ? `${Math.floor(whole / 60)} min ${whole % 60} s` : `${whole} s`
}

interface State {
  readonly verb: string
  /** What is counted. */
  readonly unit: 'rows' | 'lines' | 'messages'
  readonly done: number
  /** `null` if it is not known yet. */
  readonly total: number | null
  /** Per second; 0 if it is not known yet. */
  readonly rate: number
}

export const progressText = ({ done, rate, total, unit, verb }: State): string => {
  const count = thousands(done)
  const speed = rate === 0 ? '' : `, ${thousands(Math.round(rate))}/s`
  // The result file of another version may name a later line.
  if (total === null || done > total) return `${verb} ${count} ${unit}${speed}`
  const share = total === 0 ? 1 : done / total
  const filled = Math.floor(share * BAR_WIDTH)
  const left = rate === 0 ? '' : `, ${durationText((total - done) / rate)} left`
  return `[${'#'.repeat(filled)}${'.'.repeat(BAR_WIDTH - filled)}] ${Math.floor(share * 100)} %  ${verb} ${count} of ${thousands(total)} ${unit}${speed}${left}`
}

export interface Progress {
  readonly update: (done: number) => void
  readonly end: () => void
}

/** `first`: those of an earlier start, which do not count for the rate. */
export const makeProgress = (
  verb: string,
  unit: State['unit'],
  total: number | null,
  isTerminal: boolean,
  first = 0,
): Progress => {
  const startedAt = performance.now()
  let shownAt = startedAt
  let isShown = false
  return {
    update: (done) => {
      const now = performance.now()
      if (now - shownAt < (isTerminal ? TERMINAL_EVERY_MS : LOG_EVERY_MS)) return
      shownAt = now
      isShown = true
      const text = progressText({
        verb,
        unit,
        done,
        total,
        rate: ((done - first) * 1000) / (now - startedAt),
      })
      process.stderr.write(isTerminal ? `\r${text}\u001b[K` : `${text}\n`)
    },
    end: () => {
      if (isTerminal && isShown) process.stderr.write('\r\u001b[K')
    },
  }
}
