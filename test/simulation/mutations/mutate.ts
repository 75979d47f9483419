/**
 * Runs the simulation on a mutated hub: `node test/simulation/mutations/mutate.ts [name …]`. The
 * mutation replaces the source while Node loads it, so no file changes.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { MUTATIONS } from './mutations.ts'

const ROOT = join(import.meta.dirname, '../../..')
const SEEDS = 2000
const TIMEOUT_MS = 600_000

const [first, ...rest] = process.argv.slice(2)

if (first === '--run') {
  const mutation = MUTATIONS.find(({ name }) => name === rest[0])
  if (mutation === undefined) throw new Error(`There is no mutation ${rest[0] ?? ''}.`)
  const mutated = pathToFileURL(join(ROOT, mutation.file)).href
  registerHooks({
    load: (url, context, nextLoad) => {
      const loaded = nextLoad(url, context)
      if (url !== mutated) return loaded
      const source = readFileSync(join(ROOT, mutation.file), 'utf8')
      const parts = source.split(mutation.find)
      if (parts.length !== 2) throw new Error(`The text of the mutation occurs ${parts.length - 1} times.`)
      return { ...loaded, format: 'module-typescript', source: parts.join(mutation.replace) }
    },
  })
  const { runSeed } = await import('../run-seed.ts')
  const { planOf } = await import('../world/run.ts')
  const seeds = Number(rest[1] ?? SEEDS)
  for (let seed = 1; seed <= seeds; seed++) {
    let violation: string | undefined
    try {
      violation = runSeed(planOf(seed)).violations[0]
    } catch (error) {
      violation = String(error)
    }
    if (violation === undefined) continue
    console.log(`seed ${seed}: ${violation}`)
    process.exit(0)
  }
  process.exit(1)
} else {
  const seeds = process.env['SEEDS'] ?? String(SEEDS)
  const names = first === undefined ? MUTATIONS.map(({ name }) => name) : [first, ...rest]
  let missed = 0
  for (const name of names) {
    const { status, stderr, stdout } = spawnSync(
      process.execPath,
      [import.meta.filename, '--run', name, seeds],
      { encoding: 'utf8', timeout: TIMEOUT_MS },
    )
    if (status !== 0) missed++
    const result = status === 0 ? stdout.trim() : `NOT FOUND in ${seeds} seeds ${stderr.trim().slice(-600)}`
    console.log(`${name}: ${result}`)
  }
  process.exitCode = missed === 0 ? 0 : 1
}
