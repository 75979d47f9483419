/** Processes prove that they belong to their hub, with PostgreSQL and Kafka. */
import { createHmac, hkdfSync, randomBytes } from 'node:crypto'
import { Readiness } from '@hub/telemetry'
import {
  eventually,
  freshDatabase,
  type FreshDatabase,
  openDatabase,
  testBrokers,
  topicPrefix,
} from '@hub/testkit'
import { ConfigProvider, Effect, Exit, Layer, Scope } from 'effect'
import { afterEach, assert, beforeEach, describe, it } from 'vitest'
import { MasterKeyEncryption } from '../master-key-encryption.ts'
import { Sql } from '../sql.ts'
import { makeHubProof, NotOfThisHub, retireOtherMasterKeys } from './proof.ts'

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
  const proof = makeHubProof('dispatcher', { waitsForKafka: true })
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
    await sql`
      INSERT INTO command.sealing_keys (id, class, wrapped, usable_until, destroy_after)
      VALUES ('personal-2031-01-01T00:00Z', 'personal', ${old.encrypt('sealing-key', 'personal-2031-01-01T00:00Z', randomBytes(32))}, now(), now() + interval '1 year')`
    assert.strictEqual(await refused({ HUB_MASTER_KEY: key }), 'HUB_MASTER_KEY')
    await started({ HUB_MASTER_KEY: key, HUB_PREVIOUS_MASTER_KEYS: previous })
    assert.strictEqual(await refused({ HUB_MASTER_KEY: key }), 'HUB_PREVIOUS_MASTER_KEYS')
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
      { withinMs: 5000, everyMs: 100 },
    )
  })
})
