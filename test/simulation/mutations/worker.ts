/**
 * A thread of `npm run simulate -- --mutations`: runs the seeds on a mutated hub until one fails. The
 * mutation replaces the source while Node loads it, so no file changes.
 */
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parentPort, workerData } from 'node:worker_threads'
import { applyMutation } from './apply.ts'
import { MUTATIONS, ROOT, SEEDS } from './mutations.ts'
import { type Found, readResults } from './results.ts'

/** A seed begins, or the first violation is found. */
export type Progress = { readonly seed: number } | { readonly found: Found | null }
const report = (progress: Progress): void => parentPort?.postMessage(progress)

const { name } = workerData as { readonly name: string }
const mutation = MUTATIONS.find((one) => one.name === name)
if (mutation === undefined) throw new Error(`There is no mutation "${name}".`)

const path = join(ROOT, mutation.file)
const mutated = pathToFileURL(path).href
const source = applyMutation(readFileSync(path, 'utf8'), mutation)
registerHooks({
  load: (url, context, nextLoad) => {
    const loaded = nextLoad(url, context)
    return url === mutated ? { ...loaded, format: 'module-typescript', source } : loaded
  },
})
// Loaded with the hook.
const { runSeed, runsApp } = await import('../run-seed.ts')
const { nameOf } = await import('../world/checks.ts')
const { planOf } = await import('../world/run.ts')

const [, app] = /^apps\/([^/]+)/u.exec(mutation.file) ?? []

/** The seed that found it last comes first. */
const seeds = new Set([readResults()[name]?.seed ?? 1, ...Array.from({ length: SEEDS }, (_, i) => i + 1)])

const find = (): Found | null => {
  for (const seed of seeds) {
    // Other seeds do not run the mutated file.
    if (app !== undefined && !runsApp(seed, app)) continue
    report({ seed })
    try {
      const [violation] = runSeed(planOf(seed)).violations
      if (violation !== undefined) return { seed, violation: nameOf(violation) }
    } catch (error) {
      return { seed, violation: `the run fails with ${error instanceof Error ? error.name : 'an error'}` }
    }
  }
  return null
}

report({ found: find() })
