/** A node of a Redis Cluster, and a Sentinel: the hub does not use them, and says why. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { assert, describe, it } from '@effect/vitest'
import { connectionFault } from '@hub/config'
import { makeRedisCounters, readRedis } from '@hub/counters'
import { ensureJars, findRedis, freePortBase, isRedisReady, readSettings, STACK_JARS } from '@hub/local-stack'
import { eventually } from '@hub/testkit'
import { Effect, Redacted } from 'effect'
import { afterAll, beforeAll } from 'vitest'
import { type Program, startProgram } from '../support/program.ts'

/** The test runner has already downloaded the files for its own server. */
const JARS_WITHIN_MS = 60_000

let folder: string
let servers: ReadonlyArray<Program>
let cluster: Redacted.Redacted<string>
let sentinel: Redacted.Redacted<string>
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'hub-unusable-redis-'))
  const { cacheDir } = readSettings(process.env)
  const program = await findRedis(process.env, () =>
    ensureJars(STACK_JARS, cacheDir, process.env, () => {}, AbortSignal.timeout(JARS_WITHIN_MS)),
  )
  const port = await freePortBase()
  const options = { bind: '127.0.0.1', port: String(port), dir: folder, save: '', 'cluster-enabled': 'yes' }
  const file = join(folder, 'sentinel.conf')
  writeFileSync(
    file,
    `bind 127.0.0.1\nport ${port + 1}\ndir ${folder}\nsentinel monitor hub 127.0.0.1 ${port} 1\n`,
  )
  servers = [
    startProgram(
      program,
      Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]),
    ),
    startProgram(program, [file, '--sentinel']),
  ]
  for (const [index, server] of servers.entries()) {
    await eventually(() => {
      if (!server.isRunning()) throw new Error(server.lines.join('\n'))
      return isRedisReady(port + index)
    })
  }
  cluster = Redacted.make(`redis://127.0.0.1:${port}`)
  sentinel = Redacted.make(`redis://127.0.0.1:${port + 1}`)
})
afterAll(async () => {
  for (const server of servers ?? []) await server.stop()
  rmSync(folder, { recursive: true, force: true })
})

describe.each([
  ['a node of a Redis Cluster', () => cluster, /Redis Cluster.*not support.*HUB_REDIS_URL/u],
  ['a Sentinel', () => sentinel, /Redis Sentinel.*not support.*HUB_REDIS_URL/u],
] as const)('%s', (_name, url, sentence) => {
  it.live('is refused at the start, with a sentence', () =>
    Effect.gen(function* () {
      const counters = yield* makeRedisCounters({ url: url() })
      const error = yield* Effect.flip(counters.ping)
      const fault = connectionFault(error)
      assert.match(fault?.sentence ?? '', sentence)
      assert.isTrue(fault?.isRefusal)
    }).pipe(Effect.scoped),
  )

  it.live('is refused by the diagnostics', () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(readRedis({ url: url(), prefix: 'hub:', day: '2026-11-30' }))
      assert.match(connectionFault(error)?.sentence ?? '', sentence)
    }),
  )
})
