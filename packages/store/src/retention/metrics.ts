/** Metrics of retention. The label is `task`, because Prometheus uses the label `job` itself. */
import { counter, gauge, labelSets, memoizeLabels } from '@hub/telemetry'
import { Context } from 'effect'
import { RETENTION_JOBS } from './jobs.ts'

const TASKS = labelSets({ task: RETENTION_JOBS.map(({ name }) => name) })

const removedRows = counter(
  'hub_retention_removed_total',
  'Rows, partitions or keys that retention has removed.',
  TASKS,
)
const failures = counter(
  'hub_retention_failures_total',
  'Steps of retention that failed and are retried.',
  TASKS,
)
const lastFinished = gauge(
  'hub_retention_last_finished_timestamp_seconds',
  'When the last run of a job ended in this process, seconds since the epoch.',
)
const isHeld = gauge('hub_retention_held', '1 while data is due for removal and has to wait.')

const labelled = memoizeLabels()
const context = Context.empty()

export const observeStep = (job: string, removed: number, held: boolean): void => {
  removedRows.add({ task: job }, removed)
  labelled(isHeld, { task: job }).updateUnsafe(held ? 1 : 0, context)
}
/** `at`: milliseconds since the epoch. */
export const observeFinished = (job: string, at: number): void =>
  labelled(lastFinished, { task: job }).updateUnsafe(at / 1000, context)
export const observeFailure = (job: string): void => failures.add({ task: job })
