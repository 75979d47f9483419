/** A benchmark whose figures are a section of `RESULTS.md` or `FLOW.md`. */
import type { Chart } from '../pages/chart.ts'
import type { Section } from '../pages/results.ts'
import { startStack, type TestStack } from '../../test/support/hub.ts'

export type Log = (line: string) => void

export interface Measured {
  readonly section: Section
  readonly charts?: ReadonlyArray<Chart>
}

export interface SectionBenchmark {
  readonly name: string
  /** What it measures, and the words that change its plan; for the help. */
  readonly what: string
  /** Without words: by the plan of the page. */
  readonly measure: (log: Log, words: ReadonlyArray<string>) => Promise<Measured>
}

/** Measures on servers that nothing else uses. */
export const onServers =
  <Servers extends { readonly stop: () => Promise<void> }>(
    start: (log: Log) => Promise<Servers>,
    measure: (servers: Servers, log: Log, words: ReadonlyArray<string>) => Promise<Measured>,
  ): SectionBenchmark['measure'] =>
  async (log, words) => {
    const servers = await start(log)
    try {
      return await measure(servers, log, words)
    } finally {
      await servers.stop()
    }
  }

/** The same on Kafka, PostgreSQL and Redis without a hub. */
export const onStack = (
  measure: (stack: TestStack, log: Log, words: ReadonlyArray<string>) => Promise<Measured>,
): SectionBenchmark['measure'] => onServers(() => startStack(), measure)

/** The plan that the words name: `full`, or numbers that change the plan of the page. */
export const planOf = <Plan>(
  words: ReadonlyArray<string>,
  plans: {
    readonly page: Plan
    readonly full: Plan
    readonly changed: (page: Plan, numbers: ReadonlyArray<number>) => Plan
  },
): Plan => {
  if (words.length === 0) return plans.page
  if (words[0] === 'full') return plans.full
  return plans.changed(plans.page, words.map(Number))
}
