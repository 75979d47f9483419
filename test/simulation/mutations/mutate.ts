/**
 * Runs the simulation on a mutated hub, and writes the number of the first seed that finds each
 * mutation into `results.json`. The mutation replaces the source while Node loads it, so no file
 * changes.
 *
 *   node_modules/node/bin/node test/simulation/mutations/mutate.ts [name …]
 */
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { MUTATIONS, type Mutation, ROOT, SEEDS } from './mutations.ts'
import { type Found, readResults, RESULTS } from './results.ts'

/** Runs the seeds on the mutated hub. Returns the first one with a violation. */
const runMutated = async (mutation: Mutation): Promise<Found | null> => {
  const mutated = pathToFileURL(join(ROOT, mutation.file)).href
  registerHooks({
    load: (url, context, nextLoad) => {
      const loaded = nextLoad(url, context)
      if (url !== mutated) return loaded
      const source = readFileSync(join(ROOT, mutation.file), 'utf8')
      return {
        ...loaded,
        format: 'module-typescript',
        source: source.split(mutation.find).join(mutation.replace),
      }
    },
  })
  const { runSeed, runsApp } = await import('../run-seed.ts')
  const { nameOf } = await import('../world/checks.ts')
  const { planOf } = await import('../world/run.ts')
  const [, app] = /^apps\/([^/]+)/u.exec(mutation.file) ?? []
  for (let seed = 1; seed <= SEEDS; seed++) {
    // Other seeds do not run the mutated file.
    if (app !== undefined && !runsApp(seed, app)) continue
    try {
      const [violation] = runSeed(planOf(seed)).violations
      if (violation !== undefined) return { seed, violation: nameOf(violation) }
    } catch (error) {
      return { seed, violation: `the run fails with ${error instanceof Error ? error.name : 'an error'}` }
    }
  }
  return null
}

const [first, ...rest] = process.argv.slice(2)

if (first === '--run') {
  const mutation = MUTATIONS.find(({ name }) => name === rest[0])
  if (mutation === undefined) throw new Error(`There is no mutation ${rest[0] ?? ''}.`)
  console.log(JSON.stringify(await runMutated(mutation)))
} else {
  const names = first === undefined ? MUTATIONS.map(({ name }) => name) : [first, ...rest]
  let missed = 0
  for (const name of names) {
    const { stdout } = await promisify(execFile)(process.execPath, [import.meta.filename, '--run', name])
    const found = JSON.parse(stdout) as Found | null
    if (found === null) missed++
    console.log(
      `${name}: ${found === null ? `NOT FOUND in ${SEEDS} seeds` : `seed ${found.seed}, ${found.violation}`}`,
    )
    const results = { ...readResults(), [name]: found }
    const ordered = MUTATIONS.flatMap((mutation) =>
      mutation.name in results ? [[mutation.name, results[mutation.name]]] : [],
    )
    writeFileSync(RESULTS, `${JSON.stringify(Object.fromEntries(ordered), null, 2)}\n`)
  }
  process.exitCode = missed === 0 ? 0 : 1
}
