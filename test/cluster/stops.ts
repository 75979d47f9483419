/**
 * How long rebalances stopped partitions, from the histogram `hub_consumer_stopped_seconds` of all pods as
 * Prometheus has seen it. What a pod measures between its last scrape and its end is missing.
 */

/** A bucket of the histogram of one pod and topic, as Prometheus answers. */
export interface Bucket {
  readonly metric: Readonly<Record<string, string>>
  /** Its time, and its value as text. */
  readonly value: readonly [number, string]
}

export interface Stops {
  /** Stopped partitions: one for each partition of each rebalance. */
  readonly partitions: number
  /** Upper bounds of the 99th percentile and of the longest stop, in seconds. */
  readonly p99: number
  readonly max: number
}

const bound = (bucket: Bucket): number =>
  bucket.metric['le'] === '+Inf' ? Infinity : Number(bucket.metric['le'])

const seriesOf = ({ metric }: Bucket): string =>
  JSON.stringify(Object.entries(metric).toSorted(([a], [b]) => (a < b ? -1 : 1)))

/** What the buckets have gained from `before` to `after`, of the topics that `isWanted` names. */
export const stopsOf = (
  before: ReadonlyArray<Bucket>,
  after: ReadonlyArray<Bucket>,
  isWanted: (topic: string) => boolean = () => true,
): Stops => {
  const earlier = new Map(before.map((bucket) => [seriesOf(bucket), Number(bucket.value[1])]))
  const counts = new Map<number, number>()
  for (const bucket of after) {
    if (!isWanted(bucket.metric['topic'] ?? '')) continue
    const gained = Number(bucket.value[1]) - (earlier.get(seriesOf(bucket)) ?? 0)
    counts.set(bound(bucket), (counts.get(bound(bucket)) ?? 0) + gained)
  }
  const partitions = counts.get(Infinity) ?? 0
  const boundOf = (part: number): number =>
    [...counts].toSorted(([a], [b]) => a - b).find(([, count]) => count >= part * partitions)?.[0] ?? 0
  return partitions === 0
    ? { partitions, p99: 0, max: 0 }
    : { partitions, p99: boundOf(0.99), max: boundOf(1) }
}
