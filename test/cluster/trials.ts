/** The trials: each disturbs the hub in its own way, and fails if a message is lost or submitted twice. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Cluster } from './cluster.ts'
import { rolledOut } from './deploy.ts'
import { UserError } from '@hub/local-stack'
import type { Trial, TrialResult } from './trials/trial.ts'
import { openTrials } from './trials/trial.ts'
import { badInput } from './trials/bad-input.ts'
import { install, settings, versions } from './trials/changes.ts'
import { chart } from './trials/chart.ts'
import { drain, kills, outOfMemory, restarts, updates } from './trials/pods.ts'
import { brokers, database, failover, redis, rotation } from './trials/servers.ts'
import { scaling } from './trials/scaling.ts'
import { policies } from './trials/policies.ts'
import { monitoring } from './trials/monitoring.ts'
import { lostNode } from './trials/node.ts'

/** In the order in which they run. */
export const TRIALS: Readonly<Record<string, Trial>> = {
  install,
  settings,
  versions,
  chart,
  'bad-input': badInput,
  restarts,
  updates,
  drain,
  kills,
  'out-of-memory': outOfMemory,
  scaling,
  database,
  failover,
  brokers,
  redis,
  rotation,
  policies,
  monitoring,
  'lost-node': lostNode,
}

/** The longest trial replaces pods twelve times, which can take half an hour on a busy machine. */
const TRIAL_WITHIN_MS = 2_700_000

class NotEnded extends Error {
  override readonly message = 'the trial has not ended in time, and the trials after it did not run'
}

const withTimeLimit = <A>(work: Promise<A>): Promise<A> => {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new NotEnded()), TRIAL_WITHIN_MS)
  return Promise.race([work, promise]).finally(() => clearTimeout(timer))
}

/** Runs the named trials, or all. Prints their figures, and returns the number of those that failed. */
export const runTrials = async (
  cluster: Cluster,
  names: ReadonlyArray<string>,
  report: (line: string) => void,
): Promise<number> => {
  const unknown = names.filter((name) => TRIALS[name] === undefined)
  if (unknown.length > 0)
    throw new UserError(
      `There is no trial ${unknown.join(', ')}. There are ${Object.keys(TRIALS).join(', ')}.`,
    )
  const selected = names.length === 0 ? Object.keys(TRIALS) : names
  // A deployment may still be going on. The first trial begins without a hub.
  if (selected[0] !== 'install') await rolledOut(cluster)
  const tools = openTrials(cluster, report)
  const results: Record<string, TrialResult & { readonly seconds: number }> = {}
  let passed = 0
  for (const name of selected) {
    const began = performance.now()
    report(`trial ${name}`)
    // A trial that goes on would disturb the next one.
    let isOver = true
    const result = await withTimeLimit(TRIALS[name]!(tools)).catch((error: unknown): TrialResult => {
      isOver = !(error instanceof NotEnded)
      return { figures: {}, faults: [error instanceof Error ? error.message : String(error)] }
    })
    const seconds = Math.round((performance.now() - began) / 1000)
    results[name] = { ...result, seconds }
    if (result.faults.length === 0) passed += 1
    report(
      `${result.faults.length === 0 ? 'passed' : 'FAILED'} ${name} after ${seconds} s: ${JSON.stringify(result.figures)}`,
    )
    for (const fault of result.faults) report(`    ${fault}`)
    writeFileSync(join(cluster.dir, 'results.json'), JSON.stringify(results, null, 2))
    if (!isOver) break
  }
  const failed = selected.length - passed
  console.log(`${passed} passed, ${failed} failed`)
  return failed
}
