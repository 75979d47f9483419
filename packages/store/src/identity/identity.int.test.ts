/** Processes prove that they belong to their hub, with PostgreSQL and Kafka. */
import { createHmac, hkdfSync, randomBytes } from 'node:crypto'
import { createTopics, topicCatalogue } from '@hub/kafka'
import { Readiness } from '@hub/telemetry'
import {
  eventually,
  freshDatabase,
  type FreshDatabase,
  openDatabase,
  testBrokers,
  testDatabaseUrl,
  topicPrefix,
} from '@hub/testkit'
import { ConfigProvider, Effect, Exit, Layer, Scope } from 'effect'
import postgres from 'postgres'
import { afterEach, assert, beforeEach, describe, it } from 'vitest'
import { MasterKeyEncryption } from '../master-key-encryption.ts'
import { Sql } from '../sql.ts'
import { makeHubProof, NotOfThisHub, recordDatabase, retireOtherMasterKeys } from './proof.ts'

const PREFIX = topicPrefix()
const HASH_SECRET = 'a secret of the tests, long enough for it'
const newKey = () => randomBytes(32).toString('base64')

let database: FreshDatabase
let sql: ReturnType<typeof openDatabase>
let scopes: Array<Scope.Closeable>
beforeEach(async () => {
  database = await freshDatabase()
  sql = openDatabase(database.url)
  scopes = []
})
afterEach(async () => {
  for (const scope of scopes) await Effect.runPromise(Scope.close(scope, Exit.void))
  await sql.end()
  await database.drop()
})

const environment = (more: Readonly<Record<string, string>>) => ({
  HUB_DATABASE_URL: database.url,
  HUB_KAFKA_BROKERS: testBrokers().join(','),
  HUB_TOPIC_PREFIX: PREFIX,
  HUB_NUMBER_HASH_SECRET: HASH_SECRET,
  ...more,
})
const layerOf = (more: Readonly<Record<string, string>>) =>
  Layer.fresh(
    Layer.mergeAll(Sql.layer('identity-test'), MasterKeyEncryption.layer, Readiness.layer).pipe(
      Layer.provideMerge(ConfigProvider.layer(ConfigProvider.fromUnknown(environment(more)))),
    ),
  )

/** Starts the proof of a process. Returns its scope, or the mismatch. */
const start = async (more: Readonly<Record<string, string>>) => {
  const scope = Effect.runSync(Scope.make())
  scopes.push(scope)
  const proof = makeHubProof('dispatcher', { beforeKafka: 'waits' })
  return Effect.runPromise(
    Effect.gen(function* () {
      const services = yield* Layer.buildWithScope(layerOf(more), scope)
      const failure = yield* proof.start.pipe(
        Effect.as(null),
        Effect.catchTag('NotOfThisHub', (error) => Effect.succeed(error)),
        Effect.provide(services),
        Scope.provide(scope),
      )
      return { failure, scope, lost: proof.lost }
    }),
  )
}
const stop = ({ scope }: { readonly scope: Scope.Closeable }) =>
  Effect.runPromise(Scope.close(scope, Exit.void))
const refused = async (more: Readonly<Record<string, string>>): Promise<string> => {
  const { failure } = await start(more)
  assert.instanceOf(failure, NotOfThisHub)
  return failure?.mismatches.map(({ variable }) => variable).join() ?? ''
}
const started = async (more: Readonly<Record<string, string>>) => {
  const one = await start(more)
  assert.isNull(one.failure)
  return one
}

describe('the proof of a process', () => {
  it('stores check values that only the secrets can make, and none of the secrets', async () => {
    const key = newKey()
    await started({ HUB_MASTER_KEY: key })
    const rows = await sql<{ kind: string; value: string }[]>`
      SELECT kind, value FROM command.hub_identity ORDER BY kind`
    // HKDF (RFC 5869) and HMAC (RFC 2104) with the labels of docs/security.md.
    const derived = hkdfSync(
      'sha256',
      Buffer.from(key, 'base64'),
      Buffer.alloc(0),
      'sms-delivery-hub/check-value',
      32,
    )
    assert.deepStrictEqual(
      rows.map(({ kind }) => kind),
      ['kafka', 'master_key', 'number_hash_secret'],
    )
    assert.strictEqual(rows[1]?.value, Buffer.from(derived).toString('hex'))
    const digest = createHmac('sha256', HASH_SECRET).update('sms-delivery-hub/check-value').digest('hex')
    assert.strictEqual(rows[2]?.value, digest)
  })

  it('lets exactly one of two strangers be the first on an empty hub', async () => {
    const keys = [newKey(), newKey(), newKey(), newKey()]
    const all = await Promise.all(keys.map((key) => start({ HUB_MASTER_KEY: key })))
    assert.lengthOf(
      all.filter(({ failure }) => failure === null),
      1,
    )
    const [{ count } = { count: 0 }] = await sql<{ count: number }[]>`
      SELECT count(*)::int AS count FROM command.hub_identity WHERE kind = 'master_key'`
    assert.strictEqual(count, 1)
  })

  it('refuses other secrets and other servers, and names the setting', async () => {
    const key = newKey()
    await started({ HUB_MASTER_KEY: key })
    assert.strictEqual(await refused({ HUB_MASTER_KEY: newKey() }), 'HUB_MASTER_KEY')
    assert.strictEqual(
      await refused({ HUB_MASTER_KEY: key, HUB_NUMBER_HASH_SECRET: `${HASH_SECRET}.` }),
      'HUB_NUMBER_HASH_SECRET',
    )
    assert.strictEqual(await refused({ HUB_MASTER_KEY: key, HUB_TOPIC_PREFIX: 'x.' }), 'HUB_TOPIC_PREFIX')
    await sql`UPDATE command.hub_identity SET value = ${`another-cluster ${PREFIX}`} WHERE kind = 'kafka'`
    assert.strictEqual(await refused({ HUB_MASTER_KEY: key }), 'HUB_KAFKA_BROKERS')
    assert.strictEqual(await refused({ HUB_MASTER_KEY: newKey() }), 'HUB_DATABASE_URL')
  })

  it('refuses another master key on a hub of an earlier version, whose data names its key', async () => {
    const [key, previous] = [newKey(), newKey()]
    const old = await Effect.runPromise(
      Effect.provide(
        Effect.flatMap(MasterKeyEncryption, (encryption) => Effect.succeed(encryption)),
        layerOf({ HUB_MASTER_KEY: previous }),
      ),
    )
    const id = 'personal-2031-01-01T00:00Z'
    const [wrapped] = await Effect.runPromise(old.wrap('sealing-key', [{ aad: id, bytes: randomBytes(32) }]))
    await sql`
      INSERT INTO command.sealing_keys (id, class, wrapped, usable_until, destroy_after)
      VALUES (${id}, 'personal', ${wrapped!}, now(), now() + interval '1 year')`
    assert.strictEqual(await refused({ HUB_MASTER_KEY: key }), 'HUB_MASTER_KEY')
    await started({ HUB_MASTER_KEY: key, HUB_PREVIOUS_MASTER_KEYS: previous })
    assert.strictEqual(await refused({ HUB_MASTER_KEY: key }), 'HUB_PREVIOUS_MASTER_KEYS')
  })

  it('refuses another number of partitions than that of the topics, also of a hub of an earlier version', async () => {
    const settings = { HUB_MASTER_KEY: newKey(), HUB_TOPIC_PREFIX: topicPrefix() }
    const catalogue = topicCatalogue({
      prefix: settings.HUB_TOPIC_PREFIX,
      partitions: 2,
      replicationFactor: 1,
    })
    await Effect.runPromise(
      createTopics(
        { brokers: testBrokers(), clientId: 'identity-test' },
        catalogue.filter(({ topic }) => topic.endsWith('hub.messages.v1')),
      ),
    )
    const recorded = async () =>
      (await sql`SELECT value FROM command.hub_identity WHERE kind = 'kafka'`)[0]?.['value'] as string
    assert.strictEqual(await refused({ ...settings, HUB_PARTITIONS: '3' }), 'HUB_PARTITIONS')
    await started({ ...settings, HUB_PARTITIONS: '2' })
    const value = await recorded()
    assert.match(value, / 2$/u)
    assert.strictEqual(await refused({ ...settings, HUB_PARTITIONS: '1' }), 'HUB_PARTITIONS')
    await sql`UPDATE command.hub_identity SET value = ${value.slice(0, -2)} WHERE kind = 'kafka'`
    assert.strictEqual(await refused({ ...settings, HUB_PARTITIONS: '3' }), 'HUB_PARTITIONS')
    await started({ ...settings, HUB_PARTITIONS: '2' })
    assert.strictEqual(await recorded(), value)
  })

  it('ends a running process whose connections lead to another hub', async () => {
    const key = newKey()
    const { lost } = await started({ HUB_MASTER_KEY: key })
    // As after a failover of the name to the database of another hub.
    await sql`UPDATE command.hub_identity SET value = 'of another hub' WHERE kind = 'number_hash_secret'`
    const error = await Effect.runPromise(Effect.flip(lost))
    assert.strictEqual(error.mismatches[0]?.variable, 'HUB_NUMBER_HASH_SECRET')
  })
})

describe('the database of a hub', () => {
  const key = newKey()
  let settings: Readonly<Record<string, string>>
  let admin: ReturnType<typeof openDatabase>
  const others: Array<FreshDatabase> = []
  beforeEach(async () => {
    admin = openDatabase(testDatabaseUrl())
    const prefix = topicPrefix()
    settings = { HUB_MASTER_KEY: key, HUB_TOPIC_PREFIX: prefix }
    const catalogue = topicCatalogue({ prefix, partitions: 1, replicationFactor: 1 })
    await Effect.runPromise(
      createTopics(
        { brokers: testBrokers(), clientId: 'identity-test' },
        catalogue.filter(({ topic }) => topic.endsWith('hub.database.v1')),
      ),
    )
  })
  afterEach(async () => {
    await Promise.all(others.splice(0).map(({ drop }) => drop()))
    await admin.end()
  })

  const empty = async (): Promise<FreshDatabase> => {
    const other = await freshDatabase()
    others.push(other)
    return other
  }
  /** A copy with all rows of the hub, in the same server. PostgreSQL copies only while nobody is connected. */
  const clone = async (): Promise<FreshDatabase> => {
    const [from, to] = [nameOf(database.url), `${nameOf(database.url)}_clone`]
    await admin`ALTER DATABASE ${admin(from)} ALLOW_CONNECTIONS false`
    await admin`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ${from}`
    await eventually(
      async () => {
        const sessions = await admin`SELECT 1 FROM pg_stat_activity WHERE datname = ${from}`
        return sessions.length === 0
      },
      { everyMs: 20 },
    )
    await admin`CREATE DATABASE ${admin(to)} TEMPLATE ${admin(from)}`
    await admin`ALTER DATABASE ${admin(from)} ALLOW_CONNECTIONS true`
    await admin`ALTER DATABASE ${admin(to)} ALLOW_CONNECTIONS true`
    const url = Object.assign(new URL(database.url), { pathname: `/${to}` }).toString()
    const other = {
      url,
      drop: async () => void (await admin`DROP DATABASE IF EXISTS ${admin(to)} WITH (FORCE)`),
    }
    others.push(other)
    return other
  }
  const nameOf = (url: string): string => new URL(url).pathname.slice(1)

  it('is the one of its first process: an empty one and a clone are refused, and nothing is written to them', async () => {
    await stop(await started(settings))
    const [blank, copy] = [await empty(), await clone()]
    for (const other of [blank, copy]) {
      const { failure } = await start({ ...settings, HUB_DATABASE_URL: other.url })
      assert.match(
        failure?.message ?? '',
        /^HUB_DATABASE_URL leads to the database .* hubctl restore database/u,
      )
    }
    const opened = openDatabase(blank.url)
    assert.lengthOf(await opened`SELECT 1 FROM command.hub_identity`, 0)
    assert.lengthOf(await opened`SELECT 1 FROM command.hub_processes`, 0)
    await opened.end()
    await started(settings)
  })

  it('is named by the identifiers of PostgreSQL, so that a standby has the same name', async () => {
    await started(settings)
    const other = await empty()
    const { failure } = await start({ ...settings, HUB_DATABASE_URL: other.url })
    // The system identifier of the replication protocol (IDENTIFY_SYSTEM), and the first part of the paths
    // of the files of a database.
    const replication = postgres(testDatabaseUrl(), {
      max: 1,
      connection: { replication: 'database' },
      fetch_types: false,
    })
    const [system] = await replication.unsafe('IDENTIFY_SYSTEM').simple()
    await replication.end()
    const oidOf = async (url: string): Promise<string> => {
      const opened = openDatabase(url)
      const [row] = await opened<{ path: string }[]>`
        SELECT pg_relation_filepath('command.hub_identity') AS path`
      await opened.end()
      return row?.path.split('/')[1] ?? ''
    }
    const name = async (url: string) => `${String(system?.['systemid'])}/${await oidOf(url)}`
    assert.include(failure?.message, `leads to the database ${await name(other.url)},`)
    assert.include(failure?.message, `this hub uses ${await name(database.url)}.`)
  })

  it('can be another one from then on, when staff accept it', async () => {
    await stop(await started(settings))
    const copy = await clone()
    const moved = { ...settings, HUB_DATABASE_URL: copy.url }
    const { failure } = await start(moved)
    const [name] = /(?<=leads to the database )[\d/]+/u.exec(failure?.message ?? '') ?? []
    assert.isDefined(name)
    assert.isTrue(
      await Effect.runPromise(
        Effect.provide(
          recordDatabase('identity-test', name),
          ConfigProvider.layer(ConfigProvider.fromUnknown(environment(settings))),
        ),
      ),
    )
    await started(moved)
    assert.strictEqual(await refused(settings), 'HUB_DATABASE_URL', 'the database before')
  })

  it('is looked for again: a process ends when its name leads to a clone', async () => {
    const { lost } = await started(settings)
    const copy = await clone()
    const [original, other] = [nameOf(database.url), nameOf(copy.url)]
    await sql.end()
    await admin`ALTER DATABASE ${admin(original)} ALLOW_CONNECTIONS false`
    await admin`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ${original}`
    const rename = async (from: string, to: string) => {
      await eventually(
        () =>
          admin`ALTER DATABASE ${admin(from)} RENAME TO ${admin(to)}`.then(
            () => true,
            () => false,
          ),
        { everyMs: 20 },
      )
    }
    await rename(original, `${original}_before`)
    others.push({
      url: '',
      drop: async () =>
        void (await admin`DROP DATABASE IF EXISTS ${admin(`${original}_before`)} WITH (FORCE)`),
    })
    await rename(other, original)
    const error = await Effect.runPromise(Effect.flip(lost))
    assert.strictEqual(error.mismatches[0]?.variable, 'HUB_DATABASE_URL')
  })

  it('is not compared while Kafka lacks the topic, as after an upgrade without hubctl topics apply', async () => {
    const without = { HUB_MASTER_KEY: key, HUB_TOPIC_PREFIX: topicPrefix() }
    await stop(await started(without))
    await started({ ...without, HUB_DATABASE_URL: (await empty()).url })
  })
})

describe('a rotation of the master key', () => {
  const retire = (more: Readonly<Record<string, string>>) =>
    Effect.runPromise(Effect.provide(retireOtherMasterKeys, layerOf(more)))

  it('works in the documented order, and every other order is refused', async () => {
    const [first, second] = [newKey(), newKey()]
    const before = { HUB_MASTER_KEY: first }
    const step1 = { HUB_MASTER_KEY: first, HUB_PREVIOUS_MASTER_KEYS: second }
    const step2 = { HUB_MASTER_KEY: second, HUB_PREVIOUS_MASTER_KEYS: first }
    const step3 = { HUB_MASTER_KEY: second }
    const [a, b] = [await started(before), await started(before)]
    assert.strictEqual(await refused(step2), 'HUB_MASTER_KEY', 'step 2 before step 1')
    assert.strictEqual(await refused(step3), 'HUB_MASTER_KEY', 'both steps at once')

    await stop(a)
    const a1 = await started(step1)
    assert.strictEqual(await refused(step2), 'HUB_MASTER_KEY', 'step 2 while a process lacks the new key')
    await stop(b)
    const b1 = await started(step1)
    assert.strictEqual(await refused(step3), 'HUB_PREVIOUS_MASTER_KEYS', 'step 3 before step 2')

    await stop(a1)
    const a2 = await started(step2)
    assert.strictEqual(await refused(before), 'HUB_PREVIOUS_MASTER_KEYS', 'back to the time before step 1')
    assert.strictEqual(
      await refused(step3),
      'HUB_PREVIOUS_MASTER_KEYS',
      'step 3 while data needs the old key',
    )
    assert.isFalse(await retire(step2), 'a running process still encrypts with the old key')
    await stop(b1)
    await started(step2)
    assert.isTrue(await retire(step2))

    await stop(a2)
    await started(step3)
    assert.strictEqual(await refused(before), 'HUB_MASTER_KEY', 'the old key after the rotation')
    assert.strictEqual(await refused({ HUB_MASTER_KEY: newKey() }), 'HUB_MASTER_KEY')
  })

  it('does not wait for processes that were killed, after half a minute', async () => {
    const [first, second] = [newKey(), newKey()]
    await started({ HUB_MASTER_KEY: first })
    await sql`INSERT INTO command.hub_processes (id, app, master_keys, seen_at)
              VALUES (gen_random_uuid(), 'projector', '{}', now() - interval '31 seconds')`
    await stop(await started({ HUB_MASTER_KEY: first, HUB_PREVIOUS_MASTER_KEYS: second }))
    await sql`UPDATE command.hub_processes SET seen_at = now() - interval '31 seconds'`
    await eventually(
      async () => {
        const { failure } = await start({ HUB_MASTER_KEY: second, HUB_PREVIOUS_MASTER_KEYS: first })
        return failure === null
      },
      { everyMs: 100 },
    )
  })
})
