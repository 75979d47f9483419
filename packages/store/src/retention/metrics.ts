/** Metrics of retention. The label is `task`, because Prometheus uses the label `job` itself. */
import { Effect, Metric } from 'effect'

const removedRows = Metric.counter('hub_retention_removed_total', {
  description: 'Rows, partitions or keys that retention has removed.',
  incremental: true,
})
const failures = Metric.counter('hub_retention_failures_total', {
  description: 'Steps of retention that failed and are retried.',
  incremental: true,
})
const lastFinished = Metric.gauge('hub_retention_last_finished_timestamp_seconds', {
  description: 'When the last run of a job ended in this process, seconds since the epoch.',
})
const isHeld = Metric.gauge('hub_retention_held', {
  description: '1 while data is due for removal and has to wait.',
})

const update = (metric: Metric.Metric<number, unknown>, job: string, value: number): Effect.Effect<void> =>
  Metric.update(Metric.withAttributes(metric, { task: job }), value)

export const observeStep = (job: string, removed: number, held: boolean): Effect.Effect<void> =>
  Effect.andThen(update(removedRows, job, removed), update(isHeld, job, held ? 1 : 0))
export const observeFinished = (job: string, at: number): Effect.Effect<void> =>
  update(lastFinished, job, at / 1000)
export const observeFailure = (job: string): Effect.Effect<void> => update(failures, job, 1)
