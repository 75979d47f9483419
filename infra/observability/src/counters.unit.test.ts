/** Checks that each counter of an app has a sample of 0 for its known label values at the start. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { assert, describe, it } from '@effect/vitest'
import { ALL_APPS } from '@hub/config'
import { definedMetrics, ROOT } from './metrics.ts'

/** Loads the code of an app without starting it, and prints what `/metrics` would serve. */
const PRINT_METRICS = `
  import { Effect } from 'effect'
  import { PrometheusMetrics } from 'effect/observability'
  for (const module of process.argv.slice(1)) await import(module)
  process.stdout.write(await Effect.runPromise(PrometheusMetrics.format()))
`

/** The packages that an app loads. */
const packagesOf = (app: string): ReadonlyArray<string> => {
  const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'apps', app, 'package.json'), 'utf8')) as {
    readonly dependencies: Readonly<Record<string, string>>
  }
  return Object.keys(dependencies).filter((name) => name.startsWith('@hub/'))
}

interface Sample {
  readonly labels: Readonly<Record<string, string>>
  readonly value: string
}

/** The samples at the start of a process, by metric. */
const samplesAtStart = async (app: string): Promise<ReadonlyMap<string, ReadonlyArray<Sample>>> => {
  const modules = [pathToFileURL(join(ROOT, 'apps', app, 'src/app.ts')).href, ...packagesOf(app)]
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--input-type=module', '--eval', PRINT_METRICS, '--', ...modules],
    { cwd: ROOT },
  )
  const lines = [...stdout.matchAll(/^(?<name>\w+)(?:\{(?<labels>.*)\})? (?<value>\S+)/gmu)]
  return Map.groupBy(
    lines.map(({ groups }) => ({
      name: groups?.['name'] ?? '',
      labels: Object.fromEntries(
        [...(groups?.['labels'] ?? '').matchAll(/(\w+)="([^"]*)"/gu)].map(([, label, value]) => [
          label,
          value,
        ]),
      ) as Readonly<Record<string, string>>,
      value: groups?.['value'] ?? '',
    })),
    ({ name }) => name,
  )
}

/** The values that `docs/metrics.md` lists for a label. */
const listedValues = (description: string): ReadonlyArray<string> =>
  [...description.matchAll(/`(\w+)`/gu)].map(([, value]) => value ?? '')

describe.each([...ALL_APPS])('the counters of %s', (app) => {
  const folders = new Set([`apps/${app}`, ...packagesOf(app).map((name) => name.replace('@hub', 'packages'))])
  const counters = definedMetrics().filter(({ type, where }) => type === 'counter' && folders.has(where))

  it('have a sample of 0 for each of their label values', async () => {
    const samples = await samplesAtStart(app)
    assert.isAbove(counters.length, 3)
    for (const { labels, name } of counters) {
      const its = samples.get(name) ?? []
      assert.isNotEmpty(its, `${name} has no sample`)
      for (const sample of its) {
        assert.strictEqual(sample.value, '0', name)
        assert.sameMembers(Object.keys(sample.labels), Object.keys(labels), name)
      }
      for (const [label, description] of Object.entries(labels)) {
        const sampled = its.map((sample) => sample.labels[label] ?? '')
        assert.includeMembers(sampled, [...listedValues(description)], `${name}, ${label}`)
      }
    }
  })
})
