/** Runs the simulation on mutated hubs, and writes the seed that finds each mutation into `results.json`. */
import { writeFileSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { MUTATIONS, SEEDS } from './mutations.ts'
import { type Found, readResults, RESULTS } from './results.ts'
import type { Progress } from './worker.ts'

/** A seed takes about a second, and more on a busy machine. A mutated hub may run in circles. */
const SEED_ENDS_WITHIN_MS = 300_000

const find = (name: string): Promise<Found | null> =>
  new Promise((resolve, reject) => {
    const worker = new Worker(new URL('worker.ts', import.meta.url), { workerData: { name } })
    let watchdog: NodeJS.Timeout | undefined
    const end = (found: Found | null) => {
      clearTimeout(watchdog)
      void worker.terminate()
      resolve(found)
    }
    worker.on('message', (progress: Progress) => {
      if ('found' in progress) return end(progress.found)
      clearTimeout(watchdog)
      watchdog = setTimeout(
        () => end({ seed: progress.seed, violation: 'the run does not end' }),
        SEED_ENDS_WITHIN_MS,
      )
    })
    worker.once('error', reject)
  })

/** Results of mutations that exist no more are dropped. */
const keep = (name: string, found: Found | null): void => {
  const results = { ...readResults(), [name]: found }
  const ordered = MUTATIONS.flatMap((one) => (one.name in results ? [[one.name, results[one.name]]] : []))
  writeFileSync(RESULTS, `${JSON.stringify(Object.fromEntries(ordered), null, 2)}\n`)
}

/** Runs these mutations, several at a time. Returns the names of those that no seed finds. */
export const runMutations = async (
  names: ReadonlyArray<string>,
  threads: number,
): Promise<ReadonlyArray<string>> => {
  const waiting = [...names]
  const missed: Array<string> = []
  let done = 0
  const runNext = async (): Promise<void> => {
    const name = waiting.shift()
    if (name === undefined) return
    const began = performance.now()
    const found = await find(name)
    keep(name, found)
    if (found === null) missed.push(name)
    const result = found === null ? `NOT FOUND in ${SEEDS} seeds` : `seed ${found.seed}, ${found.violation}`
    const seconds = Math.round((performance.now() - began) / 1000)
    console.log(`${++done} of ${names.length}: ${name}: ${result} (${seconds} s)`)
    return runNext()
  }
  await Promise.all(Array.from({ length: threads }, runNext))
  console.log(`${done - missed.length} of ${names.length} mutations found`)
  return missed
}
