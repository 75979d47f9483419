import postgres from 'postgres'
import { describe, expect, it } from 'vitest'
import { freshDatabase } from './servers.ts'

const countTables = async (url: string): Promise<number> => {
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  try {
    const [row] = await sql<{ count: number }[]>`
      SELECT count(*)::int AS count FROM information_schema.tables WHERE table_schema = 'command'`
    return row?.count ?? 0
  } finally {
    await sql.end()
  }
}

describe('freshDatabase', () => {
  it('creates a database with the schema, and removes it with drop', async () => {
    const database = await freshDatabase()
    expect(await countTables(database.url)).toBeGreaterThan(0)
    await database.drop()
    await expect(countTables(database.url)).rejects.toThrow('does not exist')
  })
})
