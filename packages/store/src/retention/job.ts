/** The interface of a retention job. */
import type { Queries } from '../sql.ts'

/** The result of one step. */
export interface Step {
  /** The number of removed rows, partitions or keys. */
  readonly removed: number
  /** Where the next step of this run continues; `null` ends the run. */
  readonly position: string | null
  /** Why data that is due must wait, as a code. */
  readonly held?: string
}

export interface Job {
  /** The name in `command.retention_jobs`, in metrics and in logs. */
  readonly name: string
  /** The pause from the end of one run to the start of the next, ms. */
  readonly everyMs: number
  /**
   * One step of some tens of milliseconds, in a transaction. `now`: ms since the epoch. `position`:
   * the result of the previous step; `null` starts a run.
   */
  readonly step: (q: Queries, now: number, position: string | null) => Promise<Step>
}

/** Rows of one step: some tens of milliseconds, so that others hardly wait. */
export const ROWS_PER_STEP = 2000

/** The result of a step without a position: the run ends when nothing was left to remove. */
export const stepOf = (removed: number): Step => ({ removed, position: removed === 0 ? null : 'more' })

/** The result of the last step of a run. */
export const runEnded = (removed = 0): Step => ({ removed, position: null })
