/**
 * `npm run simulate`: runs seeds of the simulation on all cores, and shows a failing one as a timeline.
 *
 *   npm run simulate -- --seeds 100000 [--from 1] [--threads 2] [--keep-going]
 *   npm run simulate -- --seed 17 [--size 3] [--limit 40] [--without 1,2]
 */
import { availableParallelism } from 'node:os'
import { parseArgs } from 'node:util'
import { Worker } from 'node:worker_threads'
import { runSeed } from './run-seed.ts'
import type { SeedReport, WorkerTask } from './worker.ts'
import { nameOf } from './world/checks.ts'
import { type Plan, planOf, type RunResult } from './world/run.ts'
import { shrink } from './world/shrink.ts'

const PROGRESS_EVERY_MS = 2000

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1000' },
    from: { type: 'string', default: '1' },
    threads: { type: 'string', default: String(availableParallelism()) },
    'keep-going': { type: 'boolean', default: false },
    seed: { type: 'string' },
    size: { type: 'string' },
    limit: { type: 'string' },
    without: { type: 'string', default: '' },
  },
})

const numberOr = (text: string | undefined, other: number) => (text === undefined ? other : Number(text))

const commandOf = ({ faults, seed, size }: Plan) =>
  [
    `npm run simulate -- --seed ${seed}`,
    ...(Number.isFinite(size) ? [`--size ${size}`] : []),
    ...(Number.isFinite(faults.limit) ? [`--limit ${faults.limit}`] : []),
    ...(faults.without.size > 0 ? [`--without ${[...faults.without].join(',')}`] : []),
  ].join(' ')

const show = ({ faults, violations }: RunResult) => {
  for (const violation of violations) console.log(`  VIOLATION   ${violation}`)
  for (const [number, fault] of faults) console.log(`  fault ${String(number).padStart(5)} ${fault}`)
}

const replay = (seed: number): void => {
  const plan: Plan = {
    seed,
    size: numberOr(values.size, Number.POSITIVE_INFINITY),
    faults: {
      limit: numberOr(values.limit, Number.POSITIVE_INFINITY),
      without: new Set(
        values.without
          .split(',')
          .filter((one) => one !== '')
          .map(Number),
      ),
    },
  }
  const result = runSeed(plan, { keepTimeline: true })
  for (const { at, what, who } of result.timeline) {
    console.log(`${(at / 1000).toFixed(3).padStart(8)} s  ${who.padEnd(14)} ${what}`)
  }
  show(result)
  process.exitCode = result.violations.length === 0 ? 0 : 1
}

/** Runs the seeds in threads. Ends at the first failing seed, unless `--keep-going` is set. */
const runSeeds = async (from: number, count: number, threads: number) => {
  const failed: Array<SeedReport> = []
  const began = performance.now()
  let shownAt = began
  let done = 0
  let tasks = 0
  const workers: Array<Worker> = []
  const run = (task: WorkerTask) =>
    new Promise<void>((resolve, reject) => {
      const worker = new Worker(new URL('worker.ts', import.meta.url), { workerData: task })
      workers.push(worker)
      worker.on('message', (report: SeedReport) => {
        done++
        tasks += report.tasks
        const now = performance.now()
        if (now - shownAt > PROGRESS_EVERY_MS) {
          shownAt = now
          const rate = (done / ((now - began) / 1000)).toFixed(1)
          console.log(`${done} of ${count} seeds, ${rate} seeds/s, ${failed.length} failed`)
        }
        if (report.violations.length === 0) return
        failed.push(report)
        console.log(`seed ${report.seed}: ${report.violations[0] ?? ''}`)
        if (!values['keep-going']) for (const one of workers) void one.terminate()
      })
      worker.once('error', reject)
      worker.once('exit', () => resolve())
    })
  await Promise.all(
    Array.from({ length: threads }, (_, thread) =>
      run({ from: from + thread, to: from + count, step: threads }),
    ),
  )
  const { system, user } = process.cpuUsage()
  const seconds = (performance.now() - began) / 1000
  console.log(
    `${done} seeds, ${(done / seconds).toFixed(1)} seeds/s, ${((user + system) / 1000 / done).toFixed(0)} ms of CPU and ${Math.round(tasks / done)} tasks for each, ${failed.length} failed`,
  )
  return failed
}

if (values.seed !== undefined) replay(Number(values.seed))
else {
  const failed = await runSeeds(Number(values.from), Number(values.seeds), Number(values.threads))
  const seedsByName = new Map<string, number>()
  for (const { violations } of failed) {
    for (const name of new Set(violations.map(nameOf)))
      seedsByName.set(name, (seedsByName.get(name) ?? 0) + 1)
  }
  for (const [name, seeds] of seedsByName) console.log(`  ${name}: ${seeds} seeds`)
  const [first] = failed.toSorted((a, b) => a.seed - b.seed)
  if (first !== undefined && !values['keep-going']) {
    const smallest = shrink(runSeed(planOf(first.seed)), runSeed)
    show(smallest)
    console.log(`Replay it with: ${commandOf(smallest.plan)}`)
  }
  process.exitCode = failed.length === 0 ? 0 : 1
}
