import { existsSync } from 'node:fs'
import { processStartTime } from '@hub/local-stack'
import { describe, expect, it } from 'vitest'
import { startStack } from './hub.ts'

describe('startStack', () => {
  it('starts servers that can be killed and restarted, and leaves nothing behind', async () => {
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
      expect(await Promise.all(pids.map(processStartTime))).toEqual([null, null, null])
      expect(existsSync(stack.dataDir)).toBe(false)
    }
  })
})
