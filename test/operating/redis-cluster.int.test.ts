/** A node of a Redis Cluster: the hub does not use it, and says why. */
import { mkdtempSync, rmSync } from 'node:fs'
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
let server: Program
let url: Redacted.Redacted<string>
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'hub-redis-cluster-'))
  const { cacheDir } = readSettings(process.env)
  const program = await findRedis(process.env, () =>
    ensureJars(STACK_JARS, cacheDir, process.env, () => {}, AbortSignal.timeout(JARS_WITHIN_MS)),
  )
  const port = await freePortBase()
  const options = { bind: '127.0.0.1', port: String(port), dir: folder, save: '', 'cluster-enabled': 'yes' }
  server = startProgram(
    program,
    Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]),
  )
  await eventually(() => isRedisReady(port))
  url = Redacted.make(`redis://127.0.0.1:${port}`)
})
afterAll(async () => {
  await server?.stop()
  rmSync(folder, { recursive: true, force: true })
})

describe('a node of a Redis Cluster', () => {
  it.live('is refused at the start, with a sentence', () =>
    Effect.gen(function* () {
      const counters = yield* makeRedisCounters({ url })
      const error = yield* Effect.flip(counters.ping)
      const fault = connectionFault(error)
      assert.match(fault?.sentence ?? '', /Redis Cluster.*not support.*HUB_REDIS_URL/u)
      assert.isTrue(fault?.isRefusal)
    }).pipe(Effect.scoped),
  )

  it.live('is refused by the diagnostics', () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(readRedis({ url, prefix: 'hub:', day: '2026-11-30' }))
      assert.include(connectionFault(error)?.sentence, 'Redis Cluster')
    }),
  )
})
