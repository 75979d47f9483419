import { describe, expect, it } from 'vitest'
import { byProcess } from '../measure/cost-meter.ts'
import type { CostResults } from './cost-results.ts'
import { sizingOf } from './scale-model.ts'

/** A message that costs each process 600 µs, and this many bytes of write-ahead log. */
const costing = (log: number): Pick<CostResults, 'loads'> => ({
  loads: {
    idle: [],
    '20': [],
    '200': [],
    one: [],
    '64': [
      {
        messages: 1000,
        seconds: 1,
        cpuMs: byProcess(() => 600),
        bytes: { tables: 5_000_000, topics: 2_000_000, log: log * 1000 },
        latencies: {},
      },
    ],
    batches: [],
    webhooks: [],
  },
})

describe('the scale model', () => {
  it('needs a process for each 0.6 used cores, and two for each app at least', () => {
    expect(sizingOf(costing(0), 100).processes['command-api']).toBe(2)
    expect(sizingOf(costing(0), 10_000).processes['command-api']).toBe(10)
  })

  it('needs another PostgreSQL server for each 200 MB of log in a second', () => {
    expect(sizingOf(costing(8000), 10_000).postgresServers).toBe(1)
    expect(sizingOf(costing(50_000), 10_000).postgresServers).toBe(3)
  })

  it('counts followers as half of a leader', () => {
    // 60 cores of leaders, and 60 of followers, at 60 %, with 8 cores for each broker.
    const { brokerCores, brokers } = sizingOf(costing(0), 100_000)
    expect(brokers).toBe(25)
    expect(brokers * brokerCores).toBe(200)
  })

  it('adds up the messages of a month at a third of the peak', () => {
    const { messagesPerMonth, tablesTBPerMonth } = sizingOf(costing(0), 3)
    expect(messagesPerMonth).toBe(2_592_000)
    expect(tablesTBPerMonth).toBeCloseTo(0.013, 3)
  })
})
