/**
 * `npm run bench`: measures a hub on this machine, and the same Kafka, PostgreSQL and HTTP work
 * without the hub's code as its limit. Machines are noisy: compare the ratios.
 *
 *   npm run bench                         `results`
 *   npm run bench -- <name> [word …]      one benchmark of the list; `--help` prints it
 */
import './loads/end-on-signal.ts'
import { acceptance } from './measure/acceptance.ts'
import { runBytes } from './measure/bytes.ts'
import { conditions, MACHINE } from './measure/conditions.ts'
import { runCost } from './measure/cost.ts'
import { dependencies } from './measure/dependencies.ts'
import { runDisk } from './measure/disk.ts'
import { dispatching } from './measure/dispatching.ts'
import { fairness } from './measure/fairness.ts'
import { runGrowth } from './measure/growth.ts'
import { overload } from './measure/overload.ts'
import { pacing } from './measure/pacing.ts'
import { recovery } from './measure/recovery.ts'
import { runScaling } from './measure/scaling.ts'
import type { Log, Measured, SectionBenchmark } from './measure/section.ts'
import { webhooks } from './measure/webhooks.ts'
import { writeCharts } from './pages/chart-files.ts'
import { toSvg } from './pages/chart.ts'
import { store, stored } from './pages/report.ts'
import type { Section, SectionName } from './pages/results.ts'

const started = performance.now()
const seconds = (): number => (performance.now() - started) / 1000
const log: Log = (line) => console.log(`${seconds().toFixed(0).padStart(4)} s  ${line}`)

const measured = async (one: SectionBenchmark, words: ReadonlyArray<string>): Promise<Measured> => {
  const result = await one.measure(log, words)
  console.table(result.section.rows)
  console.table(result.section.targets)
  return result
}

const RESULTS: Readonly<Record<SectionName, SectionBenchmark>> = {
  acceptance,
  dispatching,
  recovery,
  webhooks,
}
const FLOW: ReadonlyArray<SectionBenchmark> = [overload, dependencies, pacing, fairness]

const runResults = async (): Promise<void> => {
  const sections: Array<readonly [string, Section]> = []
  for (const one of Object.values(RESULTS)) sections.push([one.name, (await measured(one, [])).section])
  store('results', {
    machine: MACHINE,
    seconds: seconds(),
    sections: Object.fromEntries(sections) as Record<SectionName, Section>,
    alone: stored('results').alone,
  })
  log('wrote benchmarks/RESULTS.md, docs/capacity.md and their results')
}

/** One section after the other, because each uses the whole machine. */
const runFlow = async (): Promise<void> => {
  const before = conditions()
  const sections: Array<Measured & { readonly name: string; readonly seconds: number }> = []
  for (const one of FLOW) {
    const began = seconds()
    sections.push({ ...(await measured(one, [])), name: one.name, seconds: seconds() - began })
  }
  store('flow', {
    ...before,
    seconds: seconds(),
    sections: sections.map(({ charts = [], name, seconds: took, section }) => ({
      name,
      seconds: took,
      ...section,
      charts: writeCharts(
        name,
        charts.map((chart) => ({ title: chart.title, svg: toSvg(chart) })),
      ),
    })),
  })
  log('wrote benchmarks/FLOW.md, its charts and results')
}

interface Benchmark {
  readonly name: string
  /** What it measures, and the words that it takes; for the help. */
  readonly what: string
  readonly run: (log: Log, words: ReadonlyArray<string>) => Promise<unknown>
}

const section = (one: SectionBenchmark): Benchmark => ({
  name: one.name,
  what: one.what,
  run: (_, words) => measured(one, words),
})

const BENCHMARKS: ReadonlyArray<Benchmark> = [
  { name: 'results', what: 'the next four; writes RESULTS.md and docs/capacity.md', run: runResults },
  ...Object.values(RESULTS).map(section),
  { name: 'flow', what: 'the behaviour under load, the next four; writes FLOW.md', run: runFlow },
  ...FLOW.map(section),
  {
    name: 'cost',
    what: 'CPU time, disk space and memory of a message; writes COST.md; [load …]',
    run: runCost,
  },
  {
    name: 'bytes',
    what: 'disk space and write-ahead log of a message, by table and index; prints only; [batches]',
    run: runBytes,
  },
  {
    name: 'growth',
    what: 'the same after growth; writes COST.md; [part …] [stored messages]',
    run: runGrowth,
  },
  {
    name: 'disk',
    what: 'topics and tables of a message, by name; writes docs/capacity.md; [messages]',
    run: runDisk,
  },
  {
    name: 'scaling',
    what: 'one and three processes of each consumer; writes docs/capacity.md',
    run: runScaling,
  },
]

const help = (): string =>
  [
    'Usage: npm run bench [-- <name> [word …]]. Without a name: results. The names are:',
    ...BENCHMARKS.map(({ name, what }) => `  ${name.padEnd(14)}${what}`),
  ].join('\n')

const [name = 'results', ...words] = process.argv.slice(2)
const benchmark = BENCHMARKS.find((one) => one.name === name)
if (name === '--help') console.log(help())
else if (benchmark === undefined) {
  console.error(`There is no benchmark ${name}.\n${help()}`)
  process.exitCode = 2
} else {
  await benchmark.run(log, words)
  process.exit()
}
