/**
 * The types that Grafana publishes for dashboards and for panels of kind `timeseries` judge our dashboards: each field
 * must exist, with a value of its type, and none that is required may be missing.
 */
import { mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from '@hub/local-stack'
import { beforeAll, describe, expect, it } from 'vitest'
import { type Found, npmTool, orSkip, type Output, runTool } from '../support/external-tools.ts'

const GRAFANA_SCHEMA = '13.2.3'
const DASHBOARDS = join(ROOT, 'infra/observability/dashboards')
const TYPES = '@grafana/schema/dist/types/raw'
/** Only ends a compiler that hangs. */
const WITHIN_MS = 300_000

/** JSON has literals where the types have enumerations. */
const HEAD = `
import type { Dashboard, FieldConfig, FieldConfigSource, Panel } from './node_modules/${TYPES}/dashboard/x/types.gen'
import type * as timeseries from './node_modules/${TYPES}/composable/timeseries/panelcfg/x/types.gen'

type Json<T> = unknown extends T
  ? T
  : T extends string
    ? \`\${T}\`
    : T extends number
      ? \`\${T}\` extends \`\${infer N extends number}\`
        ? N
        : T
      : T extends boolean | null | undefined
        ? T
        : T extends ReadonlyArray<infer E>
          ? Array<Json<E>>
          : { [K in keyof T]: Json<T[K]> }
type Defaults = Omit<FieldConfig, 'custom'> & { custom?: timeseries.FieldConfig }
type TimeSeries = Omit<Panel, 'type' | 'options' | 'fieldConfig'> & {
  type: 'timeseries'
  options: timeseries.Options
  fieldConfig: Omit<FieldConfigSource, 'defaults'> & { defaults: Defaults }
}
export type Checked = Json<Omit<Dashboard, 'panels'> & { panels: Array<TimeSeries> }>
`

let found: Found<{ readonly folder: string }>
beforeAll(async () => {
  found = await npmTool(`grafana-schema-${GRAFANA_SCHEMA}`, { '@grafana/schema': GRAFANA_SCHEMA })
})

/** Compiles dashboards, given as JSON by name. */
const compile = async (tool: string, dashboards: Readonly<Record<string, string>>): Promise<Output> => {
  const folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'grafana-'))
  symlinkSync(join(tool, 'node_modules'), join(folder, 'node_modules'))
  const values = Object.entries(dashboards).map(([name, json]) => `export const ${name}: Checked = ${json}`)
  writeFileSync(join(folder, 'dashboards.ts'), [HEAD, ...values].join('\n'))
  const options = [
    '--noEmit',
    '--strict',
    '--skipLibCheck',
    '--module',
    'esnext',
    '--moduleResolution',
    'bundler',
  ]
  const tsc = join(ROOT, 'node_modules/.bin/tsc')
  return runTool(tsc, [...options, '--ignoreConfig', 'dashboards.ts'], { cwd: folder, withinMs: WITHIN_MS })
}

const read = (): Record<string, string> =>
  Object.fromEntries(
    readdirSync(DASHBOARDS).map((file) => [
      file.replace('.json', ''),
      readFileSync(join(DASHBOARDS, file), 'utf8'),
    ]),
  )

describe('the types of Grafana', () => {
  it('accept each dashboard', async (context) => {
    const { folder } = await orSkip(context, found)
    const dashboards = read()
    expect(Object.keys(dashboards)).toHaveLength(5)
    expect(await compile(folder, dashboards)).toEqual({ code: 0, text: '' })
  })

  it.for([
    [
      'a field that Grafana does not have',
      '"legend": {',
      '"legend": { "place": "bottom",',
      /'"?place"?' does not exist/u,
    ],
    ['a value that Grafana does not have', '"placement": "bottom"', '"placement": "below"', /"below"/u],
  ] as const)('refuse %s', async ([, before, after, said], context) => {
    const { folder } = await orSkip(context, found)
    const { webhooks = '' } = read()
    expect(webhooks).toContain(before)
    const { code, text } = await compile(folder, { webhooks: webhooks.replaceAll(before, after) })
    expect(code).not.toBe(0)
    expect(text).toMatch(said)
  })
})
