import { Metric } from 'effect'

/**
 * Metrics with one label, each bound once for a value: binding costs a microsecond, which counts where something is counted for each
 * message. The values have to be few and known, since they are kept.
 */
export const makeLabelled = () => {
  const bound = new Map<string, Metric.Metric<number, unknown>>()
  return (metric: Metric.Metric<number, unknown>, label: string, value: string) => {
    const key = `${metric.id}:${value}`
    let found = bound.get(key)
    if (found === undefined) {
      found = Metric.withAttributes(metric, { [label]: value })
      bound.set(key, found)
    }
    return found
  }
}
