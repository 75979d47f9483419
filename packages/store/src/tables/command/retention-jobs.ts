/**
 * `command.retention_jobs`: schedule and progress of retention. Owner: `retention/` of this
 * package.
 */
import type { Queries } from '../../pool.ts'

/** Stops the named jobs until the transaction ends. Waits for their current steps. */
export const lock = (q: Queries, jobs: ReadonlyArray<string>) => q`
  SELECT 1 FROM command.retention_jobs WHERE job = ANY (${[...jobs]}) ORDER BY job FOR UPDATE`
