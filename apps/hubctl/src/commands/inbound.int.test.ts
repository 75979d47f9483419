/** `hubctl inbound` over PostgreSQL. The rows are those of a dispatcher. */
import { randomBytes, randomUUID } from 'node:crypto'
import { recipientHash } from '@hub/domain'
import { layerSimulatedPayloadKeys } from '@hub/kafka/testing'
import {
  encodePayload,
  makeSql,
  MasterKeyEncryption,
  PayloadEncryption,
  Sql,
  storedInboundContext,
} from '@hub/store'
import { freshDatabase, testBrokers } from '@hub/testkit'
import { ConfigProvider, Effect, Layer, Redacted } from 'effect'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import { runHubctl } from '../testing/run-hubctl.ts'

const SECRET = 'a secret of at least 32 characters for tests'
const DAY = 86_400_000
const NUMBER = '+79001234567'
const OTHER = '+79007654321'
const masterKey = randomBytes(32).toString('base64')
let database: Awaited<ReturnType<typeof freshDatabase>>

/** Stores a message as the dispatcher does. */
const store = (number: string, text: string, at: number) =>
  Effect.runPromise(
    Effect.gen(function* () {
      const encryption = yield* PayloadEncryption
      const sql = yield* Sql
      const id = randomUUID()
      const key = yield* encryption.keyOfDay(at)
      if (key === null) return assert.fail('the day is not a year ago')
      const sealed = key.encrypt(storedInboundContext(id), encodePayload({ to: number, text }))
      yield* sql.run(
        (q) => q`
          INSERT INTO command.inbound_messages
            (id, recipient, operator, service_address, received_at, sealing_key, sealed)
          VALUES (${id}, decode(${recipientHash(SECRET, number)}, 'hex'), 'smpp', 'HUB', ${new Date(at)},
                  ${key.id}, ${sealed})`,
      )
    }).pipe(
      Effect.provide(
        PayloadEncryption.layer.pipe(
          Layer.provideMerge(
            Layer.mergeAll(
              Layer.effect(Sql, makeSql(Redacted.make(database.url), 1, 'inbound-test')),
              layerSimulatedPayloadKeys,
              MasterKeyEncryption.layer.pipe(
                Layer.provide(
                  ConfigProvider.layer(ConfigProvider.fromUnknown({ HUB_MASTER_KEY: masterKey })),
                ),
              ),
            ),
          ),
        ),
      ),
    ),
  )

const run = (...args: ReadonlyArray<string>) =>
  runHubctl(
    {
      HUB_DATABASE_URL: database.url,
      HUB_KAFKA_BROKERS: testBrokers().join(','),
      HUB_MASTER_KEY: masterKey,
      HUB_NUMBER_HASH_SECRET: SECRET,
      HUBCTL_ACTOR: 'a test',
    },
    args,
  )

beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database.drop())

describe('inbound messages', () => {
  it('are readable for 90 days and masked afterwards, and reading them is audited', async () => {
    const now = Date.now()
    await store(NUMBER, 'Перезвоните мне', now - DAY)
    await store(NUMBER, 'Где мой заказ?', now - 91 * DAY)
    await store(OTHER, 'Спасибо', now - 2 * DAY)
    const listed = async (...args: ReadonlyArray<string>) => {
      const ran = await run('inbound', 'list', ...args, '--json')
      assert.strictEqual(ran.code, 0, ran.err)
      return ran
        .json<{ readonly data: ReadonlyArray<Readonly<Record<string, unknown>>> }>()
        .data.map(({ masked, number, text }) => [number, text, masked])
    }
    const [readable, theirs] = [
      [NUMBER, 'Перезвоните мне', false],
      [OTHER, 'Спасибо', false],
    ]
    const masked = ['+7900***4567', '***', true]
    assert.deepStrictEqual(await listed(), [readable, theirs, masked])
    assert.deepStrictEqual(await listed('--recipient', NUMBER), [readable, masked])
    assert.deepStrictEqual(await listed('--recipient', recipientHash(SECRET, OTHER)), [theirs])
    assert.deepStrictEqual(await listed('--limit', '1'), [readable])

    const audit = (await run('audit', 'list', '--json')).out
    assert.include(audit, 'inbound list')
    assert.notInclude(audit, NUMBER)
  })
})
