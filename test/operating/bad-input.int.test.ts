/**
 * Processes with wrong settings: each says in one line what is wrong and what to correct, and ends, or does not become
 * ready. So a rollout with them stops at its first pod.
 */
import { once } from 'node:events'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createTopics, topicCatalogue } from '@hub/kafka'
import { type AppName, type OPERATIONS_API, programFile } from '@hub/local-stack'
import {
  eventually,
  freePort,
  freshDatabase,
  type FreshDatabase,
  openDatabase,
  testBrokers,
  testDatabaseUrl,
  testRedisUrl,
  topicPrefix,
} from '@hub/testkit'
import { Effect } from 'effect'
import { Redis } from 'ioredis'
import { createServer } from 'smpp'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Program as Running, startProgram } from '../support/program.ts'
import { redisServers } from '../support/redis-servers.ts'
import { type SecuredKafka, startSecuredKafka } from '../support/secured-kafka.ts'

const PARTITIONS = '3'
/** These only end a wait that hangs. */
const WITHIN = { withinMs: 180_000, everyMs: 100 } as const
const NAME = `bad_${randomBytes(6).toString('hex')}`
const PASSWORD = randomBytes(12).toString('hex')

type Program = AppName | typeof OPERATIONS_API | 'hubctl'
type Variables = Readonly<Record<string, string>>

let folder: string
let database: FreshDatabase
let kafka: SecuredKafka
let hbaFile: string
let prefix: string
const admin = () => openDatabase(testDatabaseUrl())
const redis = () => new Redis(testRedisUrl())
const masterKey = randomBytes(32).toString('base64')
const hashSecret = randomBytes(32).toString('hex')

/** PostgreSQL asks only the role of this test for a password. */
const requirePassword = async (): Promise<void> => {
  const sql = admin()
  await sql.unsafe(`CREATE ROLE ${NAME} LOGIN SUPERUSER PASSWORD '${PASSWORD}'`)
  const [row] = await sql`SHOW hba_file`
  hbaFile = String(row?.['hba_file'])
  writeFileSync(hbaFile, `host all ${NAME} all scram-sha-256\n${readFileSync(hbaFile, 'utf8')}`)
  await sql`SELECT pg_reload_conf()`
  await sql.end()
}

const dropRole = async (): Promise<void> => {
  const sql = admin()
  const rules = readFileSync(hbaFile, 'utf8').split('\n')
  writeFileSync(hbaFile, rules.filter((rule) => !rule.includes(NAME)).join('\n'))
  await sql`SELECT pg_reload_conf()`
  await sql.unsafe(`DROP ROLE ${NAME}`)
  await sql.end()
}

beforeAll(async () => {
  folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'bad-input-'))
  prefix = topicPrefix()
  database = await freshDatabase()
  await requirePassword()
  const client = redis()
  await client.acl('SETUSER', NAME, 'on', `>${PASSWORD}`, '~*', '&*', '+@all')
  await client.quit()
  const catalogue = topicCatalogue({ prefix, partitions: Number(PARTITIONS), replicationFactor: 1 })
  await Effect.runPromise(createTopics({ brokers: testBrokers(), clientId: 'bad-input-test' }, catalogue))
  kafka = await startSecuredKafka()
  writeFileSync(join(folder, 'ca.pem'), kafka.ca)
})
afterAll(async () => {
  await kafka?.stop()
  await database?.drop()
  await dropRole()
  const client = redis()
  await client.acl('DELUSER', NAME)
  await client.quit()
  rmSync(folder, { recursive: true, force: true })
})

const withUser = (url: string, username: string, password: string): string =>
  Object.assign(new URL(url), { username, password }).toString()
const databaseUrl = (password: string): string => withUser(database.url, NAME, password)
const redisUrl = (password: string): string => withUser(testRedisUrl(), NAME, password)
const secured = (change: Variables): Variables => ({
  HUB_KAFKA_BROKERS: kafka.brokers.join(','),
  HUB_KAFKA_TLS: 'on',
  HUB_KAFKA_CA_FILE: join(folder, 'ca.pem'),
  HUB_KAFKA_USERNAME: kafka.username,
  HUB_KAFKA_PASSWORD: kafka.password,
  ...change,
})

let started = 0
interface Started extends Running {
  readonly output: () => string
  /** The checks that fail now. */
  readonly failing: () => Promise<ReadonlyArray<string>>
}

const start = async (
  program: Program,
  change: Variables,
  args: ReadonlyArray<string> = [],
): Promise<Started> => {
  const [adminPort, port] = [await freePort(), await freePort()]
  const running = startProgram(process.execPath, [await programFile(program), ...args], {
    env: {
      PATH: process.env['PATH'],
      HUB_DATABASE_URL: databaseUrl(PASSWORD),
      HUB_REDIS_URL: redisUrl(PASSWORD),
      HUB_REDIS_PREFIX: prefix,
      HUB_KAFKA_BROKERS: testBrokers().join(','),
      HUB_TOPIC_PREFIX: prefix,
      HUB_PARTITIONS: PARTITIONS,
      HUB_MASTER_KEY: masterKey,
      HUB_NUMBER_HASH_SECRET: hashSecret,
      HUB_ADMIN_PORT: String(adminPort),
      HUB_PORT: String(port),
      HUB_BASE_URL: 'https://hub.example.com',
      HUB_DATA_DIR: join(folder, String(started++)),
      HUB_LISTEN_HOST: '127.0.0.1',
      HUB_SHUTDOWN_DELAY_MS: '0',
      ...change,
    },
  })
  return {
    ...running,
    output: () => running.lines.join('\n'),
    failing: async () => {
      const response = await fetch(`http://127.0.0.1:${adminPort}/readyz`)
      const { failing } = (await response.json()) as { readonly failing: ReadonlyArray<string> }
      return failing
    },
  }
}

/** The lines that match. Each problem is said once, without a stack, and without a secret. */
const linesOf = (output: string, expected: RegExp): ReadonlyArray<string> => {
  expect(output).not.toMatch(/^ +at /mu)
  for (const secret of [PASSWORD, masterKey, hashSecret, kafka.password]) expect(output).not.toContain(secret)
  return output.split('\n').filter((line) => expected.test(line))
}

/** Runs a program that must end by itself with this code, and returns its output. */
const runToEnd = async (
  program: Program,
  change: Variables,
  code: number,
  args: ReadonlyArray<string> = [],
): Promise<string> => {
  const { ended, output, stop: end } = await start(program, change, args)
  const timer = setTimeout(() => void end(), WITHIN.withinMs)
  const found = await ended
  clearTimeout(timer)
  expect(found, output()).toBe(code)
  return output()
}

/** Starts an app that must say this in one line, and must not be ready because of this check. */
const expectNotReady = async (
  program: Program,
  change: Variables,
  expected: RegExp,
  check: string,
): Promise<Started> => {
  const process = await start(program, change)
  await eventually(() => {
    expect(process.output()).toMatch(expected)
    return true
  }, WITHIN)
  await eventually(async () => {
    expect(await process.failing(), process.output()).toContain(check)
    return true
  }, WITHIN)
  expect(linesOf(process.output(), expected)).toHaveLength(1)
  return process
}

const stop = async ({ ended, output, terminate }: Started): Promise<void> => {
  terminate()
  expect(await ended, output()).toBe(0)
}

describe('a wrong password', () => {
  it('of PostgreSQL is refused by hubctl at once, and an app is not ready', async () => {
    const expected = /PostgreSQL refuses the user or the password\. Correct HUB_DATABASE_URL\./u
    const change = { HUB_DATABASE_URL: databaseUrl('wrong') }
    for (const args of [
      ['migrations', 'wait'],
      ['migrations', 'apply', '--yes'],
    ])
      expect(linesOf(await runToEnd('hubctl', change, 3, args), expected)).toHaveLength(1)
    await stop(await expectNotReady('projector', change, expected, 'identity'))
  })

  it.each(['command-api', 'dispatcher'] as const)('of Kafka: %s is not ready', async (program) => {
    await stop(
      await expectNotReady(
        program,
        secured({ HUB_KAFKA_PASSWORD: 'wrong' }),
        /Kafka refuses the user or the password\. Correct HUB_KAFKA_USERNAME or HUB_KAFKA_PASSWORD\./u,
        program === 'command-api' ? 'kafka' : 'starting',
      ),
    )
  })

  it('of Redis: command-api is not ready until Redis has accepted it', async () => {
    const client = redis()
    const process = await expectNotReady(
      'command-api',
      { HUB_REDIS_URL: redisUrl('later') },
      /Redis refuses the user or the password\. Correct HUB_REDIS_URL\./u,
      'redis',
    )
    await client.acl('SETUSER', NAME, '>later')
    await eventually(async () => (await process.failing()).length === 0, WITHIN)
    // It was accepted once, so it is ready also when Redis refuses it later.
    await client.acl('SETUSER', NAME, '<later')
    await client.client('KILL', 'USER', NAME)
    await eventually(() => linesOf(process.output(), /Redis refuses/u).length === 2, WITHIN)
    expect(await process.failing()).toEqual([])
    await client.quit()
    await stop(process)
  })

  it('of the SMPP operator: the dispatcher is not ready', async () => {
    // ESME_RINVPASWD (SMPP 3.4, 5.1.3).
    const smsc = createServer((session) => {
      session.on('bind_transceiver', (pdu) => void session.send(pdu.response({ command_status: 0x0e })))
    })
    smsc.listen(0, '127.0.0.1')
    await once(smsc, 'listening')
    const { port } = smsc.address() as AddressInfo
    const process = await expectNotReady(
      'dispatcher',
      {
        HUB_OPERATOR_SMPP_URL: `smpp://hub@127.0.0.1:${port}`,
        HUB_OPERATOR_SMPP_PASSWORD: 'wrong',
      },
      /The SMPP operator refuses .* Correct .*HUB_OPERATOR_SMPP_PASSWORD/u,
      'operator',
    )
    await stop(process)
    smsc.close()
  })
})

describe('Redis Sentinels', () => {
  it('that do not know the name: command-api is not ready until they do', async () => {
    const servers = await redisServers()
    const sentinel = await servers.startSentinel(await freePort(), [])
    const process = await expectNotReady(
      'command-api',
      {
        HUB_REDIS_URL: `redis+sentinel://${NAME}:${PASSWORD}@127.0.0.1:${sentinel.port}/hub`,
        HUB_PLAINTEXT_SERVERS: 'redis',
      },
      /The Sentinels do not know a primary of this name\. Correct the name at the end of HUB_REDIS_URL\./u,
      'redis',
    )
    const { hostname, port } = new URL(testRedisUrl())
    await sentinel.client.call('SENTINEL', 'MONITOR', 'hub', hostname, port || '6379', '1')
    await eventually(async () => (await process.failing()).length === 0, WITHIN)
    await stop(process)
    await servers.stop()
  })

  it('without TLS are refused in production, also on the same machine', async () => {
    const change = { HUB_REDIS_URL: 'redis+sentinel://127.0.0.1/hub' }
    const expected = /HUB_REDIS_URL allows connections over a network without verified TLS/u
    expect(linesOf(await runToEnd('command-api', change, 1), expected)).toHaveLength(1)
  })
})

describe('a wrong number of partitions', () => {
  it.each(['2', '4'])('%s: each app ends, also the one that accepts messages', async (partitions) => {
    const change = { HUB_PARTITIONS: partitions }
    const expected = new RegExp(
      `HUB_PARTITIONS is ${partitions}, and the topics of this hub have 3 partitions\\. Set it to 3`,
      'u',
    )
    for (const program of ['command-api', 'dispatcher', 'projector', 'webhook-fanout'] as const)
      expect(linesOf(await runToEnd(program, change, 1), expected), program).toHaveLength(1)
    const output = await runToEnd('hubctl', change, 1, ['topics', 'apply', '--yes'])
    expect(linesOf(output, /differences were not changed\. .*Set HUB_PARTITIONS to 3/u)).toHaveLength(1)
  })
})

describe('a secret from a file', () => {
  it('with a line break at its end is refused, by the name of the setting', async () => {
    const change = {
      HUB_DATABASE_URL: `${databaseUrl(PASSWORD)}\n`,
      HUB_MASTER_KEY: `${masterKey}\n`,
      HUB_NUMBER_HASH_SECRET: `${hashSecret}\n`,
      HUB_REDIS_URL: `${redisUrl(PASSWORD)}\n`,
    }
    const output = await runToEnd('command-api', change, 1)
    for (const name of Object.keys(change))
      expect(
        linesOf(output, new RegExp(`"message":"${name} has a .*line break at its end`, 'u')),
      ).toHaveLength(1)
    const wait = await runToEnd('hubctl', change, 3, ['migrations', 'wait'])
    expect(linesOf(wait, /HUB_DATABASE_URL has a .*line break at its end/u)).toHaveLength(1)
  })

  it('with a space at its end is refused if it is a URL, and otherwise the log says so', async () => {
    const change = {
      HUB_DATABASE_URL: `${databaseUrl(PASSWORD)} `,
      HUB_REDIS_URL: ` ${redisUrl(PASSWORD)}`,
      HUB_NUMBER_HASH_SECRET: `${hashSecret} `,
    }
    const output = await runToEnd('command-api', change, 1)
    for (const name of ['HUB_DATABASE_URL', 'HUB_REDIS_URL'])
      expect(
        linesOf(output, new RegExp(`"level":"error".*"message":"${name} begins or ends with a space`, 'u')),
      ).toHaveLength(1)
    expect(
      linesOf(output, /"level":"warn".*HUB_NUMBER_HASH_SECRET begins or ends with a space/u),
    ).toHaveLength(1)
  })
})

describe('an address', () => {
  it('with another scheme is refused, with the schemes that are expected', async () => {
    const change = { HUB_DATABASE_URL: 'mysql://hub@127.0.0.1/hub', HUB_OPERATOR_SMPP_URL: 'https://a.test' }
    const output = await runToEnd('dispatcher', change, 1)
    expect(
      linesOf(output, /HUB_DATABASE_URL is something else\. Expected: a URL that begins with postgres:/u),
    ).toHaveLength(1)
    expect(linesOf(output, /"message":"HUB_OPERATOR_SMPP_URL .*Expected: smpp:/u)).toHaveLength(1)
  })

  it('of no server: the app says which one, and waits for it', async () => {
    const port = await freePort()
    const change = { HUB_DATABASE_URL: `postgres://hub@127.0.0.1:${port}/hub` }
    const expected = /PostgreSQL does not accept connections\. Start it, or correct HUB_DATABASE_URL\./u
    await stop(await expectNotReady('projector', change, expected, 'identity'))
  })
})
