import { Metric } from 'effect'

/**
 * Metrics with labels, each bound once for its values: binding costs a microsecond, which counts where something is counted for each
 * message. The values have to be few and known, since they are kept.
 */
export const memoizeLabels = () => {
  const bound = new Map<string, Metric.Metric<number, unknown>>()
  return (metric: Metric.Metric<number, unknown>, labels: Readonly<Record<string, string>>) => {
    let key = metric.id
    for (const name in labels) key += `:${labels[name]}`
    let found = bound.get(key)
    if (found === undefined) {
      found = Metric.withAttributes(metric, labels)
      bound.set(key, found)
    }
    return found
  }
}

/** The same for one label. */
export const memoizeLabel = () => {
  const bound = memoizeLabels()
  return (metric: Metric.Metric<number, unknown>, label: string, value: string) =>
    bound(metric, { [label]: value })
}
