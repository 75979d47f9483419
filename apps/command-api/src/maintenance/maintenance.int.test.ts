/** A change of the master key: all stored data is re-encrypted. */
import { randomBytes, randomUUID } from 'node:crypto'
import { decodeId } from '@hub/domain'
import { makeSql, Sql, MasterKeyEncryption } from '@hub/store'
import { eventually } from '@hub/testkit'
import { ConfigProvider, Effect, Layer, Logger, Redacted } from 'effect'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { reencryptAll } from './maintenance.ts'
import { call, makeDeployment, type Deployment } from '../testing/harness.ts'

let deployment: Deployment
let api: Awaited<ReturnType<Deployment['start']>>
beforeAll(async () => {
  deployment = await makeDeployment()
  api = await deployment.start()
})
afterAll(async () => {
  await api?.stop()
  await deployment?.remove()
})

describe('a change of the master key', () => {
  it('re-encrypts all data, and reports when no data needs the previous key', async () => {
    const account = await deployment.addAccount()
    const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
      call(api.url, path, { key: account.keys.test, body, headers })
    const made = (await post('/v1/webhook_endpoints', { url: 'https://1.1.1.1/' })).body as { id: string }
    const idempotencyKey = { 'idempotency-key': randomUUID() }
    const rotated = await post(`/v1/webhook_endpoints/${made.id}/rotate_secret`, {}, idempotencyKey)
    expect(rotated.status).toBe(200)
    await eventually(
      async () =>
        (
          await deployment.sql<ReadonlyArray<unknown>>(
            (q) => q`SELECT 1 FROM command.idempotency_keys WHERE answer IS NOT NULL`,
          )
        ).length === 1,
      { withinMs: 10_000 },
    )
    const send = { to: '+79001234567', class: 'service', template: 'order_ready', variables: { order: '1' } }
    const sent = (await post('/v1/messages', send)).body as { id: string }
    const old = await deployment.masterKeyEncryption()
    await deployment.sql(
      (q) => q`INSERT INTO read.personal_data (message_id, recipient, created_at, sealed)
               VALUES (${decodeId('msg', sent.id)}, ${Buffer.alloc(32)}, now(),
                       ${old.encrypt('personal-data', sent.id, Buffer.from('{"to":"+79001234567"}'))})`,
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
    const layer = Layer.mergeAll(sql, masterKey, Logger.layer([]))
    await Effect.runPromise(
      Effect.gen(function* () {
        const { decrypt, keyPrefix } = yield* MasterKeyEncryption
        expect(yield* reencryptAll).toBe(false)
        const rows = yield* Effect.promise(() =>
          deployment.sql<{ of: string; ciphertext: Buffer }[]>(
            (q) => q`
              SELECT 'secret' AS of, secret AS ciphertext FROM webhooks.endpoints
              UNION ALL SELECT 'previous', previous_secret FROM webhooks.endpoints
              UNION ALL SELECT 'sealing', wrapped FROM command.sealing_keys
              UNION ALL SELECT 'personal', sealed FROM read.personal_data`,
          ),
        )
        expect(new Set(rows.map(({ of }) => of))).toEqual(
          new Set(['secret', 'previous', 'sealing', 'personal']),
        )
        for (const { ciphertext, of } of rows) {
          expect(ciphertext.subarray(0, keyPrefix.length), of).toEqual(Buffer.from(keyPrefix))
        }
        const secret = rows.find(({ of }) => of === 'secret')!.ciphertext
        expect((yield* decrypt('webhook-secret', made.id, secret)).toString()).toBe(
          (rotated.body as { secret: string }).secret,
        )
        // The stored response of the rotation contains a secret and has not expired.
        expect(yield* reencryptAll).toBe(false)
        yield* Effect.promise(() =>
          deployment.sql(
            (q) => q`UPDATE command.idempotency_keys SET expires_at = now() - interval '1 second'`,
          ),
        )
        expect(yield* reencryptAll).toBe(true)
      }).pipe(Effect.provide(layer)),
    )
  })
})
