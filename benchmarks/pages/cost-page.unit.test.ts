import { existsSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { byProcess } from '../measure/cost-meter.ts'
import { costOf, costPage, mergedGrowth, wholeCostOf } from './cost-page.ts'
import type { CostResults, GrowthResults, GrowthRow, Repetition } from './cost-results.ts'
import { stored } from './report.ts'

const fileUrl = (path: string): URL => new URL(`../${path}`, import.meta.url)

/** A repetition in which each process used this CPU time. */
const repetition = (cpuMs: number, messages: number): Repetition => ({
  messages,
  seconds: 5,
  cpuMs: byProcess(() => cpuMs),
  bytes: { tables: 1000 * messages, topics: 500 * messages, log: 4000 * messages },
  latencies: {},
})

const resultsOf = (loads: Partial<CostResults['loads']>): CostResults => {
  const memory = byProcess(() => 100)
  return {
    machine: '2 cores',
    commit: 'abc',
    loadBefore: 0,
    seconds: 1,
    partitions: 6,
    loads: { idle: [], '20': [], '200': [], one: [], '64': [], batches: [], webhooks: [], ...loads },
    memory: { idle: memory, loaded: memory },
    charts: [],
    earlier: null,
  }
}

const growthRow = (row: Pick<GrowthRow, 'what'> & Partial<GrowthRow>): GrowthRow => ({
  machine: '2 cores',
  commit: 'abc',
  loadBefore: 0,
  seconds: 1,
  few: 10,
  many: 10_000,
  costs: { few: [1], many: [1] },
  ...row,
})

const noGrowth: GrowthResults = { rows: [] }

describe('the cost of a repetition', () => {
  it('is the CPU time of the apps and servers for each message in µs, without simulator and supervisor', () => {
    expect(costOf(repetition(100, 1000), 'kafka')).toBe(100)
    expect(wholeCostOf(repetition(100, 1000))).toBe(700)
  })

  it('is a share of a core in % without messages', () => {
    expect(costOf(repetition(100, 0), 'kafka')).toBe(2)
  })
})

describe('the page of the cost of a message', () => {
  const results = stored('cost')

  it('shows charts that exist', () => {
    expect(results.charts.filter(({ file }) => !existsSync(fileUrl(file)))).toEqual([])
    expect(results.charts.length).toBeGreaterThan(0)
  })

  it('shows the median of the repetitions with the smallest and the largest value', () => {
    const page = costPage(
      resultsOf({ '200': [repetition(30, 100), repetition(10, 100), repetition(20, 100)] }),
      noGrowth,
    )
    expect(page).toContain('| 200/s, ms | 7 | ≤ 1.5 | 1.4 (0.7–2.1) | met |')
    expect(page).toContain(`| 200/s, single sends |${' 200 |'.repeat(7)} **1,400 (700–2,100)** | 200 | 200 |`)
  })

  it('shows the run before it beside the last run, and a goal as met if both runs meet it', () => {
    const of = (cpuMs: number) => resultsOf({ '200': [repetition(cpuMs, 100)] })
    const pageOf = (last: number, earlier: number) =>
      costPage({ ...of(last), earlier: of(earlier) }, noGrowth)
    expect(pageOf(20, 10)).toContain('| 200/s, ms | 7 | ≤ 1.5 | 1.4 | 0.7 | met |')
    expect(pageOf(20, 30)).toContain('| 200/s, ms | 7 | ≤ 1.5 | 1.4 | 2.1 | **missed** |')
    expect(pageOf(30, 20)).toContain('| 200/s, ms | 7 | ≤ 1.5 | 2.1 | 1.4 | **missed** |')
  })

  it('compares a goal for throughput with the smallest value that reaches it', () => {
    const goal = 'batches of 1,000 to the event journal, messages/s | 1,930 | ≥ 5,000'
    expect(costPage(resultsOf({ batches: [repetition(1, 25_000)] }), noGrowth)).toContain(
      `| ${goal} | 5,000 | met |`,
    )
    expect(costPage(resultsOf({ batches: [repetition(1, 24_000)] }), noGrowth)).toContain(
      `| ${goal} | 4,800 | **missed** |`,
    )
  })

  it('misses goals that were not measured', () => {
    expect(costPage(resultsOf({}), noGrowth)).toContain(
      '| 64 connections, ms | 2.06 | ≤ 0.7 | not measured | **missed** |',
    )
  })

  it('compares the cost with few and with many', () => {
    const costs = { few: [100, 120, 110], many: [150, 160, 140] }
    const page = costPage(resultsOf({}), { rows: [growthRow({ what: 'accounts', costs })] })
    expect(page).toContain(
      '| accounts | 10 | 10,000 | 110 (100–120) | 150 (140–160) | 1.36 | ≤ 1.3 | **missed** |',
    )
  })

  it('names the run of each comparison', () => {
    const rows = [
      growthRow({ what: 'accounts', commit: 'old', seconds: 300 }),
      growthRow({ what: 'subscriptions', commit: 'old', seconds: 300 }),
      growthRow({ what: 'stored messages', commit: 'new', loadBefore: 2, seconds: 900 }),
    ]
    const page = costPage(resultsOf({}), { rows })
    expect(page).toContain(
      '- A run of 300 s at commit old, after a load average of 0.0: accounts; subscriptions.\n',
    )
    expect(page).toContain(
      '- A run of 900 s at commit new, after a load average of 2.0: stored messages. **Other work',
    )
  })
})

describe('a run of some comparisons', () => {
  it('takes the place of earlier ones, and keeps the others', () => {
    const earlier = [growthRow({ what: 'accounts' }), growthRow({ what: 'partitions, idle' })]
    const accounts = growthRow({ what: 'accounts', commit: 'new' })
    const stored = growthRow({ what: 'stored messages', commit: 'new' })
    expect(mergedGrowth(earlier, [stored, accounts])).toEqual([accounts, stored, earlier[1]])
  })
})
