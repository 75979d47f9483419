/** What a job of retention is. */
import type { Queries } from '../sql.ts'

/** What a step has come to. */
export interface Step {
  /** Rows, partitions or keys that are gone. */
  readonly removed: number
  /** Where the next step of this run goes on; `null` ends the run. */
  readonly position: string | null
  /** What is due and has to wait, as a word for people. */
  readonly held?: string
}

export interface Job {
  /** Its name in `command.retention_jobs`, in metrics and in logs. */
  readonly name: string
  /** From the end of one run to the next, ms. */
  readonly everyMs: number
  /**
   * One small step, in a transaction that holds the job: some tens of milliseconds. `now`: milliseconds since the epoch. `position`: what the
   * step before it answered; `null` begins a run.
   */
  readonly step: (q: Queries, now: number, position: string | null) => Promise<Step>
}

/** Rows of one step: some tens of milliseconds, so that nothing else waits for it. */
export const ROWS_A_STEP = 2000

/** Nothing is left to do for now. */
export const done = (removed = 0): Step => ({ removed, position: null })
