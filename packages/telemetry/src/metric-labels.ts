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
      found = bind(metric, labels)
      memoized.set(key, found)
    }
    return found
  }
}

/**
 * A metric remembers the key of its series only for the labels of its last update. So each label set has a
 * metric of its own where only the name and the description identify one. All counters rise only.
 */
const bind = (
  metric: Metric.Metric<number, unknown>,
  attributes: Readonly<Record<string, string>>,
): Metric.Metric<number, unknown> => {
  const options = { description: metric.description, attributes }
  if (metric.type === 'Gauge') return Metric.gauge(metric.id, options)
  if (metric.type === 'Counter') return Metric.counter(metric.id, { ...options, incremental: true })
  return Metric.withAttributes(metric, attributes)
}
