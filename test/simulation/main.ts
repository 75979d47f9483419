/** `npm run simulate`: runs seeds or mutations, or replays a seed. `--help` lists the options. */
import { Worker } from 'node:worker_threads'
import { WrongOptions } from '../support/command-line.ts'
import { commandOf, HELP, type Options, readOptions } from './options.ts'
import { runMutations } from './mutations/run-mutations.ts'
import { runSeed } from './run-seed.ts'
import type { SeedReport, WorkerTask } from './worker.ts'
import { nameOf } from './world/checks.ts'
import { type Plan, planOf, type RunResult } from './world/run.ts'
import { shrink } from './world/shrink.ts'

const PROGRESS_EVERY_MS = 2000

const show = ({ faults, violations }: RunResult) => {
  for (const violation of violations) console.log(`  VIOLATION   ${violation}`)
  for (const [number, fault] of faults) console.log(`  fault ${String(number).padStart(5)} ${fault}`)
}

/** Returns the exit status. */
const replay = (plan: Plan): number => {
  const result = runSeed(plan, { keepTimeline: true })
  for (const { at, what, who } of result.timeline) {
    console.log(`${(at / 1000).toFixed(3).padStart(8)} s  ${who.padEnd(14)} ${what}`)
  }
  show(result)
  return result.violations.length === 0 ? 0 : 1
}

type RunOptions = Extract<Options, { readonly command: 'run' }>

/** Runs the seeds in threads. Ends at the first failing seed, unless it keeps going. */
const runSeeds = async ({ from, keepGoing, kinds, seeds, threads }: RunOptions) => {
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
          console.log(`${done} of ${seeds} seeds, ${rate} seeds/s, ${failed.length} failed`)
        }
        if (report.violations.length === 0) return
        failed.push(report)
        console.log(`seed ${report.seed}: ${report.violations[0] ?? ''}`)
        if (!keepGoing) for (const one of workers) void one.terminate()
      })
      worker.once('error', reject)
      worker.once('exit', () => resolve())
    })
  await Promise.all(
    Array.from({ length: threads }, (_, thread) =>
      run({ from: from + thread, to: from + seeds, step: threads, kinds }),
    ),
  )
  const { system, user } = process.cpuUsage()
  const seconds = (performance.now() - began) / 1000
  console.log(
    `${done} seeds, ${(done / seconds).toFixed(1)} seeds/s, ${((user + system) / 1000 / done).toFixed(0)} ms of CPU and ${Math.round(tasks / done)} tasks for each, ${failed.length} failed`,
  )
  return failed
}

/** Returns the exit status. */
const run = async (options: RunOptions): Promise<number> => {
  const failed = await runSeeds(options)
  const seedsByName = new Map<string, number>()
  for (const { violations } of failed) {
    for (const name of new Set(violations.map(nameOf)))
      seedsByName.set(name, (seedsByName.get(name) ?? 0) + 1)
  }
  for (const [name, seeds] of seedsByName) console.log(`  ${name}: ${seeds} seeds`)
  const [first] = failed.toSorted((a, b) => a.seed - b.seed)
  if (first === undefined) return 0
  if (!options.keepGoing) {
    const smallest = shrink(runSeed(planOf(first.seed, options.kinds)), runSeed)
    show(smallest)
    console.log(`Replay it with: ${commandOf(smallest.plan)}`)
  }
  return 1
}

try {
  const options = readOptions(process.argv.slice(2))
  if (options.command === 'help') console.log(HELP)
  else if (options.command === 'replay') process.exitCode = replay(options.plan)
  else if (options.command === 'run') process.exitCode = await run(options)
  else process.exitCode = (await runMutations(options.names, options.threads)).length === 0 ? 0 : 1
} catch (error) {
  if (!(error instanceof WrongOptions)) throw error
  console.error(`${error.message} See npm run simulate -- --help.`)
  process.exitCode = 2
}
