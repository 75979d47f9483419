/** The table of account settings admits what the list of settings describes. */
import { randomUUID } from 'node:crypto'
import { ACCOUNT_SETTINGS, mapSettings, SETTING_NAMES } from '@hub/domain'
import { freshDatabase, openDatabase } from '@hub/testkit'
import { afterAll, describe, expect, it } from 'vitest'

const { drop, url } = await freshDatabase()
const sql = openDatabase(url)
afterAll(async () => {
  await sql.end()
  await drop()
})

const account = randomUUID()
await sql`INSERT INTO command.accounts (id, name) VALUES (${account}, 'settings')`

/** The SQLSTATE of a refusal (23514: a CHECK), or `null`. */
const store = async (name: string, value: number | string): Promise<string | null> => {
  try {
    await sql`
      INSERT INTO command.account_settings ${sql({ account, mode: 'live', [name]: value })}
      ON CONFLICT (account, mode) DO UPDATE SET ${sql({ [name]: value })}`
    return null
  } catch (error) {
    return (error as { code: string }).code
  }
}

/** Settings of the first version, whose greatest value only the use case checks. */
const WITHOUT_MAXIMUM = new Set([
  'api_rps',
  'batch_max',
  'flood_pause_seconds',
  'flood_per_hour',
  'flood_per_day',
])

const integers = Object.entries(
  mapSettings(
    ({ maximum, minimum }) => ({ minimum, maximum }),
    () => null,
  ),
).flatMap(([name, range]) => (range === null ? [] : [{ name, ...range }]))

describe('command.account_settings', () => {
  it('has a column for each setting, and no other', async () => {
    const columns = await sql<ReadonlyArray<{ name: string; nullable: string }>>`
      SELECT column_name AS name, is_nullable AS nullable FROM information_schema.columns
       WHERE table_schema = 'command' AND table_name = 'account_settings'`
    expect(columns.flatMap(({ name, nullable }) => (nullable === 'YES' ? [name] : [])).toSorted()).toEqual(
      SETTING_NAMES.toSorted(),
    )
  })

  it.each(integers)('admits the range of $name only', async ({ maximum, minimum, name }) => {
    expect(await store(name, minimum)).toBeNull()
    expect(await store(name, maximum)).toBeNull()
    expect(await store(name, minimum - 1)).toBe('23514')
    expect(await store(name, maximum + 1)).toBe(WITHOUT_MAXIMUM.has(name) ? null : '23514')
  })

  it('admits the defaults', async () => {
    for (const [name, { default: value }] of Object.entries(ACCOUNT_SETTINGS))
      if (value !== null) expect([name, await store(name, value)]).toEqual([name, null])
  })
})
