/**
 * Memoizes metrics with label values: to bind them takes a microsecond, too long for each message.
 * The values must be few and known, because every combination stays in memory.
 */
import { Metric } from 'effect'

export const memoizeLabels = () => {
  const memoized = new Map<string, Metric.Metric<number, unknown>>()
  return (metric: Metric.Metric<number, unknown>, labels: Readonly<Record<string, string>>) => {
    let key = metric.id
    for (const name in labels) key += `:${labels[name]}`
    let found = memoized.get(key)
    if (found === undefined) {
      found = Metric.withAttributes(metric, labels)
      memoized.set(key, found)
    }
    return found
  }
}
