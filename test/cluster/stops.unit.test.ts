import { describe, expect, it } from 'vitest'
import { type Bucket, stopsOf } from './stops.ts'

/** The cumulative buckets of a pod and topic, as Prometheus has them. */
const buckets = (
  pod: string,
  topic: string,
  counts: Readonly<Record<string, number>>,
): ReadonlyArray<Bucket> =>
  Object.entries(counts).map(([le, count]) => ({ metric: { pod, topic, le }, value: [0, String(count)] }))

describe('the stops of partitions', () => {
  it('are what all pods have gained', () => {
    const before = buckets('a', 'codes', { '1': 4, '2': 4, '+Inf': 4 })
    const after = [
      ...buckets('a', 'codes', { '1': 8, '2': 8, '+Inf': 8 }),
      ...buckets('b', 'codes', { '1': 95, '2': 96, '+Inf': 96 }),
    ]
    expect(stopsOf(before, after)).toEqual({ partitions: 100, p99: 1, max: 2 })
  })

  it('are counted for the wanted topics', () => {
    const after = [
      ...buckets('a', 'codes', { '1': 1, '+Inf': 1 }),
      ...buckets('a', 'others', { '1': 0, '+Inf': 5 }),
    ]
    expect(stopsOf([], after, (topic) => topic === 'codes')).toEqual({ partitions: 1, p99: 1, max: 1 })
    expect(stopsOf([], after)).toEqual({ partitions: 6, p99: Infinity, max: Infinity })
  })

  it('are none if no partition has moved', () => {
    const same = buckets('a', 'codes', { '1': 4, '+Inf': 4 })
    expect(stopsOf(same, same)).toEqual({ partitions: 0, p99: 0, max: 0 })
  })
})
