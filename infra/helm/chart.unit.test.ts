/** Checks the chart without Helm. test/operating/chart.e2e.test.ts renders it. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { catalogue } from '@hub/config'
import { Ajv } from 'ajv'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { CHART, generated } from './generated.ts'
import { valuesOf } from './page.ts'
import { FIXED, SECRETS, valuesSchema } from './schema.ts'

type Values = { readonly [name: string]: unknown }

const textOf = (path: string): string => readFileSync(join(CHART, path), 'utf8')
const valuesIn = (path: string): Values => parse(textOf(path)) as Values

const isTable = (value: unknown): value is Values =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Merges as Helm does: tables are merged, everything else is replaced. */
const merge = (before: Values, after: Values): Values => ({
  ...before,
  ...Object.fromEntries(
    Object.entries(after).map(([name, value]) => {
      const old = before[name]
      return [name, isTable(old) && isTable(value) ? merge(old, value) : value]
    }),
  ),
})

const defaults = valuesIn('values.yaml')
const required = valuesIn('ci/required-values.yaml')

describe('the chart', () => {
  it.each([...generated()])('has the current %s', (path, content) => {
    expect(readFileSync(path, 'utf8'), 'run npm run generate').toBe(content)
  })

  it('has the version of the hub', () => {
    const { version } = JSON.parse(readFileSync(join(CHART, '../../../package.json'), 'utf8')) as {
      readonly version: string
    }
    expect(parse(textOf('Chart.yaml'))).toMatchObject({ version, appVersion: version })
  })

  const validator = new Ajv({ strict: false })
  const isValid = validator.compile(valuesSchema)

  it.each(['values.yaml', 'values-small.yaml', 'values-large.yaml'])(
    'has a schema that permits the values of %s',
    (file) => {
      isValid(merge(merge(defaults, valuesIn(file)), required))
      expect(isValid.errors).toBeNull()
    },
  )

  it('has a schema that requires the values without a default', () => {
    expect(isValid(defaults)).toBe(false)
  })

  it('has a comment at each value, or at the group of it', () => {
    const all = valuesOf(textOf('values.yaml'))
    expect(all.length).toBeGreaterThan(50)
    expect(all.filter(({ comment, otherwise }) => otherwise !== null && comment === '')).toEqual([])
  })

  it('names only settings that exist', () => {
    const known = new Set(catalogue.map(({ name }) => name))
    const named = [
      'values.yaml',
      ...['_helpers.tpl', 'apps.yaml', 'checks.yaml', 'expose.yaml', 'scaling.yaml', 'hubctl.yaml'].map(
        (file) => `templates/${file}`,
      ),
    ].flatMap((file) => textOf(file).match(/\bHUB(?:CTL)?_[A-Z_]*[A-Z]\b/gu) ?? [])
    expect(named.length).toBeGreaterThan(50)
    expect([...new Set([...FIXED, ...named])].filter((name) => !known.has(name))).toEqual([])
  })

  it('gives pods each secret whose place can be chosen', () => {
    const lists = textOf('templates/_helpers.tpl').match(/(?<=^  secrets:)(?:.|\n)*?\]/gmu) ?? []
    expect(lists).toHaveLength(5)
    const given = new Set(lists.join().match(/HUB_[A-Z_]+/gu))
    expect([...given].sort()).toEqual([...SECRETS].sort())
  })
})
