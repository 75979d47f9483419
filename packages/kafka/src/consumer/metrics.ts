/** The metric of the rebalances of consumer groups. */
import { Context, Metric } from 'effect'

/** Seconds. Rebalances take tenths of a second; a group waits six seconds for a member that was killed. */
const BOUNDARIES = [0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 20, 60]

const stoppedSeconds = Metric.histogram('hub_consumer_stopped_seconds', {
  description:
    'How long a rebalance stopped the reading of a partition, in seconds, by topic. One observation for each partition of each rebalance.',
  boundaries: BOUNDARIES,
})
const context = Context.empty()

/** Records how long a partition of a topic was not read because of a rebalance. */
export const observeStop = (topic: string, ms: number): void =>
  Metric.withAttributes(stoppedSeconds, { topic }).updateUnsafe(ms / 1000, context)
