/** More projectors beside a hub's own: processes of the same app on the same servers, to be killed and started again. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import net from 'node:net'
import { join } from 'node:path'
import { ROOT } from '@hub/local-stack'
import { eventually } from '@hub/testkit'
import { type TestHub } from './hub.ts'

export interface ExtraProjector {
  readonly name: string
  readonly kill: () => Promise<void>
  /** Starts it, and waits until it is ready. */
  readonly start: () => Promise<void>
}

/** It loads, connects and joins within 3 s here; a busy machine takes longer. */
const READY_WITHIN_MS = 60_000

const freePort = async (): Promise<number> => {
  const server = net.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as net.AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

const running = new Set<ChildProcess>()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/** A projector of a hub; not started yet. Its output is in the hub's data folder. */
export const extraProjector = (hub: TestHub, name: string): ExtraProjector => {
  const { database_url, kafka } = hub.describe()
  const secrets = JSON.parse(readFileSync(join(hub.dataDir, 'secrets.json'), 'utf8')) as {
    readonly masterKey: string
  }
  let child: ChildProcess | null = null
  return {
    name,
    kill: async () => {
      const killed = child
      if (killed === null || killed.exitCode !== null || killed.signalCode !== null) return
      const ended = once(killed, 'exit')
      killed.kill('SIGKILL')
      await ended
      running.delete(killed)
    },
    start: async () => {
      const port = await freePort()
      const log = openSync(join(hub.dataDir, `${name}.log`), 'a')
      child = spawn(process.execPath, [join(ROOT, 'apps/projector/src/main.ts')], {
        stdio: ['ignore', log, log],
        env: {
          PATH: process.env['PATH'],
          HUB_DATABASE_URL: database_url,
          HUB_KAFKA_BROKERS: kafka.brokers.join(','),
          HUB_MASTER_KEY: secrets.masterKey,
          HUB_ADMIN_PORT: String(port),
          HUB_DATA_DIR: join(hub.dataDir, 'apps', name),
        },
      })
      running.add(child)
      closeSync(log)
      await eventually(
        async () => (await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => null))?.status === 200,
        { withinMs: READY_WITHIN_MS, everyMs: 100 },
      )
    },
  }
}
