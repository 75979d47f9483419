/**
 * Processes with secrets of another hub, or with another database, start beside the right ones, while messages
 * are sent. Each of them ends by itself and names its setting, no message is lost, handed over twice or
 * expired, and every event is delivered.
 */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { APP_NAMES, type AppName, type OPERATIONS_API, programFile } from '@hub/local-stack'
import { type FreshDatabase, freePort, freshDatabase } from '@hub/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { client } from '../support/client.ts'
import { startHub, type TestHub } from '../support/hub.ts'
import { hubctl } from '../support/hubctl.ts'
import { expectNothingLostOrRepeated, startTraffic } from '../support/traffic.ts'
import { startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts'

const RATE = 5
/** Only ends a wait that hangs. The promise is ten seconds on a machine with free cores. */
const ENDED_WITHIN_MS = 60_000
const WITHIN_MS = 420_000

let receiver: WebhookReceiver
let hub: TestHub
let folder: string
/** A database with the tables of a hub, on the same server. */
let emptyDatabase: FreshDatabase
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'hub-secrets-'))
  receiver = await startWebhookReceiver()
  hub = await startHub({ apiRps: 100_000, liveOperator: 'smpp', environment: receiver.environment })
  emptyDatabase = await freshDatabase(hub.describe().database_url)
})
afterAll(async () => {
  await hub?.stop()
  await receiver?.close()
  rmSync(folder, { recursive: true, force: true })
})

type Program = AppName | typeof OPERATIONS_API
const PROGRAMS: ReadonlyArray<Program> = [...APP_NAMES, 'operations-api']
const HASHING: ReadonlyArray<Program> = ['command-api', 'dispatcher', 'operations-api']

/** The settings of the hub, as `npm start` writes them for hubctl. */
const settings = () => parseEnv(readFileSync(join(hub.dataDir, 'hubctl.env'), 'utf8'))

/** Starts a process with changed settings, and waits until it has ended by itself. */
const runStranger = async (app: Program, name: string, change: Readonly<Record<string, string>>) => {
  const [adminPort, port] = [await freePort(), await freePort()]
  const began = performance.now()
  const child = spawn(process.execPath, [await programFile(app)], {
    env: {
      PATH: process.env['PATH'],
      ...settings(),
      HUB_ADMIN_PORT: String(adminPort),
      HUB_DATA_DIR: join(folder, name),
      HUB_LISTEN_HOST: '127.0.0.1',
      HUB_SHUTDOWN_DELAY_MS: '0',
      HUB_PORT: String(port),
      HUB_OPERATIONS_PORT: String(port),
      HUB_OPERATIONS_URL: `http://127.0.0.1:${port}`,
      // The process ends before it binds.
      HUB_OPERATOR_SMPP_PASSWORD: 'unused',
      HUB_OPERATIONS_LOCAL_SECRET: randomBytes(32).toString('hex'),
      ...change,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const timer = setTimeout(() => child.kill('SIGKILL'), ENDED_WITHIN_MS)
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  clearTimeout(timer)
  const fatal = output.split('\n').filter((line) => line.includes('"level":"fatal"'))
  return { code, fatal, seconds: (performance.now() - began) / 1000, output }
}

describe(`processes of another hub, beside the right ones, under ${RATE} sends a second`, () => {
  it(
    'end by themselves, name the setting, and destroy nothing',
    async () => {
      const { base_url, keys } = hub.describe()
      for (const mode of ['test', 'live'] as const) {
        const { status } = await client(base_url, keys[mode]).post('/v1/webhook_endpoints', {
          url: receiver.url('/hook'),
        })
        expect(status).toBe(201)
      }
      const traffic = startTraffic({
        post: (path, key, body) => client(base_url, key, { repeats: false }).post(path, body),
        keys,
        perSecond: RATE,
        name: 'secrets',
        numbers: '+7914',
      })
      await traffic.waitForAccepted(40)

      const otherKey = randomBytes(32).toString('base64')
      const otherHashSecret = randomBytes(32).toString('hex')
      const cases: ReadonlyArray<readonly [Program, string, Readonly<Record<string, string>>]> = [
        ...PROGRAMS.map((app) => [app, 'HUB_MASTER_KEY', { HUB_MASTER_KEY: otherKey }] as const),
        // The half of a rotation that comes second, without the first.
        [
          'dispatcher',
          'HUB_MASTER_KEY',
          { HUB_MASTER_KEY: otherKey, HUB_PREVIOUS_MASTER_KEYS: settings()['HUB_MASTER_KEY'] ?? '' },
        ],
        ...HASHING.map(
          (app) => [app, 'HUB_NUMBER_HASH_SECRET', { HUB_NUMBER_HASH_SECRET: otherHashSecret }] as const,
        ),
        ...PROGRAMS.map((app) => [app, 'HUB_DATABASE_URL', { HUB_DATABASE_URL: emptyDatabase.url }] as const),
        ['projector', 'HUB_TOPIC_PREFIX', { HUB_TOPIC_PREFIX: 'another.' }],
        [
          'command-api',
          'HUB_DATABASE_URL',
          { HUB_MASTER_KEY: otherKey, HUB_NUMBER_HASH_SECRET: otherHashSecret },
        ],
      ]
      const lines: Array<string> = []
      for (const [index, [app, variable, change]] of cases.entries()) {
        const { code, fatal, output, seconds } = await runStranger(app, `stranger-${index}`, change)
        lines.push(
          `  ${app} with another ${Object.keys(change).join(' and ')}: ended after ${seconds.toFixed(1)} s`,
        )
        expect(code, `${app}: ${output}`).toBe(1)
        expect(fatal, `${app}: ${output}`).toHaveLength(1)
        expect(fatal[0]).toContain(`NotOfThisHub: ${variable} `)
        for (const secret of Object.values(change))
          if (secret.length > 20) expect(output).not.toContain(secret)
      }
      console.log(lines.join('\n'))

      await traffic.waitForAccepted(40)
      await traffic.stop()
      const { messages } = await expectNothingLostOrRepeated(hub, traffic, receiver)
      expect(messages).toBe(traffic.count())
    },
    WITHIN_MS,
  )

  it(
    'are found by hubctl, which refuses to work with their secrets',
    async () => {
      const { database_url, kafka, redis_url } = hub.describe()
      const servers = { databaseUrl: database_url, brokers: kafka.brokers, redisUrl: redis_url }
      const hashSecret = { HUB_NUMBER_HASH_SECRET: randomBytes(32).toString('hex') }
      await expect(hubctl(servers, hub, ['accounts', 'list'], hashSecret)).rejects.toThrow(
        /HUB_NUMBER_HASH_SECRET is not the secret of this hub/u,
      )
      const masterKey = { HUB_MASTER_KEY: randomBytes(32).toString('base64') }
      await expect(hubctl(servers, hub, ['doctor'], masterKey)).rejects.toThrow(
        /HUB_MASTER_KEY is not of this hub/u,
      )
      const empty = { ...servers, databaseUrl: emptyDatabase.url }
      await expect(hubctl(empty, hub, ['doctor'])).rejects.toThrow(/HUB_DATABASE_URL is not of this hub/u)
      await expect(hubctl(empty, hub, ['dead-letters', 'list'])).rejects.toThrow(
        /HUB_DATABASE_URL leads to the database .* hubctl restore database/u,
      )
    },
    WITHIN_MS,
  )
})
