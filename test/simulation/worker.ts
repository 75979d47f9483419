/** A thread of `npm run simulate`: runs every n-th seed, and reports each one. */
import { parentPort, workerData } from 'node:worker_threads'
import { runSeed } from './run-seed.ts'
import type { FaultKind } from './world/faults.ts'
import { planOf } from './world/run.ts'

export interface WorkerTask {
  readonly from: number
  readonly to: number
  readonly step: number
  readonly kinds: ReadonlySet<FaultKind> | null
}

export interface SeedReport {
  readonly seed: number
  readonly violations: ReadonlyArray<string>
  readonly tasks: number
}

const { from, kinds, step, to } = workerData as WorkerTask
for (let seed = from; seed < to; seed += step) {
  let report: SeedReport
  try {
    const { tasks, violations } = runSeed(planOf(seed, kinds))
    report = { seed, violations, tasks }
  } catch (error) {
    report = { seed, violations: [`the run fails: ${String(error)}`], tasks: 0 }
  }
  parentPort?.postMessage(report)
}
