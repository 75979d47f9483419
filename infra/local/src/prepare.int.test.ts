import { freshDatabase, type FreshDatabase, eventually, openDatabase } from '@hub/testkit'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import { prepareDatabase } from './prepare.ts'
import { makeSecrets } from './secrets.ts'

let database: FreshDatabase

beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database?.drop())

/** Of a statement that needs milliseconds. */
const WITHIN_MS = 20_000

describe('the preparation of a database', () => {
  it('waits for a slow PostgreSQL and tries again, instead of failing at the deadline of a request', async () => {
    const lines: Array<string> = []
    const sql = openDatabase(database.url)
    try {
      const secrets = makeSecrets()
      const waiting = async () => {
        const [session] = await sql<{ pid: number }[]>`
          SELECT pid FROM pg_stat_activity WHERE application_name = 'hub-seed' AND wait_event_type = 'Lock'`
        return session?.pid
      }
      let preparing = Promise.resolve()
      await sql.begin(async (locking) => {
        await locking`LOCK TABLE command.accounts IN ACCESS EXCLUSIVE MODE`
        preparing = prepareDatabase(database.url, secrets, new AbortController().signal, (line) =>
          lines.push(line),
        )
        // A failure ends the wait for the line at once.
        await Promise.race([preparing, eventually(() => lines[0], { withinMs: WITHIN_MS })])
        const first = await eventually(waiting, { withinMs: WITHIN_MS })
        await sql`SELECT pg_terminate_backend(${first})`
        await eventually(async () => ((await waiting()) ?? first) !== first, { withinMs: WITHIN_MS })
      })
      await preparing
      assert.deepStrictEqual(lines, [
        'The creation of the accounts takes more than 5 s, because PostgreSQL is slow: waiting for up to 60 s',
      ])
      const rows = await sql<{ id: string }[]>`SELECT id FROM command.accounts ORDER BY id`
      assert.deepStrictEqual(
        rows.map(({ id }) => id),
        secrets.accounts.map(({ account }) => account).toSorted(),
      )
    } finally {
      await sql.end()
    }
  })
})
