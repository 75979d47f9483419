/**
 * Checks table ownership over the sources: no app contains SQL for a table that another app owns.
 * The owners are in `TABLE_OWNERS` of `@hub/store`. Tests and test helpers may use every table.
 */
import { globSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { TABLE_OWNERS } from '@hub/store'
import { describe, expect, it } from 'vitest'

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
 * Each `app: table` where a source of the app names a table that the app does not own, with its
 * files.
 */
const foreignTables = (): ReadonlyMap<string, ReadonlyArray<string>> => {
  const found = new Map<string, Array<string>>()
  for (const path of globSync('apps/*/src/**/*.ts', { cwd: ROOT }).filter((file) => !isTestHelper(file))) {
    const app = path.split('/')[1] ?? ''
    const source = withoutComments(readFileSync(join(ROOT, path), 'utf8'))
    for (const [table, owners] of Object.entries<ReadonlyArray<string>>(TABLE_OWNERS)) {
      if (owners.includes(app) || !mentions(source, table)) continue
      const key = `${app}: ${table}`
      found.set(key, [...(found.get(key) ?? []), path])
    }
  }
  return found
}

describe('table ownership', () => {
  it('lets no app contain SQL for a table that another app owns', () => {
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
