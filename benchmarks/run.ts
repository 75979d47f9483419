/**
 * `npm run bench`: measures a hub on this machine, and the same Kafka, PostgreSQL and HTTP work
 * without the hub's code as its limit. Machines are noisy: compare the ratios.
 *
 *   npm run bench                all sections; writes results.json, RESULTS.md, docs/capacity.md
 *   npm run bench -- <section>   one section; prints its figures
 *   npm run bench -- flow        the behaviour under load; writes flow.json, FLOW.md, charts/
 *   npm run bench -- cost        the cost of a message; writes cost.json, COST.md, charts/
 *   npm run bench -- growth      the same after growth; writes growth.json, COST.md
 *   npm run bench -- console     the console in a browser, among a million messages; prints its figures
 *   npm run bench -- csv         `hub send --csv` beside batches of a load generator; prints its figures
 *
 * Sections: `accepting`, `dispatching`, `webhooks`, `read-models`. Each starts servers of its own.
 */
import './end-on-signal.ts'
import { startHub, startStack } from '../test/support/hub.ts'
import { measureAccepting } from './accepting.ts'
import { MACHINE } from './conditions.ts'
import { runConsole } from './console.ts'
import { runCost } from './cost.ts'
import { runCsv } from './csv.ts'
import { measureDispatching } from './dispatching.ts'
import { runFlow } from './flow.ts'
import { runGrowth } from './growth.ts'
import { measureReadModels } from './read-models.ts'
import { readResults, writeResults } from './report.ts'
import { type Section, type SectionName, SECTIONS } from './results.ts'
import { measureWebhooks } from './webhooks.ts'

type Log = (line: string) => void

/** Runs a section on servers that it alone uses. */
const runOn =
  <Servers extends { readonly stop: () => Promise<void> }>(
    start: (log: Log) => Promise<Servers>,
    measure: (servers: Servers, log: Log) => Promise<Section>,
  ) =>
  async (log: Log): Promise<Section> => {
    const servers = await start(log)
    try {
      return await measure(servers, log)
    } finally {
      await servers.stop()
    }
  }

const RUN: Readonly<Record<SectionName, (log: Log) => Promise<Section>>> = {
  // The accounts get no rate limit: the machine is the limit.
  accepting: runOn((log) => startHub({ report: log, apiRps: 1_000_000 }), measureAccepting),
  dispatching: runOn(() => startStack(), measureDispatching),
  webhooks: runOn(() => startStack(), measureWebhooks),
  'read-models': runOn(() => startStack(), measureReadModels),
}

const started = performance.now()
const seconds = (): number => (performance.now() - started) / 1000
const log = (line: string): void => console.log(`${seconds().toFixed(0).padStart(4)} s  ${line}`)

const [first, ...parts] = process.argv.slice(2)
if (first === 'flow') {
  await (parts.length === 0 ? runFlow(log) : runFlow(log, parts))
  process.exit()
}
if (first === 'cost') {
  await runCost(log, parts)
  process.exit()
}
if (first === 'console') {
  await runConsole(log, parts)
  process.exit()
}
if (first === 'csv') {
  await runCsv(log, parts)
  process.exit()
}
if (first === 'growth') {
  await runGrowth(log, parts)
  process.exit()
}

const wanted = process.argv.slice(2)
const unknown = wanted.filter((name) => !SECTIONS.some((section) => section === name))
if (unknown.length > 0) {
  console.error(
    `Unknown section ${unknown.join(', ')}. The sections are: ${SECTIONS.join(', ')}, flow, cost, growth, console, csv.`,
  )
  process.exit(2)
}

const measured: Partial<Record<SectionName, Section>> = {}
for (const name of SECTIONS) {
  if (wanted.length > 0 && !wanted.includes(name)) continue
  const section = await RUN[name](log)
  measured[name] = section
  console.table(section.rows)
  console.table(section.targets)
}
if (wanted.length === 0) {
  writeResults({
    machine: MACHINE,
    seconds: seconds(),
    sections: measured as Record<SectionName, Section>,
    alone: readResults().alone,
  })
  log('wrote benchmarks/results.json, benchmarks/RESULTS.md and docs/capacity.md')
}
