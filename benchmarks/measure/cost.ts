/**
 * `npm run bench -- cost`: what a message costs. Measures CPU time, disk space, memory and latency of a
 * hub that runs as `npm start` runs it, and writes `COST.md` and `charts/cost-*.svg`.
 *
 *   npm run bench -- cost                all loads
 *   npm run bench -- cost <load> …       some loads; prints their figures and writes nothing
 */
import { startHubProcess } from '../../test/support/hub.ts'
import { writeCharts } from '../pages/chart-files.ts'
import { type BarChart, type Chart, toBarsSvg, toSvg } from '../pages/chart.ts'
import { conditions, UNCOMMITTED } from './conditions.ts'
import { type Drain, measureLoads } from './cost-loads.ts'
import { costOf, NAMES, spread, TITLES, wholeCostOf } from '../pages/cost-page.ts'
import { startCostReceiver } from '../loads/cost-receiver.ts'
import {
  COUNTED,
  type CostResults,
  type CostRun,
  LOADS,
  type LoadName,
  NOT_COUNTED,
  type ProcessName,
  type Repetition,
} from '../pages/cost-results.ts'
import { latencyText, median } from './numbers.ts'
import { store, stored } from '../pages/report.ts'
import type { Log } from './section.ts'

/** A quiet machine with two cores needs two and a half minutes. Afterwards, the run has failed. */
const LIMIT_MS = 300_000

/** The last run that was written. Null: it measured another commit, or uncommitted changes, which may be others. */
const earlierOf = (commit: string): CostRun | null => {
  const { loads, loadBefore, machine, memory, seconds, ...last } = stored('cost')
  return last.commit === commit && !commit.endsWith(UNCOMMITTED)
    ? { machine, commit, loadBefore, seconds, loads, memory }
    : null
}

const repetitionText = (load: LoadName, repetition: Repetition): string => {
  const { bytes, latencies, messages, seconds } = repetition
  const of = (name: ProcessName): string =>
    `${name} ${costOf(repetition, name).toFixed(load === 'idle' ? 1 : 0)}`
  const processes = [...COUNTED, ...NOT_COUNTED].map(of).join(', ')
  if (load === 'idle') return `idle: ${wholeCostOf(repetition).toFixed(1)} % of a core: ${processes}`
  const perMessage = (value: number): string => (value / messages).toFixed(0)
  return [
    `${TITLES[load]}: ${wholeCostOf(repetition).toFixed(0)} µs: ${processes}`,
    `${messages} messages, ${(messages / seconds).toFixed(0)}/s`,
    `bytes: PostgreSQL ${perMessage(bytes.tables)}, Kafka ${perMessage(bytes.topics)}, WAL ${perMessage(bytes.log)}`,
    ...Object.entries(latencies).map(([name, one]) => `${name} ${latencyText(one, 1)}`),
  ].join('; ')
}

const barsOf = (title: string, loads: CostResults['loads'], names: ReadonlyArray<LoadName>): BarChart => ({
  title,
  unit: 'µs per message',
  bars: names.map((name) => TITLES[name]),
  parts: COUNTED.map((name) => ({
    name: NAMES[name],
    values: names.map((load) => Math.round(median(loads[load].map((one) => costOf(one, name))))),
  })),
})

const drainChart = ({ stepMs, steps }: Drain): Chart => ({
  title: 'Events in the journal after batches were sent',
  unit: 'events per second',
  series: ['message.accepted', 'message.sent', 'message.delivered'].map((type) => {
    const last = Math.max(...steps.map(({ step }) => step))
    const events = new Map(steps.filter((one) => one.type === type).map((one) => [one.step, one.events]))
    return {
      name: type,
      points: Array.from({ length: last + 1 }, (_, step) => [
        ((step + 1) * stepMs) / 1000,
        ((events.get(step) ?? 0) * 1000) / stepMs,
      ]),
    }
  }),
})

/** The loads that these words name; all without a word. Null: a word names none. */
const wantedLoads = (words: ReadonlyArray<string>): ReadonlyArray<LoadName> | null => {
  if (words.some((word) => !LOADS.some((load) => load === word))) return null
  return words.length === 0 ? LOADS : LOADS.filter((load) => words.includes(load))
}

/** Runs all loads, or those that are named. Only a run of all loads is written. */
export const runCost = async (log: Log, words: ReadonlyArray<string>): Promise<void> => {
  const wanted = wantedLoads(words)
  if (wanted === null) {
    console.error(`Usage: npm run bench -- cost [load …]. The loads are: ${LOADS.join(', ')}.`)
    process.exitCode = 2
    return
  }
  setTimeout(() => {
    console.error(`The measurement takes longer than ${LIMIT_MS / 1000} s. Is the machine busy?`)
    process.exit(1)
  }, LIMIT_MS).unref()
  const before = conditions()
  const started = performance.now()
  const receiver = await startCostReceiver()
  // The accounts get no rate limit: the machine is the limit.
  const hub = await startHubProcess({ environment: receiver.environment, apiRps: 1_000_000 })
  try {
    log('the hub runs')
    const { drain, ...measured } = await measureLoads(hub, receiver, wanted, {
      log,
      repeated: (load, repetition) => log(repetitionText(load, repetition)),
    })
    const { loads } = measured
    console.table(
      Object.fromEntries(
        wanted.map((load) => [
          load === 'idle' ? 'idle (% of a core)' : `${load} (µs)`,
          {
            ...Object.fromEntries(
              [...COUNTED, ...NOT_COUNTED].map((name) => [
                name,
                Number(median(loads[load].map((one) => costOf(one, name))).toPrecision(3)),
              ]),
            ),
            total: spread(loads[load].map(wholeCostOf)),
          },
        ]),
      ),
    )
    if (wanted.length < LOADS.length) return
    const bars = [
      barsOf('CPU time of a message at a steady pace', loads, ['20', '200', 'webhooks']),
      barsOf('CPU time of a message at the limit of the machine', loads, ['64', 'batches']),
    ]
    const chart = drainChart(drain)
    const results: CostResults = {
      ...before,
      seconds: (performance.now() - started) / 1000,
      ...measured,
      charts: writeCharts('cost', [
        ...bars.map((one) => ({ title: one.title, svg: toBarsSvg(one) })),
        { title: chart.title, svg: toSvg(chart) },
      ]),
      earlier: earlierOf(before.commit),
    }
    store('cost', results)
    log('wrote benchmarks/COST.md, docs/capacity.md and their results')
  } finally {
    await hub.stop()
    receiver.close()
  }
}
