/**
 * `npm run bench -- flow`: the behaviour under load. Measures the goals of admission control, slow
 * dependencies, pacing and fairness, and writes `flow.json`, `FLOW.md` and `charts/*.svg`.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { startHub, startStack, type TestStack } from '../test/support/hub.ts'
import { writeCharts } from './chart-files.ts'
import { type Chart, toSvg } from './chart.ts'
import { conditions } from './conditions.ts'
import type { Servers } from './dispatch-environment.ts'
import { ADMISSION_PLAN, measureAdmission } from './flow-admission.ts'
import { DEPENDENCIES_PLAN, measureDependencies } from './flow-dependencies.ts'
import { measureFairness, SHORT_FAIRNESS_PLAN } from './flow-fairness.ts'
import { measurePacing, SHORT_PACING_PLAN } from './flow-pacing.ts'
import { flowPage, type FlowResults } from './flow-page.ts'
import type { Section } from './results.ts'

type Log = (line: string) => void

interface Measured {
  readonly section: Section
  readonly charts: ReadonlyArray<Chart>
}

/** Runs a section on servers that it alone uses. */
const runOn =
  <Servers extends { readonly stop: () => Promise<void> }>(
    start: (log: Log) => Promise<Servers>,
    measure: (servers: Servers, log: Log) => Promise<Measured>,
  ) =>
  async (log: Log): Promise<Measured> => {
    const servers = await start(log)
    try {
      return await measure(servers, log)
    } finally {
      await servers.stop()
    }
  }

const serversOf = (stack: TestStack): Servers => ({
  brokers: stack.brokers,
  databaseUrl: stack.adminDatabaseUrl,
  redisUrl: stack.redisUrl,
})

/**
 * They run one after the other, because each uses the whole machine. Some measure for a shorter time
 * than alone: all together must take less than eight minutes.
 */
const RUN: Readonly<Record<string, (log: Log) => Promise<Measured>>> = {
  admission: runOn(
    // The accounts get no rate limit: the machine is the limit.
    () => startHub({ apiRps: 1_000_000 }),
    (hub, log) => measureAdmission(hub, log, { ...ADMISSION_PLAN, seconds: 10 }),
  ),
  dependencies: runOn(
    () => startStack(),
    (stack, log) => measureDependencies(stack, log, { ...DEPENDENCIES_PLAN, seconds: 2 }),
  ),
  pacing: runOn(
    () => startStack(),
    (stack, log) => measurePacing(serversOf(stack), log, SHORT_PACING_PLAN),
  ),
  fairness: runOn(
    () => startStack(),
    (stack, log) => measureFairness(serversOf(stack), log, SHORT_FAIRNESS_PLAN),
  ),
}

const FLOW_JSON = new URL('flow.json', import.meta.url)
const FLOW_PAGE = new URL('FLOW.md', import.meta.url)

export const readFlow = (): FlowResults => JSON.parse(readFileSync(FLOW_JSON, 'utf8')) as FlowResults

/** Runs all sections, or those that are named. Only a run of all sections is written. */
export const runFlow = async (log: Log, wanted: ReadonlyArray<string> = Object.keys(RUN)): Promise<void> => {
  const unknown = wanted.filter((name) => RUN[name] === undefined)
  if (unknown.length > 0) {
    throw new Error(`Unknown section ${unknown.join(', ')}. They are: ${Object.keys(RUN).join(', ')}.`)
  }
  const started = performance.now()
  const measured: Array<Measured & { readonly name: string; readonly seconds: number }> = []
  const before = conditions()
  for (const [name, run] of Object.entries(RUN)) {
    if (!wanted.includes(name)) continue
    const began = performance.now()
    const { charts, section } = await run(log)
    measured.push({ name, charts, section, seconds: (performance.now() - began) / 1000 })
    console.table(section.rows)
    console.table(section.targets)
  }
  if (measured.length < Object.keys(RUN).length) return
  const results: FlowResults = {
    ...before,
    seconds: (performance.now() - started) / 1000,
    sections: measured.map(({ charts, name, seconds, section }) => ({
      name,
      seconds,
      ...section,
      charts: writeCharts(
        name,
        charts.map((chart) => ({ title: chart.title, svg: toSvg(chart) })),
      ),
    })),
  }
  writeFileSync(FLOW_JSON, `${JSON.stringify(results, null, 2)}\n`)
  writeFileSync(FLOW_PAGE, flowPage(results))
  log('wrote benchmarks/flow.json, benchmarks/FLOW.md and benchmarks/charts')
}

if (import.meta.main) writeFileSync(FLOW_PAGE, flowPage(readFlow()))
