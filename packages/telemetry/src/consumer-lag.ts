import { type Context, Metric } from 'effect'
import { memoizeLabels } from './metric-labels.ts'

/** How far behind the end of its partition a process is. */
export interface ConsumerLag {
  /** Without the deployment's prefix. */
  readonly topic: string
  readonly partition: number
  readonly records: number
}

const lag = Metric.gauge('hub_consumer_lag_records', {
  description:
    'Records of a partition that its owner has not read yet (projector: not applied yet), by topic and partition; 0 from whoever owns it no more.',
})

/** Tells lag, of all partitions of the process at a time: what it told before and does not own any more is 0. */
export const makeLagGauge = (context: Context.Context<never>) => {
  const bound = memoizeLabels()
  const gauge = (topic: string, partition: string) => bound(lag, { topic, partition })
  let told = new Map<string, Metric.Metric<number, unknown>>()
  return (now: ReadonlyArray<ConsumerLag>): void => {
    const telling = new Map<string, Metric.Metric<number, unknown>>()
    for (const { partition, records, topic } of now) {
      const metric = gauge(topic, String(partition))
      metric.updateUnsafe(records, context)
      telling.set(`${topic}/${partition}`, metric)
    }
    for (const [place, metric] of told) if (!telling.has(place)) metric.updateUnsafe(0, context)
    told = telling
  }
}
