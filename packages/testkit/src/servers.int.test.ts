import { existsSync } from 'node:fs'
import { beganAt } from '@hub/local-stack'
import postgres from 'postgres'
import { describe, expect, it } from 'vitest'
import { startStack } from './hub.ts'
import { freshDatabase } from './servers.ts'

const tables = async (url: string): Promise<number> => {
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  try {
    const [row] = await sql<{ count: number }[]>`
      SELECT count(*)::int AS count FROM information_schema.tables WHERE table_schema = 'command'`
    return row?.count ?? 0
  } finally {
    await sql.end()
  }
}

describe('a fresh database', () => {
  it('has the schema, and is gone once it is dropped', async () => {
    const database = await freshDatabase()
    expect(await tables(database.url)).toBeGreaterThan(0)
    await database.drop()
    await expect(tables(database.url)).rejects.toThrow('does not exist')
  })
})

describe('a stack of one’s own', () => {
  it('has servers that can be killed and started again, and leaves nothing', async () => {
    const stack = await startStack()
    try {
      for (const name of ['kafka', 'postgres', 'redis'] as const) {
        const server = stack.server(name)
        const before = server.pid()
        server.kill('SIGKILL')
        await server.exited()
        expect(() => server.pid()).toThrow('does not run')
        await server.restart()
        await server.waitReady()
        expect(server.pid()).not.toBe(before)
      }
    } finally {
      const pids = (['kafka', 'postgres', 'redis'] as const).map((name) => stack.server(name).pid())
      await stack.stop()
      expect(await Promise.all(pids.map(beganAt))).toEqual([null, null, null])
      expect(existsSync(stack.dataDir)).toBe(false)
    }
  })
})
