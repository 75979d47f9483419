/**
 * Checks table ownership over the sources: no app and no use case contains SQL for a table that
 * another owns. The owners are in `TABLE_OWNERS` of `@hub/store`. Tests and test helpers may use
 * every table.
 */
import { globSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { TABLE_OWNERS } from '@hub/store'
import { describe, expect, it } from 'vitest'

/** The sources whose tables are checked. */
const SOURCES = ['apps/*/src/**/*.ts', 'packages/operations/src/**/*.ts']

const ROOT = join(import.meta.dirname, '../..')
const MIGRATIONS = join(ROOT, 'packages/store/migrations')

const isTestHelper = (path: string): boolean =>
  path.endsWith('.test.ts') || path.includes('/testing/') || path.endsWith('.harness.ts')

/** The source without comments, which may mention every table. */
const withoutComments = (source: string): string =>
  source.replaceAll(/\/\*.*?\*\//gsu, '').replaceAll(/^\s*\/\/.*$/gmu, '')

const mentions = (source: string, table: string): boolean =>
  new RegExp(`(?<![\\w.])${table.replace('.', '\\.')}(?!\\w)`, 'u').test(source)

/**
 * Each `owner: table` where a source of an app or of the operations names a table that it does not
 * own, with its files.
 */
const foreignTables = (): ReadonlyMap<string, ReadonlyArray<string>> => {
  const found = new Map<string, Array<string>>()
  for (const path of globSync(SOURCES, { cwd: ROOT }).filter((file) => !isTestHelper(file))) {
    const owner = path.split('/')[1] ?? ''
    const source = withoutComments(readFileSync(join(ROOT, path), 'utf8'))
    for (const [table, owners] of Object.entries<ReadonlyArray<string>>(TABLE_OWNERS)) {
      if (owners.includes(owner) || !mentions(source, table)) continue
      const key = `${owner}: ${table}`
      found.set(key, [...(found.get(key) ?? []), path])
    }
  }
  return found
}

describe('table ownership', () => {
  it('lets no app and no use case contain SQL for a table that another owns', () => {
    expect([...foreignTables()]).toEqual([])
  })

  it('names an owner for each table that the migrations create', () => {
    const migrations = readdirSync(MIGRATIONS).map((file) => readFileSync(join(MIGRATIONS, file), 'utf8'))
    const tablesAfter = (statement: string): ReadonlyArray<string> =>
      migrations.flatMap((text) =>
        [...text.matchAll(new RegExp(`^${statement} ((?:command|read|webhooks)\\.[a-z_]+)`, 'gmu'))].map(
          ([, table]) => table ?? '',
        ),
      )
    const dropped = new Set(tablesAfter('DROP TABLE'))
    const tables = tablesAfter('CREATE (?:UNLOGGED )?TABLE').filter(
      (table) => !table.endsWith('_default') && !dropped.has(table),
    )
    expect(tables.filter((table) => !(table in TABLE_OWNERS))).toEqual([])
  })
})
