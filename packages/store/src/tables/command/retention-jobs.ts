/**
 * `command.retention_jobs`: the schedule and the progress of the retention jobs.
 *
 * Owner: the retention module of this package. A process that runs a step of a job locks the row of
 * the job.
 */
import type { Queries } from '../../pool.ts'

/** Stops the named jobs until the transaction ends. Waits for their current steps. */
export const lock = (q: Queries, jobs: ReadonlyArray<string>) => q`
  SELECT 1 FROM command.retention_jobs WHERE job = ANY (${[...jobs]}) ORDER BY job FOR UPDATE`
