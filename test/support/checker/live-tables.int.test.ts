import { freshDatabase, openDatabase } from '@hub/testkit'
import { afterAll, expect, it } from 'vitest'
import { readComparedColumns } from './live-tables.ts'

const { drop, url } = await freshDatabase()
const sql = openDatabase(url)
afterAll(async () => {
  await sql.end()
  await drop()
})

/** Columns that no record of the topics determines alone. */
const NOT_COMPARED = new Set([
  // What the projector keeps for the next fact of a message. Its effect is in `attempts`.
  'messages.claims',
  'messages.claim_open',
  // Encrypted with a random nonce, and the key of it.
  'personal_data.sealed',
  'personal_data.sealing_key',
])

it('compares each column of the read models with the topics', async () => {
  const columns = await sql<ReadonlyArray<{ name: string; table: string }>>`
    SELECT table_name AS table, column_name AS name FROM information_schema.columns WHERE table_schema = 'read'`
  const compared = await readComparedColumns(sql)
  const missing = columns
    .filter(({ name, table }) => compared[table]?.includes(name) === false)
    .map(({ name, table }) => `${table}.${name}`)
  expect(new Set(missing)).toEqual(NOT_COMPARED)
})
