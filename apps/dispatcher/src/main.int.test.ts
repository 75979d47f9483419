import { assert, describe, it } from '@effect/vitest'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'

const main = fileURLToPath(new URL('./main.ts', import.meta.url))

describe('a dispatcher that gets a signal while it still leaves its old session', () => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    it(`ends well on ${signal}`, async () => {
      // A broker that accepts the connection and never answers.
      const broker = createServer()
      broker.listen(0, '127.0.0.1')
      await once(broker, 'listening')
      const { port } = broker.address() as AddressInfo
      const dispatcher = spawn(process.execPath, [main], {
        env: { ...process.env, HUB_KAFKA_BROKERS: `127.0.0.1:${port}` },
        stdio: ['ignore', 'pipe', 'pipe'],
      })
      try {
        const said: Array<Buffer> = []
        for (const stream of [dispatcher.stdout, dispatcher.stderr])
          stream.on('data', (chunk: Buffer) => said.push(chunk))
        const ended = once(dispatcher, 'exit')
        const [socket] = await once(broker, 'connection')
        dispatcher.kill(signal)
        assert.deepStrictEqual(await ended, [0, null])
        assert.strictEqual(Buffer.concat(said).toString(), '')
        socket.destroy()
      } finally {
        dispatcher.kill('SIGKILL')
        broker.close()
      }
    })
  }
})
