/** The master key in a transit engine, with a real server of OpenBao. */
import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { assert, describe, it } from '@effect/vitest'
import { connectionFault } from '@hub/config'
import {
  type EncryptedColumn,
  makeHubProof,
  makeSql,
  MasterKeyEncryption,
  NotOfThisHub,
  reencryptColumn,
  retireOtherMasterKeys,
  Sql,
  type StorageUnavailable,
} from '@hub/store'
import { keyProviderContract, patientKeys } from '@hub/store/testing'
import { Readiness } from '@hub/telemetry'
import {
  eventually,
  type FreshDatabase,
  freshDatabase,
  freePort,
  openDatabase,
  testBrokers,
  topicPrefix,
} from '@hub/testkit'
import { ConfigProvider, Duration, Effect, Exit, Layer, Logger, Redacted, Result, Scope } from 'effect'
import { TestClock } from 'effect/testing'
import { afterAll, beforeAll } from 'vitest'
import { type OpenBao, startOpenBao } from '../support/openbao.ts'

type Environment = Readonly<Record<string, string>>

/** A deadline of statements that a busy machine keeps. */
const PATIENT = Duration.minutes(1)

const found = await startOpenBao()
if ('missing' in found) console.log(`Skipped: ${found.missing}`)
const run = 'missing' in found ? describe.skip : describe
const bao = found as OpenBao
afterAll(async () => {
  if (!('missing' in found)) await found.stop()
})

const folder = mkdtempSync(join(tmpdir(), 'hub-transit-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const layerOf = (environment: Environment) =>
  Layer.fresh(
    MasterKeyEncryption.layer.pipe(
      Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(environment))),
      Layer.provide(Logger.layer([])),
    ),
  )
/** A process with these settings, in the scope of the test. */
const impatientProcessOf = (environment: Environment) =>
  Effect.flatMap(Layer.build(layerOf(environment)), (services) =>
    Effect.provide(Effect.service(MasterKeyEncryption), services),
  )
/** The same, when it is ready. */
const processOf = (environment: Environment) =>
  Effect.gen(function* () {
    const process = patientKeys(yield* impatientProcessOf(environment))
    yield* process.ready
    return process
  })

/** A server that is not a transit engine, for the scope of a test. */
const answering = (answer: RequestListener) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const server = createServer((request, response) => {
          request.resume()
          answer(request, response)
        })
        server.listen(0, '127.0.0.1')
        await once(server, 'listening')
        return server
      }),
      (server) =>
        Effect.sync(() => {
          server.close()
          server.closeAllConnections()
        }),
    ),
    (server) => ({ port: (server.address() as AddressInfo).port }),
  )

/** Also a failed test leaves the server unsealed for the next one. */
const whileSealed = <A, E, R>(body: Effect.Effect<A, E, R>) =>
  Effect.acquireUseRelease(
    Effect.promise(bao.seal),
    () => body,
    () => Effect.promise(bao.unseal),
  )

/** A new transit key, and the settings of a process that uses it with as few rights as possible. */
const newTransitKey = async (): Promise<{ readonly key: string; readonly environment: Environment }> => {
  const key = `hub-${randomUUID()}`
  await bao.newKey(key)
  return {
    key,
    environment: {
      HUB_KEY_PROVIDER: 'transit',
      HUB_TRANSIT_URL: bao.url,
      HUB_TRANSIT_CA_FILE: bao.caFile,
      HUB_TRANSIT_KEY_NAME: key,
      HUB_TRANSIT_TOKEN: await bao.newToken(key, { period: '1h' }),
    },
  }
}
const withoutTransit = (environment: Environment): Environment => ({
  ...environment,
  HUB_KEY_PROVIDER: 'environment',
})
const newKey = (): string => randomBytes(32).toString('base64')

run('a transit engine of OpenBao', () => {
  let own: Environment
  let other: Environment
  beforeAll(async () => {
    own = (await newTransitKey()).environment
    other = (await newTransitKey()).environment
  })
  keyProviderContract('transit', () => ({ own: layerOf(own), other: layerOf(other) }))

  it.live(
    'gets a value to another process with a token of its own, and asks only once for each data key',
    () =>
      Effect.gen(function* () {
        const { environment, key } = yield* Effect.promise(newTransitKey)
        const writer = yield* processOf(environment)
        const token = yield* Effect.promise(() => bao.newToken(key))
        const reader = yield* processOf({ ...environment, HUB_TRANSIT_TOKEN: token })
        const values = [1, 2, 3].map((i) =>
          writer.encrypt('webhook-secret', `we_${i}`, Buffer.from(`secret ${i}`)),
        )
        assert.strictEqual(String(yield* reader.decrypt('webhook-secret', 'we_1', values[0]!)), 'secret 1')
        const others = yield* whileSealed(
          Effect.all([
            reader.decrypt('webhook-secret', 'we_2', values[1]!),
            reader.decrypt('webhook-secret', 'we_3', values[2]!),
          ]),
        )
        assert.deepStrictEqual(others.map(String), ['secret 2', 'secret 3'])
      }).pipe(Effect.scoped),
  )
})

run('a process without the transit engine', () => {
  /** The failure of a process with changed settings, before it is ready. */
  const failureOf = (change: Environment) =>
    Effect.gen(function* () {
      const { environment } = yield* Effect.promise(newTransitKey)
      const failure = yield* Effect.flip(processOf({ ...environment, ...change }))
      const token = environment['HUB_TRANSIT_TOKEN']!
      assert.notInclude(JSON.stringify(failure) + String(failure), token)
      return failure as StorageUnavailable
    }).pipe(Effect.scoped)

  const failures: ReadonlyArray<
    readonly [what: string, change: () => Promise<Environment>, code: string, isRefusal: boolean]
  > = [
    ['the token is wrong', async () => ({ HUB_TRANSIT_TOKEN: 'wrong' }), 'TRANSIT_DENIED', true],
    ['the key is not permitted', async () => ({ HUB_TRANSIT_KEY_NAME: 'another' }), 'TRANSIT_DENIED', true],
    [
      // To encrypt with a missing key would create it, which the policy does not permit.
      'there is no such key',
      async () => {
        const key = `none-${randomUUID()}`
        await bao.permit(key)
        return { HUB_TRANSIT_KEY_NAME: key, HUB_TRANSIT_TOKEN: await bao.newToken(key) }
      },
      'TRANSIT_DENIED',
      true,
    ],
    [
      'the key cannot encrypt',
      async () => {
        const key = `signs-${randomUUID()}`
        await bao.call('POST', `transit/keys/${key}`, { type: 'ed25519' })
        await bao.permit(key)
        return { HUB_TRANSIT_KEY_NAME: key, HUB_TRANSIT_TOKEN: await bao.newToken(key) }
      },
      'TRANSIT_REJECTED',
      true,
    ],
    [
      'the token has a character that no header may have',
      async () => ({ HUB_TRANSIT_TOKEN: 'hvs.ж' }),
      'TRANSIT_DENIED',
      true,
    ],
    ['its authority is unknown', async () => ({ HUB_TRANSIT_CA_FILE: '' }), 'TRANSIT_UNTRUSTED', true],
    [
      'nobody listens',
      async () => ({ HUB_TRANSIT_URL: `https://127.0.0.1:${await freePort()}` }),
      'TRANSIT_UNREACHABLE',
      false,
    ],
  ]
  it.live.each(failures)('says what to do if %s', ([, change, code, isRefusal]) =>
    Effect.gen(function* () {
      const failure = yield* failureOf(yield* Effect.promise(change))
      assert.strictEqual(failure._tag, 'StorageUnavailable')
      assert.strictEqual(failure.detail, code)
      const fault = connectionFault(failure)
      assert.match(fault?.sentence ?? '', /transit engine/u)
      assert.strictEqual(fault?.isRefusal, isRefusal)
    }),
  )

  it.live('does not wait for a server that never answers', () =>
    Effect.gen(function* () {
      const { port } = yield* answering(() => {})
      const { environment } = yield* Effect.promise(newTransitKey)
      const process = yield* impatientProcessOf({
        ...environment,
        HUB_TRANSIT_URL: `http://127.0.0.1:${port}`,
      })
      const failure = yield* Effect.flip(process.ready)
      assert.deepStrictEqual([failure.reason, failure.detail], ['timeout', 'TRANSIT_UNREACHABLE'])
    }).pipe(Effect.scoped),
  )

  it.live('repeats a request on a connection that the server has closed', () =>
    Effect.gen(function* () {
      const used = new Set<Socket>()
      const { port } = yield* answering((request, response) => {
        if (used.has(request.socket)) return request.socket.resetAndDestroy()
        used.add(request.socket)
        return response.end(JSON.stringify({ data: { batch_results: [{ ciphertext: 'vault:v1:AAAA' }] } }))
      })
      const { environment } = yield* Effect.promise(newTransitKey)
      const process = patientKeys(
        yield* impatientProcessOf({ ...environment, HUB_TRANSIT_URL: `http://127.0.0.1:${port}` }),
      )
      const keys = [{ aad: 'a', bytes: randomBytes(32) }]
      for (let time = 1; time <= 3; time++) assert.lengthOf(yield* process.wrap('payload-key', keys), 1)
      assert.strictEqual(used.size, 3)
    }).pipe(Effect.scoped),
  )

  it.effect('renews its token', () =>
    Effect.gen(function* () {
      const { environment } = yield* Effect.promise(newTransitKey)
      yield* processOf(environment)
      yield* TestClock.adjust('30 seconds')
      const token = environment['HUB_TRANSIT_TOKEN']!
      const renewed = yield* Effect.promise(() =>
        eventually(async () => (await bao.call('POST', 'auth/token/lookup', { token }))['last_renewal']),
      )
      assert.isString(renewed)
    }).pipe(Effect.scoped),
  )

  it.live('uses what it has while the server is sealed, and goes on when it is unsealed', () =>
    Effect.gen(function* () {
      const { environment } = yield* Effect.promise(newTransitKey)
      const process = yield* processOf(environment)
      const key = [{ aad: 'a', bytes: randomBytes(32) }]
      const { failure, plain } = yield* whileSealed(
        Effect.gen(function* () {
          const value = process.encrypt('id-token', 'a', Buffer.from('kept'))
          return {
            plain: yield* process.decrypt('id-token', 'a', value),
            failure: yield* Effect.flip(process.wrap('payload-key', key)),
          }
        }),
      )
      assert.strictEqual(plain.toString(), 'kept')
      assert.strictEqual(
        connectionFault(failure)?.sentence,
        'The server of the transit engine is sealed or starts. Unseal it.',
      )
      assert.lengthOf(yield* process.wrap('payload-key', key), 1)
    }).pipe(Effect.scoped),
  )

  it.live('reads the file of the token again', () =>
    Effect.gen(function* () {
      const { environment, key } = yield* Effect.promise(newTransitKey)
      const path = join(folder, key)
      const first = environment['HUB_TRANSIT_TOKEN']!
      writeFileSync(path, first, { mode: 0o400 })
      const { HUB_TRANSIT_TOKEN: _token, ...others } = environment
      const process = yield* processOf({ ...others, HUB_TRANSIT_TOKEN_FILE: path })
      yield* Effect.promise(() => bao.call('POST', 'auth/token/revoke', { token: first }))
      const keys = [{ aad: 'a', bytes: randomBytes(32) }]
      assert.strictEqual((yield* Effect.flip(process.wrap('payload-key', keys))).detail, 'TRANSIT_DENIED')
      rmSync(path)
      writeFileSync(path, `${yield* Effect.promise(() => bao.newToken(key))}\n`, { mode: 0o400 })
      assert.lengthOf(yield* process.wrap('payload-key', keys), 1)
    }).pipe(Effect.scoped),
  )
})

run('a ciphertext that the engine does not decrypt', () => {
  const key = { aad: 'a', bytes: Buffer.alloc(32, 7) }
  /** A process that has proved that it has the key of its hub, a wrapped key, and a value of another process. */
  const started = Effect.gen(function* () {
    const { environment, key: name } = yield* Effect.promise(newTransitKey)
    const process = yield* processOf(environment)
    const [recorded] = yield* process.identify([])
    const [bytes] = yield* process.wrap('payload-key', [key])
    const value = (yield* processOf(environment)).encrypt('webhook-secret', 'we_1', Buffer.from('secret'))
    return { process, name, recorded: recorded!, wrapped: { aad: 'a', bytes: bytes! }, value }
  })
  const problems = (results: ReadonlyArray<Result.Result<Buffer, string>>) =>
    results.map((result) => (Result.isSuccess(result) ? result.success[0] : result.failure))
  const administer = (method: 'POST' | 'DELETE', path: string, body = {}) =>
    Effect.promise(() => bao.call(method, path, body))
  /** Another key with the name of the first one, as on another server. */
  const replaceKey = Effect.fnUntraced(function* (name: string) {
    yield* administer('POST', `transit/keys/${name}/config`, { deletion_allowed: true })
    yield* administer('DELETE', `transit/keys/${name}`)
    yield* administer('POST', `transit/keys/${name}`)
  })

  it.live('waits for a key that was deleted softly, and can be restored', () =>
    Effect.gen(function* () {
      const { name, process, value, wrapped } = yield* started
      yield* administer('DELETE', `transit/keys/${name}/soft-delete`)
      for (const keys of [[wrapped], [wrapped, wrapped]]) {
        const { detail } = yield* Effect.flip(process.unwrap('payload-key', keys))
        assert.strictEqual(detail, 'TRANSIT_REJECTED')
      }
      const failure = yield* Effect.flip(process.decrypt('webhook-secret', 'we_1', value))
      assert.strictEqual(failure._tag, 'StorageUnavailable')
      yield* administer('POST', `transit/keys/${name}/soft-delete-restore`)
      assert.deepStrictEqual(problems(yield* process.unwrap('payload-key', [wrapped])), [7])
      assert.strictEqual(String(yield* process.decrypt('webhook-secret', 'we_1', value)), 'secret')
    }).pipe(Effect.scoped),
  )

  it.live('is not damaged if the server has another key', () =>
    Effect.gen(function* () {
      const { name, process, value, wrapped } = yield* started
      const cut = { aad: 'a', bytes: wrapped.bytes.subarray(0, -1) }
      assert.deepStrictEqual(problems(yield* process.unwrap('payload-key', [cut, wrapped])), ['damaged', 7])
      yield* replaceKey(name)
      for (const keys of [[wrapped], [wrapped, wrapped]]) {
        const results = problems(yield* process.unwrap('payload-key', keys))
        assert.deepStrictEqual(new Set(results), new Set(['unknown_master_key']))
      }
      const failure = yield* Effect.flip(process.decrypt('webhook-secret', 'we_1', value))
      assert.strictEqual(failure._tag, 'DecryptionFailed')
      assert.strictEqual('reason' in failure && failure.reason, 'unknown_master_key')
    }).pipe(Effect.scoped),
  )

  it.effect('shows a running process within a minute that its server has another key', () =>
    Effect.gen(function* () {
      const { name, process, recorded } = yield* started
      const identified = Effect.map(process.identify([recorded]), ([first]) => first?.checkValue)
      assert.strictEqual(yield* identified, recorded.checkValue)
      yield* TestClock.adjust('1 minute')
      assert.strictEqual(yield* whileSealed(identified), recorded.checkValue)
      yield* TestClock.adjust('1 minute')
      assert.strictEqual(yield* identified, recorded.checkValue)
      yield* replaceKey(name)
      yield* TestClock.adjust('1 minute')
      assert.notStrictEqual(yield* identified, recorded.checkValue)
    }).pipe(Effect.scoped),
  )

  const item = (result: object) => ({ data: { batch_results: [result] } })
  const answers: ReadonlyArray<readonly [what: string, status: number, body: unknown, code: string]> = [
    ['an internal error', 500, { errors: ['1 error occurred'] }, 'TRANSIT_500'],
    ['too many requests', 429, { errors: [] }, 'TRANSIT_429'],
    ['an internal error of the item', 400, item({ error: 'failed to read the key' }), 'TRANSIT_REJECTED'],
    ['no reason', 400, { errors: ['encryption key not found'] }, 'TRANSIT_REJECTED'],
    ['nothing', 200, item({}), 'TRANSIT_UNEXPECTED'],
    ['another number of results', 200, { data: { batch_results: [] } }, 'TRANSIT_UNEXPECTED'],
    ['what a proxy says', 200, 'Please log in', 'TRANSIT_UNEXPECTED'],
    [
      'more than any answer has',
      200,
      { ...item({ plaintext: '' }), more: 'x'.repeat(5_000_000) },
      'TRANSIT_UNEXPECTED',
    ],
  ]
  it.live.each(answers)('is not damaged if the server answers %s', ([, status, body, code]) =>
    Effect.gen(function* () {
      const { port } = yield* answering((_request, response) => {
        response.writeHead(status)
        response.end(JSON.stringify(body))
      })
      const { environment } = yield* Effect.promise(newTransitKey)
      const other = { ...environment, HUB_TRANSIT_URL: `http://127.0.0.1:${port}` }
      const process = patientKeys(yield* impatientProcessOf(other))
      const { wrapped } = yield* started
      const { detail } = yield* Effect.flip(process.unwrap('payload-key', [wrapped]))
      assert.strictEqual(detail, code)
    }).pipe(Effect.scoped),
  )
})

const COLUMNS = (table: string): ReadonlyArray<EncryptedColumn> => {
  const row = { table, key: 'id', keyType: 'text', aad: (id: string) => id } as const
  return [
    { ...row, column: 'secret', purpose: 'webhook-secret' },
    { ...row, column: 'wrapped', purpose: 'sealing-key' },
  ]
}

run('stored data', () => {
  let database: FreshDatabase
  let sqlLayer: Layer.Layer<Sql>
  beforeAll(async () => {
    database = await freshDatabase()
    sqlLayer = Layer.effect(Sql, makeSql(Redacted.make(database.url), 2, 'transit-test', PATIENT))
  })
  afterAll(() => database.drop())

  const ROWS = 1200
  const fill = Effect.fnUntraced(function* (table: string, process: MasterKeyEncryption['Service']) {
    const sql = yield* Sql
    const ids = Array.from({ length: ROWS }, (_, i) => `row-${i}`)
    const keys = yield* process.wrap(
      'sealing-key',
      ids.map((aad) => ({ aad, bytes: Buffer.alloc(32, aad) })),
    )
    const secrets = ids.map((id) => process.encrypt('webhook-secret', id, Buffer.from(id)))
    yield* sql.run(async (q) => {
      await q`CREATE TABLE ${q(table)} (id text PRIMARY KEY, secret bytea, wrapped bytea)`
      await q`INSERT INTO ${q(table)}
        SELECT id, decode(secret, 'hex'), decode(wrapped, 'hex')
          FROM unnest(${ids}::text[], ${secrets.map((b) => b.toString('hex'))}::text[],
                      ${keys.map((b) => b.toString('hex'))}::text[]) AS n (id, secret, wrapped)`
    })
  })
  const reencrypt = Effect.fnUntraced(function* (table: string, environment: Environment) {
    const process = yield* processOf(environment)
    const passes = yield* Effect.forEach(COLUMNS(table), (column) =>
      Effect.provideService(reencryptColumn(column), MasterKeyEncryption, process),
    )
    return passes.map(({ reencrypted, unreadable }) => [reencrypted, unreadable])
  })
  /** How many secrets and keys a process reads with their right content. */
  const readable = Effect.fnUntraced(function* (table: string, environment: Environment) {
    const sql = yield* Sql
    const process = yield* processOf(environment)
    const rows = yield* sql.run(
      (q) => q<{ id: string; secret: Buffer; wrapped: Buffer }[]>`SELECT * FROM ${q(table)}`,
    )
    let secrets = 0
    for (const { id, secret } of rows) {
      const plain = yield* Effect.exit(process.decrypt('webhook-secret', id, secret))
      if (Exit.isSuccess(plain) && plain.value.toString() === id) secrets++
    }
    const keys = yield* process.unwrap(
      'sealing-key',
      rows.map(({ id, wrapped }) => ({ aad: id, bytes: wrapped })),
    )
    const right = keys.filter(
      (key, i) => Result.isSuccess(key) && key.success.equals(Buffer.alloc(32, rows[i]!.id)),
    )
    return [secrets, right.length]
  })
  const ALL = [
    [ROWS, 0],
    [ROWS, 0],
  ]
  const NOTHING = [
    [0, 0],
    [0, 0],
  ]

  it.live('moves from a key of the environment into the transit engine, and back', () =>
    Effect.gen(function* () {
      const { environment: transit } = yield* Effect.promise(newTransitKey)
      const [before, after] = [newKey(), newKey()]
      yield* fill('moved', yield* processOf({ HUB_MASTER_KEY: before }))
      const during = { ...transit, HUB_PREVIOUS_MASTER_KEYS: before }
      assert.deepStrictEqual(yield* reencrypt('moved', during), ALL)
      assert.deepStrictEqual(yield* reencrypt('moved', during), NOTHING)
      assert.deepStrictEqual(yield* readable('moved', transit), [ROWS, ROWS])
      assert.deepStrictEqual(yield* readable('moved', { HUB_MASTER_KEY: before }), [0, 0])
      // A process that only knows the key of the engine reads it before the exchange of the settings.
      const knows = { ...withoutTransit(transit), HUB_MASTER_KEY: after }
      assert.deepStrictEqual(yield* readable('moved', knows), [ROWS, ROWS])
      assert.deepStrictEqual(yield* reencrypt('moved', knows), ALL)
      assert.deepStrictEqual(yield* readable('moved', { HUB_MASTER_KEY: after }), [ROWS, ROWS])
      assert.deepStrictEqual(yield* readable('moved', transit), [0, 0])
    }).pipe(Effect.provide(sqlLayer), Effect.scoped),
  )

  it.live('gets under a new version of the transit key, so that the old one can end', () =>
    Effect.gen(function* () {
      const { environment, key } = yield* Effect.promise(newTransitKey)
      const process = yield* processOf(environment)
      yield* fill('rotated', process)
      const prefix = yield* process.currentPrefix
      yield* Effect.promise(() => bao.call('POST', `transit/keys/${key}/rotate`))
      assert.isFalse((yield* process.currentPrefix).equals(prefix))
      assert.deepStrictEqual(yield* readable('rotated', environment), [ROWS, ROWS])
      const stays = process.encrypt('webhook-secret', 'x', Buffer.from('new'))
      assert.deepStrictEqual(stays.subarray(0, 5), yield* process.currentPrefix)
      // With a token that may not decrypt: the hub sees no key.
      const policy = `path "transit/rewrap/${key}" { capabilities = ["update"] }
        path "transit/encrypt/${key}" { capabilities = ["update"] }`
      yield* Effect.promise(() => bao.call('POST', `sys/policies/acl/${key}-rewrap`, { policy }))
      const token = yield* Effect.promise(() => bao.newToken(key, { policies: [`${key}-rewrap`] }))
      assert.deepStrictEqual(yield* reencrypt('rotated', { ...environment, HUB_TRANSIT_TOKEN: token }), ALL)
      assert.deepStrictEqual(yield* reencrypt('rotated', environment), NOTHING)
      yield* Effect.promise(() =>
        bao.call('POST', `transit/keys/${key}/config`, { min_decryption_version: 2 }),
      )
      assert.deepStrictEqual(yield* readable('rotated', environment), [ROWS, ROWS])
    }).pipe(Effect.provide(sqlLayer), Effect.scoped),
  )

  it.live('under a version that the engine does not decrypt any more is counted, and left', () =>
    Effect.gen(function* () {
      const { environment, key } = yield* Effect.promise(newTransitKey)
      yield* fill('ended', yield* processOf(environment))
      yield* Effect.promise(() => bao.call('POST', `transit/keys/${key}/rotate`))
      yield* Effect.promise(() =>
        bao.call('POST', `transit/keys/${key}/config`, { min_decryption_version: 2 }),
      )
      const none = [
        [0, ROWS],
        [0, ROWS],
      ]
      assert.deepStrictEqual(yield* reencrypt('ended', environment), none)
      yield* Effect.promise(() =>
        bao.call('POST', `transit/keys/${key}/config`, { min_decryption_version: 1 }),
      )
      assert.deepStrictEqual(yield* reencrypt('ended', environment), ALL)
    }).pipe(Effect.provide(sqlLayer), Effect.scoped),
  )
})

run('the proof of a process', () => {
  const PREFIX = topicPrefix()
  const HASH_SECRET = 'a hash secret of 32 characters or more'
  /** Of packages/store/src/identity/tables.ts. */
  const IDENTITY_LOCK = 4_907_226
  /** A hub on a database of its own. */
  const withHub = async (
    body: (hub: {
      readonly started: (environment: Environment) => Promise<Scope.Closeable>
      readonly refused: (environment: Environment) => Promise<string>
      readonly retire: (environment: Environment) => Promise<boolean>
      readonly sql: ReturnType<typeof openDatabase>
      readonly start: (
        environment: Environment,
      ) => Promise<{ readonly failure: NotOfThisHub | null; readonly scope: Scope.Closeable }>
      readonly seen: () => Promise<unknown>
      readonly recorded: () => Promise<ReadonlyArray<string>>
      readonly stop: (scope: Scope.Closeable) => Promise<void>
    }) => Promise<void>,
  ) => {
    const database = await freshDatabase()
    const sql = openDatabase(database.url)
    const scopes: Array<Scope.Closeable> = []
    const layersOf = (environment: Environment) =>
      Layer.fresh(
        Layer.mergeAll(Sql.layer('transit-test'), MasterKeyEncryption.layer, Readiness.layer).pipe(
          Layer.provideMerge(
            ConfigProvider.layer(
              ConfigProvider.fromUnknown({
                HUB_DATABASE_URL: database.url,
                HUB_KAFKA_BROKERS: testBrokers().join(','),
                HUB_TOPIC_PREFIX: PREFIX,
                HUB_NUMBER_HASH_SECRET: HASH_SECRET,
                ...environment,
              }),
            ),
          ),
        ),
      )
    const start = (environment: Environment) => {
      const scope = Effect.runSync(Scope.make())
      scopes.push(scope)
      const { start: proof } = makeHubProof('dispatcher', { beforeKafka: 'waits' })
      return Effect.runPromise(
        Effect.gen(function* () {
          const services = yield* Layer.buildWithScope(layersOf(environment), scope)
          const failure = yield* proof.pipe(
            Effect.as(null),
            Effect.catchTag('NotOfThisHub', (error) => Effect.succeed(error)),
            Effect.provide(services),
            Scope.provide(scope),
          )
          return { failure, scope }
        }),
      )
    }
    const stop = (scope: Scope.Closeable) => Effect.runPromise(Scope.close(scope, Exit.void))
    /** On a busy machine, processes report themselves later than after the 30 s in which they count as running. */
    const seen = () => sql`UPDATE command.hub_processes SET seen_at = now() + interval '1 minute'`
    try {
      await body({
        // A process that stopped while PostgreSQL was busy counts as running for half a minute.
        started: (environment) =>
          eventually(async () => {
            const { failure, scope } = await start(environment)
            assert.isNull(failure)
            return scope
          }),
        refused: async (environment) => {
          await seen()
          const { failure } = await start(environment)
          assert.instanceOf(failure, NotOfThisHub)
          return failure?.mismatches.map(({ variable }) => variable).join() ?? ''
        },
        retire: (environment) =>
          Effect.runPromise(Effect.provide(retireOtherMasterKeys, layersOf(environment)).pipe(Effect.scoped)),
        recorded: async () => {
          const rows = await sql<{ value: string }[]>`
            SELECT value FROM command.hub_identity WHERE kind = 'master_key' ORDER BY value`
          return rows.map(({ value }) => value)
        },
        seen,
        sql,
        start,
        stop,
      })
    } finally {
      for (const scope of scopes) await stop(scope)
      await sql.end()
      await database.drop()
    }
  }

  it('accepts the move into a transit engine and back in the documented order, and refuses others', async () => {
    const { environment: transit } = await newTransitKey()
    const { environment: foreign } = await newTransitKey()
    const key = newKey()
    await withHub(async ({ refused, retire, seen, started, stop }) => {
      const first = await started({ HUB_MASTER_KEY: key })
      const moved = { ...transit, HUB_PREVIOUS_MASTER_KEYS: key }
      // Nobody knows the transit key yet.
      assert.strictEqual(await refused(moved), 'HUB_TRANSIT_KEY_NAME')
      const knows = { ...withoutTransit(transit), HUB_MASTER_KEY: key }
      const [second, third] = await Promise.all([started(knows), started(knows)])
      // A process that does not know it still runs.
      assert.strictEqual(await refused(moved), 'HUB_KEY_PROVIDER')
      await stop(first)
      assert.strictEqual(await refused({ ...foreign, HUB_PREVIOUS_MASTER_KEYS: key }), 'HUB_TRANSIT_KEY_NAME')
      assert.strictEqual(await refused(transit), 'HUB_PREVIOUS_MASTER_KEYS')
      const fourth = await started(moved)
      assert.strictEqual(await refused({ HUB_MASTER_KEY: key }), 'HUB_TRANSIT_URL')
      await seen()
      assert.isFalse(await retire(moved))
      await stop(second)
      await stop(third)
      await eventually(() => retire(moved))
      const fifth = await started(transit)
      await stop(fourth)

      const next = newKey()
      const announces = { ...transit, HUB_PREVIOUS_MASTER_KEYS: next }
      const back = { ...withoutTransit(transit), HUB_MASTER_KEY: next }
      assert.strictEqual(await refused(back), 'HUB_MASTER_KEY')
      const sixth = await started(announces)
      await stop(fifth)
      const seventh = await started(back)
      await stop(sixth)
      assert.strictEqual(await refused({ HUB_MASTER_KEY: next }), 'HUB_TRANSIT_URL')
      await eventually(() => retire(back))
      const last = await started({ HUB_MASTER_KEY: next })
      for (const scope of [seventh, last]) await stop(scope)
    })
  })

  it('lets several processes be the first, and stores nothing that proves the token or the key', async () => {
    const { environment } = await newTransitKey()
    await withHub(async ({ recorded, sql, start }) => {
      const starts: Array<ReturnType<typeof start>> = []
      // None of them can record its key before two have made one.
      await sql.begin(async (q) => {
        await q`SELECT pg_advisory_xact_lock(${IDENTITY_LOCK})`
        starts.push(start(environment), start(environment), start(environment))
        await eventually(async () => {
          const waiting = await q`
            SELECT FROM pg_locks JOIN pg_database d ON d.oid = database
             WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()`
          return waiting.length >= 2
        })
      })
      for (const { failure } of await Promise.all(starts)) assert.isNull(failure)
      const values = await recorded()
      assert.lengthOf(values, 1)
      assert.match(values[0]!, /^transit:[0-9a-f]{64} [A-Za-z0-9+/]+=*$/u)
    })
  })

  it('holds after the versions at its first start have ended', async () => {
    const { environment, key } = await newTransitKey()
    await withHub(async ({ recorded, retire, started }) => {
      const running = await started(environment)
      const [before] = await recorded()
      await bao.call('POST', `transit/keys/${key}/rotate`)
      await eventually(() => retire(environment))
      const [after] = await recorded()
      assert.notStrictEqual(after, before)
      assert.strictEqual(after?.split(' ')[0], before?.split(' ')[0])
      await bao.call('POST', `transit/keys/${key}/config`, { min_decryption_version: 2 })
      await started(environment)
      assert.isDefined(running)
    })
  })
})
