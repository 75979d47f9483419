/**
 * Metrics of retention. The label `task` contains the job, because Prometheus uses the label `job`
 * itself.
 */
import { Effect, Metric } from 'effect'

const perJob = <A>(make: (job: string) => A): ((job: string) => A) => {
  const made = new Map<string, A>()
  return (job) => {
    let metric = made.get(job)
    if (metric === undefined) made.set(job, (metric = make(job)))
    return metric
  }
}

const removedOf = perJob((job) =>
  Metric.counter('hub_retention_removed_total', {
    description: 'Rows, partitions or keys that retention has removed.',
    incremental: true,
    attributes: { task: job },
  }),
)
const failuresOf = perJob((job) =>
  Metric.counter('hub_retention_failures_total', {
    description: 'Steps of retention that failed and are retried.',
    incremental: true,
    attributes: { task: job },
  }),
)
const finishedOf = perJob((job) =>
  Metric.gauge('hub_retention_last_finished_timestamp_seconds', {
    description: 'When the last run of a job ended in this process, seconds since the epoch.',
    attributes: { task: job },
  }),
)
const heldOf = perJob((job) =>
  Metric.gauge('hub_retention_held', {
    description: '1 while data is due for removal and has to wait.',
    attributes: { task: job },
  }),
)

export const observeStep = (job: string, removed: number, held: boolean): Effect.Effect<void> =>
  Effect.andThen(Metric.update(removedOf(job), removed), Metric.update(heldOf(job), held ? 1 : 0))
export const observeFinished = (job: string, at: number): Effect.Effect<void> =>
  Metric.update(finishedOf(job), at / 1000)
export const observeFailure = (job: string): Effect.Effect<void> => Metric.update(failuresOf(job), 1)
