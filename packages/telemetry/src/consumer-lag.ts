/** The metric of the consumer lag. */
import { gauge } from './metric-kinds.ts'
import { type Context, Metric } from 'effect'
import { memoizeLabels } from './metric-labels.ts'

/** The number of records between a process's position and the end of a partition. */
export interface ConsumerLag {
  /** The topic without the prefix of the deployment. */
  readonly topic: string
  readonly partition: number
  readonly records: number
}

const lag = gauge(
  'hub_consumer_lag_records',
  'Records of a partition that its owner has not read yet (projector: not applied yet), by topic and partition. 0 for a partition that the process no longer owns.',
)

/**
 * Returns a function that sets the lag of all owned partitions, and 0 for those no longer owned.
 */
export const makeLagGauge = (context: Context.Context<never>) => {
  const labelled = memoizeLabels()
  const gauge = (topic: string, partition: string) => labelled(lag, { topic, partition })
  let reported = new Map<string, Metric.Metric<number, unknown>>()
  return (now: ReadonlyArray<ConsumerLag>): void => {
    const current = new Map<string, Metric.Metric<number, unknown>>()
    for (const { partition, records, topic } of now) {
      const metric = gauge(topic, String(partition))
      metric.updateUnsafe(records, context)
      current.set(`${topic}/${partition}`, metric)
    }
    for (const [partition, metric] of reported) if (!current.has(partition)) metric.updateUnsafe(0, context)
    reported = current
  }
}
