/** The jobs of maintenance: re-encryption after a change of the master key, and the wait for moderation. */
import { randomBytes, randomUUID } from 'node:crypto'
import { decodeId } from '@hub/domain'
import { layerEventLog, layerTopicReader, PayloadKeyTopics } from '@hub/kafka'
import { layerSimulatedPayloadKeys } from '@hub/kafka/testing'
import { makeSql, Sql, MasterKeyEncryption } from '@hub/store'
import { eventually, makeCertificateAuthority } from '@hub/testkit'
import { ConfigProvider, Effect, Layer, Logger, Metric, Redacted } from 'effect'
import { describe, expect, it } from 'vitest'
import { observePendingModeration, reencryptAll } from './maintenance.ts'
import { type Api, call, type Deployment, startBeforeTests } from '../testing/harness.ts'

let deployment: Deployment
let api: Api
startBeforeTests((started) => ({ deployment, api } = started))

describe('a change of the master key', () => {
  it('re-encrypts all data, and reports when no data needs the previous key', async () => {
    const account = await deployment.addAccount()
    const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
      call(api.url, path, { key: account.keys.test, body, headers })
    const { cert, key } = await (await makeCertificateAuthority()).issue(['hub'])
    const created = await post('/v1/webhook_endpoints', {
      url: 'https://1.1.1.1/',
      headers: { Authorization: 'Bearer of a test' },
      client_certificate: { certificate: cert, private_key: key },
    })
    const made = created.body as { id: string }
    const idempotencyKey = { 'idempotency-key': randomUUID() }
    // Twice, so that three secrets sign.
    await post(`/v1/webhook_endpoints/${made.id}/rotate_secret`, {})
    const rotated = await post(`/v1/webhook_endpoints/${made.id}/rotate_secret`, {}, idempotencyKey)
    expect(rotated.status).toBe(200)
    await eventually(
      async () =>
        (
          await deployment.sql<ReadonlyArray<unknown>>(
            (q) => q`SELECT 1 FROM command.idempotency_keys WHERE answer IS NOT NULL`,
          )
        ).length === 1,
    )
    const send = { to: '+79001234567', class: 'service', template: 'order_ready', variables: { order: '1' } }
    const sent = (await post('/v1/messages', send)).body as { id: string }
    const old = await deployment.masterKeyEncryption()
    await deployment.sql(
      (q) => q`INSERT INTO read.personal_data (message_id, recipient, created_at, sealed)
               VALUES (${decodeId('msg', sent.id)}, ${Buffer.alloc(32)}, now(),
                       ${old.encrypt('personal-data', sent.id, Buffer.from('{"to":"+79001234567"}'))})`,
    )
    const [wrapped] = await Effect.runPromise(
      old.wrap('sealing-key', [{ aad: 'report-x', bytes: randomBytes(32) }]),
    )
    await deployment.sql(
      (q) => q`INSERT INTO command.sealing_keys (id, class, wrapped, usable_until, destroy_after)
               VALUES ('report-x', 'report', ${wrapped!}, now(), now())`,
    )

    const masterKey = MasterKeyEncryption.layer.pipe(
      Layer.provide(
        ConfigProvider.layer(
          ConfigProvider.fromUnknown({
            HUB_MASTER_KEY: randomBytes(32).toString('base64'),
            HUB_PREVIOUS_MASTER_KEYS: deployment.masterKey,
          }),
        ),
      ),
    )
    const sql = Layer.effect(Sql, makeSql(Redacted.make(deployment.databaseUrl), 2, 're-encryption-test'))
    const { connection, topics } = deployment
    const keyTopics = PayloadKeyTopics.layer(topics).pipe(
      Layer.provide(
        Layer.merge(layerTopicReader({ connection }), layerEventLog({ connection, partitions: 1 })),
      ),
    )
    const layer = Layer.mergeAll(sql, masterKey, keyTopics, Logger.layer([]))
    await Effect.runPromise(
      Effect.gen(function* () {
        const { currentPrefix, decrypt } = yield* MasterKeyEncryption
        const prefix = yield* currentPrefix
        expect(yield* reencryptAll).toBe(false)
        const rows = yield* Effect.promise(() =>
          deployment.sql<{ of: string; ciphertext: Buffer }[]>(
            (q) => q`
              SELECT 'secret' AS of, secret AS ciphertext FROM webhooks.endpoints
              UNION ALL SELECT 'previous', previous_secret FROM webhooks.endpoints
              UNION ALL SELECT 'older', older_secret FROM webhooks.endpoints
              UNION ALL SELECT 'headers', headers FROM webhooks.endpoints
              UNION ALL SELECT 'certificate', client_certificate FROM webhooks.endpoints
              UNION ALL SELECT 'sealing', wrapped FROM command.sealing_keys
              UNION ALL SELECT 'personal', sealed FROM read.personal_data`,
          ),
        )
        expect(new Set(rows.map(({ of }) => of))).toEqual(
          new Set(['secret', 'previous', 'older', 'headers', 'certificate', 'sealing', 'personal']),
        )
        for (const { ciphertext, of } of rows) {
          expect(ciphertext.subarray(0, prefix.length), of).toEqual(prefix)
        }
        const secret = rows.find(({ of }) => of === 'secret')!.ciphertext
        expect((yield* decrypt('webhook-secret', made.id, secret)).toString()).toBe(
          (rotated.body as { secret: string }).secret,
        )
        const headers = rows.find(({ of }) => of === 'headers')!.ciphertext
        expect((yield* decrypt('webhook-headers', made.id, headers)).toString()).toBe(
          '["Authorization","Bearer of a test"]',
        )
        const certificate = rows.find(({ of }) => of === 'certificate')!.ciphertext
        expect(
          JSON.parse((yield* decrypt('webhook-client-certificate', made.id, certificate)).toString()),
        ).toEqual({ certificate: cert, privateKey: key })
        // The stored response of the rotation contains a secret and has not expired.
        expect(yield* reencryptAll).toBe(false)
        yield* Effect.promise(() =>
          deployment.sql(
            (q) => q`UPDATE command.idempotency_keys SET expires_at = now() - interval '1 second'`,
          ),
        )
        // The payload key of the message is in its topic until Kafka deletes it.
        expect(yield* reencryptAll).toBe(false)
        expect(yield* Effect.provide(reencryptAll, layerSimulatedPayloadKeys)).toBe(true)
      }).pipe(Effect.provide(layer)),
    )
  })
})

describe('the wait for moderation', () => {
  const DAY_SECONDS = 86_400
  /** What `/metrics` shows, by kind, after a run of the job. */
  const measured = () =>
    Effect.runPromise(
      observePendingModeration.pipe(
        Effect.andThen(Metric.snapshot),
        Effect.map(
          (all) =>
            Object.fromEntries(
              all.flatMap(({ attributes, id, state, type }) =>
                type === 'Gauge' && id === 'hub_moderation_oldest_pending_seconds'
                  ? [[attributes?.['kind'], Number(state.value)]]
                  : [],
              ),
            ) as { readonly template: number; readonly sender: number },
        ),
        Effect.provide(
          Layer.effect(Sql, makeSql(Redacted.make(deployment.databaseUrl), 1, 'moderation-test')),
        ),
        Effect.provide(Logger.layer([])),
      ),
    )

  it('is the age of the oldest template and of the oldest sender without a decision', async () => {
    const account = await deployment.addAccount()
    const create = async (key: string, path: string, body: unknown) => {
      const made = await call(api.url, path, { key, body })
      expect(made.status).toBe(201)
      return (made.body as { id: string }).id
    }
    const { live, test } = account.keys
    const template = { class: 'service', sender: 'Waiting', body: 'Ready' }
    const sender = await create(live, '/v1/senders', { name: 'Waiting' })
    const older = await create(live, '/v1/templates', { ...template, name: 'older' })
    const younger = await create(live, '/v1/templates', { ...template, name: 'younger' })
    // Test mode waits for nothing.
    await create(test, '/v1/senders', { name: 'Waiting' })
    const age = (table: string, prefix: 'snd' | 'tpl', id: string, days: number) =>
      deployment.sql(
        (q) => q`UPDATE ${q(table)} SET created_at = now() - make_interval(days => ${days})
                  WHERE id = ${decodeId(prefix, id)}`,
      )
    await age('command.senders', 'snd', sender, 3)
    await age('command.templates', 'tpl', older, 5)
    await age('command.templates', 'tpl', younger, 1)
    // The app runs the job, too, so a run may show the state before the last change.
    const wholeDays = ({ sender, template }: Awaited<ReturnType<typeof measured>>) => ({
      template: Math.floor(template / DAY_SECONDS),
      sender: Math.floor(sender / DAY_SECONDS),
    })
    const shows = (expected: { readonly template: number; readonly sender: number }) =>
      eventually(async () => {
        expect(wholeDays(await measured())).toEqual(expected)
        return true
      })
    await shows({ template: 5, sender: 3 })
    await deployment.sql(
      (q) => q`UPDATE command.templates SET status = 'declined' WHERE id = ${decodeId('tpl', older)}`,
    )
    await shows({ template: 1, sender: 3 })
    await deployment.sql((q) => q`UPDATE command.templates SET status = 'approved'`)
    await deployment.sql((q) => q`UPDATE command.senders SET status = 'registered'`)
    await eventually(async () => {
      expect(await measured()).toEqual({ template: 0, sender: 0 })
      return true
    })
  })
})
