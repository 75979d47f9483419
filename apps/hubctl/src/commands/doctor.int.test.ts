/**
 * `hubctl doctor`, `topics`, `migrations` and `config` over real, dead, hung and misconfigured
 * servers.
 */
import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { alterTopics, compareTopics, SCHEMAS, subjectOf, topicCatalogue, topicNames } from '@hub/kafka'
import {
  freshDatabase,
  type FreshDatabase,
  openDatabase,
  testBrokers,
  testRedisUrl,
  topicPrefix,
} from '@hub/testkit'
import { Effect } from 'effect'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import { runHubctl } from '../testing/run-hubctl.ts'
import type { Doctor } from '@hub/operations'

const PREFIX = topicPrefix()
const PARTITIONS = 2
const specs = topicCatalogue({ prefix: PREFIX, partitions: PARTITIONS, replicationFactor: 1 })
const connection = { brokers: testBrokers(), clientId: 'hubctl-test' }

let database: FreshDatabase
/** Accepts connections and never answers, like a paused process. */
let silent: Server
/** The endpoints of command-api that the doctor requests. */
let api: Server
const open = new Set<Socket>()

const portOf = (server: Server): number => (server.address() as AddressInfo).port
const listening = async (server: Server): Promise<Server> => {
  server.on('connection', (socket) => open.add(socket))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server
}

beforeAll(async () => {
  database = await freshDatabase()
  silent = await listening(createServer((socket) => socket.on('error', () => {})))
  api = await listening(
    createHttpServer((request, response) => {
      response.end(
        request.url === '/readyz'
          ? '{"status":"ready","failing":[]}'
          : JSON.stringify(SCHEMAS.map(({ name }) => subjectOf(name))),
      )
    }),
  )
})

afterAll(async () => {
  for (const socket of open) socket.destroy()
  silent?.close()
  api?.close()
  await database?.drop()
})

const environment = (more: Readonly<Record<string, string>> = {}) => ({
  HUB_DATABASE_URL: database.url,
  HUB_REDIS_URL: testRedisUrl(),
  HUB_REDIS_PREFIX: PREFIX,
  HUB_KAFKA_BROKERS: testBrokers().join(','),
  HUB_TOPIC_PREFIX: PREFIX,
  HUB_PARTITIONS: String(PARTITIONS),
  HUB_BASE_URL: `http://127.0.0.1:${portOf(api)}`,
  HUBCTL_ADMIN_URLS: `command-api=http://127.0.0.1:${portOf(api)}`,
  ...more,
})

const run = (words: ReadonlyArray<string>, more: Readonly<Record<string, string>> = {}) =>
  runHubctl(environment(more), words)

/** No app runs in this test, so these groups have no members. */
const NO_READERS = ['dispatcher group', 'projector group', 'webhook-fanout group']

const findings = async (more: Readonly<Record<string, string>> = {}) => {
  const ran = await run(['doctor', '--json'], more)
  const { findings: all, healthy } = ran.json<{
    readonly healthy: boolean
    readonly findings: ReadonlyArray<Doctor.Finding>
  }>()
  assert.deepStrictEqual([healthy, ran.code], [false, 1])
  const by = (verdict: Doctor.Finding['verdict']) =>
    all.filter((finding) => finding.verdict === verdict).map(({ subject }) => subject)
  return {
    ill: by('ill'),
    unknown: by('unknown'),
    said: (subject: string) => all.find((finding) => finding.subject === subject)?.said ?? '',
  }
}

describe('hubctl topics', () => {
  it('creates missing topics once', async () => {
    const before = await run(['topics', 'diff', '--json'])
    assert.strictEqual(before.code, 1)
    assert.lengthOf(before.json<{ readonly steps: ReadonlyArray<unknown> }>().steps, specs.length)
    const made = await run(['topics', 'apply', '--json'])
    assert.strictEqual(made.code, 0, made.err)
    assert.lengthOf(made.json<{ readonly created: ReadonlyArray<string> }>().created, specs.length)
    assert.strictEqual((await run(['topics', 'diff'])).code, 0)
    const again = await run(['topics', 'apply'])
    assert.deepStrictEqual([again.code, again.out], [0, '0 created, 0 altered.'])
    const trail = await run(['audit', 'list', '--command', 'topics', '--json'])
    assert.lengthOf(trail.json<{ readonly data: ReadonlyArray<unknown> }>().data, 1)
  })

  it('restores altered settings after confirmation, and keeps settings outside the catalogue', async () => {
    const spec = specs.find(({ topic }) => topic === topicNames(PREFIX).webhooks)!
    const own = { 'segment.ms': '7200000' }
    await Effect.runPromise(
      alterTopics(connection, [{ ...spec, config: { ...spec.config, ...own, 'retention.ms': '60000' } }]),
    )
    const diff = await run(['topics', 'diff'])
    assert.strictEqual(diff.code, 1)
    assert.match(diff.out, /hub\.webhooks\.v1 +retention\.ms +60000 +2592000000 +alter/u)
    const asked = await run(['topics', 'apply'])
    assert.strictEqual(asked.code, 1)
    assert.include(asked.err, '(confirmation_required)')
    const mended = await run(['topics', 'apply', '--yes', '--json'])
    assert.deepStrictEqual(mended.json<{ readonly altered: ReadonlyArray<string> }>().altered, [spec.topic])
    assert.strictEqual((await run(['topics', 'diff'])).code, 0)
    const { differences } = await Effect.runPromise(
      compareTopics(connection, [{ ...spec, config: { ...spec.config, ...own } }]),
    )
    assert.deepStrictEqual(differences, [])
  })

  it('refuses to change the number of partitions, with the reason', async () => {
    const refused = await run(['topics', 'apply', '--yes'], { HUB_PARTITIONS: String(PARTITIONS + 1) })
    assert.strictEqual(refused.code, 1)
    assert.match(refused.out, /partitions +2 +3 +refuse/u)
    assert.include(refused.out, 'recipients would belong to other partitions')
    assert.include(refused.err, `Set HUB_PARTITIONS to ${PARTITIONS}`)
    assert.strictEqual((await run(['topics', 'diff'])).code, 0)
  })

  // With three in-sync replicas of one, Kafka would refuse each record (NOT_ENOUGH_REPLICAS).
  it('refuses another number of replicas, and leaves the in-sync replicas as they are', async () => {
    const refused = await run(['topics', 'apply', '--yes'], { HUB_REPLICATION_FACTOR: '4' })
    assert.strictEqual(refused.code, 1)
    assert.match(refused.out, /min\.insync\.replicas +1 +3 +refuse/u)
    assert.include(refused.err, 'set HUB_REPLICATION_FACTOR to 1')
    assert.strictEqual((await run(['topics', 'diff'])).code, 0)
  })
})

describe('hubctl doctor', () => {
  it('finds no problem except missing consumers', async () => {
    const found = await findings()
    assert.deepStrictEqual([found.ill, found.unknown], [NO_READERS, []])
    assert.match(
      found.said('PostgreSQL'),
      /^\d+\.\d+, answers in [\d.]+ ms, its clock is \d+ ms (?:ahead|behind)/u,
    )
    assert.match(found.said('Redis'), /^\d+\.\d+\.\d+, answers in [\d.]+ ms, its clock/u)
  })

  it('shows one line for each finding, and the repair of each problem', async () => {
    const { code, err, out } = await run(['doctor'])
    assert.strictEqual(code, 1)
    assert.match(out, /^✓ PostgreSQL +\d/mu)
    assert.match(out, /^✗ dispatcher group +nobody reads, 0 records wait\n +→ Start dispatcher\.$/mu)
    assert.match(out, /\n\n3 things are wrong: dispatcher group, projector group, webhook-fanout group\.$/u)
    assert.include(err, '(not_well)')
    assert.isBelow(out.split('\n').length, 40)
  })

  it('reports stuck rows, stops and unreachable services', async () => {
    const sql = openDatabase(database.url)
    try {
      await sql`INSERT INTO command.outbox (records, created_at) VALUES ('x', now() - interval '1 hour')`
      await sql`UPDATE command.hub_settings SET stopped_until = now() + interval '1 hour', daily_limit = 0`
      await sql`
        WITH client AS (INSERT INTO command.accounts (id, name) VALUES (gen_random_uuid(), 'expiring') RETURNING id)
        INSERT INTO webhooks.endpoints (id, account, mode, url, secret, client_certificate_not_after)
        SELECT gen_random_uuid(), client.id, 'live', '', '', at FROM client,
               unnest(ARRAY[now() - interval '1 day', now() + interval '29 days', now() + interval '31 days']) AS at`
      const found = await findings({
        HUB_OPERATOR_SMPP_URL: 'smpp://hub@127.0.0.1:1',
        HUB_WEBHOOK_ALLOWED_HOSTS: '169.254.169.254',
        HUBCTL_ADMIN_URLS: 'projector=http://127.0.0.1:9',
      })
      assert.deepStrictEqual(found.ill, [
        'processes',
        'operator',
        'webhook egress',
        ...NO_READERS,
        'outboxes',
        'stop flag',
        'daily limit',
      ])
      assert.match(found.said('daily limit'), /^\d+ of 0 messages today.*: no more are accepted/u)
      assert.match(found.said('outboxes'), /^1 of accepted messages wait, the oldest for 36\d\d s$/u)
      assert.match(
        found.said('client certificates'),
        /^expired, or ending within 30 days: 2; the first one, of we_/u,
      )
      assert.match(found.said('processes'), /^projector cannot be reached/u)
    } finally {
      await sql`DELETE FROM command.outbox`
      await sql`DELETE FROM webhooks.endpoints`
      await sql`UPDATE command.hub_settings SET stopped_until = NULL, daily_limit = NULL`
      await sql.end()
    }
  })

  const UPON_POSTGRESQL = [
    'identity',
    'projector group',
    'webhook-fanout group',
    'outboxes',
    'erasures',
    'unanswered submits',
    'stop flag',
    'daily limit',
    'client certificates',
  ]
  const UPON_KAFKA = ['identity', 'payload keys', 'topics', ...NO_READERS, 'erasures', 'dead letters']

  it.each(['dead', 'hung'] as const)(
    'reports a %s server, and the checks that depend on it as unknown',
    async (how) => {
      const at = how === 'dead' ? 1 : portOf(silent)
      const [postgresql, redis, kafka] = await Promise.all([
        findings({ HUB_DATABASE_URL: `postgres://hub@127.0.0.1:${at}/hub` }),
        findings({ HUB_REDIS_URL: `redis://127.0.0.1:${at}` }),
        findings({ HUB_KAFKA_BROKERS: `127.0.0.1:${at}` }),
      ])
      assert.deepStrictEqual(postgresql.ill, ['PostgreSQL', 'dispatcher group'])
      assert.deepStrictEqual(postgresql.unknown, ['migrations', ...UPON_POSTGRESQL])
      assert.deepStrictEqual(redis.ill, ['Redis', ...NO_READERS])
      assert.deepStrictEqual(redis.unknown, ['daily limit'])
      assert.deepStrictEqual(kafka.ill, ['Kafka'])
      assert.deepStrictEqual(kafka.unknown, UPON_KAFKA)
    },
  )

  it('reports a transit engine that does not answer, and not one that the hub does not use', async () => {
    const transit = {
      HUB_TRANSIT_URL: 'http://127.0.0.1:1',
      HUB_TRANSIT_KEY_NAME: 'sms-hub',
      HUB_TRANSIT_TOKEN: 'private',
    }
    const found = await findings({ ...transit, HUB_KEY_PROVIDER: 'transit' })
    assert.deepStrictEqual(found.ill, ['transit engine', ...NO_READERS])
    assert.deepStrictEqual(found.unknown, ['payload keys'])
    assert.strictEqual(found.said('transit engine'), 'does not answer (TRANSIT_UNREACHABLE)')
    for (const unused of [{}, transit]) {
      const { ill, said } = await findings(unused)
      assert.deepStrictEqual([ill, said('transit engine')], [NO_READERS, ''])
    }
  })

  it('reports an invalid setting without its value', async () => {
    const ran = await run(['doctor', '--json'], {
      HUB_REDIS_URL: 'private',
      HUB_KAFKA_BROKRES: 'private',
    })
    assert.notInclude(ran.out, 'private')
    const { findings: all } = ran.json<{ readonly findings: ReadonlyArray<Doctor.Finding> }>()
    const settings = all.find(({ subject }) => subject === 'settings')
    assert.match(String(settings?.said), /^HUB_REDIS_URL is something else\. Expected: /u)
    assert.deepStrictEqual(settings?.facts['unknown'], ['HUB_KAFKA_BROKRES (perhaps HUB_KAFKA_BROKERS)'])
  })
})

describe('hubctl migrations', () => {
  it('shows and applies pending migrations, and records it in the audit trail', async () => {
    const empty = await freshDatabase()
    const sql = openDatabase(empty.url)
    try {
      await sql`DROP SCHEMA IF EXISTS command, read, webhooks, rebuild CASCADE`
      await sql`DROP TABLE public.hub_migrations`
      const there = { HUB_DATABASE_URL: empty.url }
      const before = await run(['migrations', 'status'], there)
      assert.strictEqual(before.code, 1)
      assert.match(before.out, /^0001_command\.sql +pending +-$/mu)
      const applied = await run(['migrations', 'apply'], there)
      assert.strictEqual(applied.code, 0, applied.err)
      assert.strictEqual((await run(['migrations', 'status'], there)).code, 0)
      assert.strictEqual((await run(['migrations', 'apply'], there)).out, 'Nothing was pending.')
      const trail = await run(['audit', 'list', '--command', 'migrations apply', '--json'], there)
      assert.lengthOf(trail.json<{ readonly data: ReadonlyArray<unknown> }>().data, 1)
    } finally {
      await sql.end()
      await empty.drop()
    }
  })

  it('reports a database of another version', async () => {
    const sql = openDatabase(database.url)
    try {
      const [old] = await sql<{ checksum: string }[]>`
        SELECT checksum FROM public.hub_migrations WHERE name = '0001_command.sql'`
      await sql`UPDATE public.hub_migrations SET checksum = 'another' WHERE name = '0001_command.sql'`
      const status = await run(['migrations', 'status'])
      assert.strictEqual(status.code, 1)
      assert.include(status.err, '0001_command.sql was edited after it was applied')
      assert.deepStrictEqual((await findings()).ill, ['migrations', 'dispatcher group'])
      await sql`UPDATE public.hub_migrations SET checksum = ${old?.checksum ?? ''} WHERE name = '0001_command.sql'`
    } finally {
      await sql.end()
    }
  })
})

describe('hubctl config', () => {
  it('prints effective values, and of secrets only that they are set', async () => {
    const secret = 'a secret of at least 32 characters'
    const ran = await run(['config'], { HUB_NUMBER_HASH_SECRET: secret })
    assert.strictEqual(ran.code, 0, ran.err)
    assert.match(ran.out, /^HUB_NUMBER_HASH_SECRET +\(set\) +environment/mu)
    assert.match(ran.out, /^HUB_MASTER_KEY +\(not set\)/mu)
    assert.match(ran.out, /^HUB_PARTITIONS +2 +environment/mu)
    assert.match(ran.out, /^HUB_DATABASE_POOL +10 +default/mu)
    const all = await run(['config', '--app', 'all', '--json'], { HUB_NUMBER_HASH_SECRET: secret })
    for (const text of [ran.out, all.out]) assert.notInclude(text, secret)
    assert.notInclude(all.out, database.url)
  })

  it('reports whether a process would start, without a server', async () => {
    const nowhere = { HUB_DATA_DIR: '/nonexistent', HUB_PORT: 'unguessable' }
    const ran = await runHubctl(nowhere, ['config', '--app', 'command-api', '--json'])
    assert.strictEqual(ran.code, 1)
    const { mistakes } = ran.json<{ readonly mistakes: ReadonlyArray<string> }>()
    assert.include(mistakes, 'HUB_PORT is something else. Expected: a port, 1 to 65535.')
    assert.notInclude(ran.out + ran.err, 'unguessable')
  })
})
