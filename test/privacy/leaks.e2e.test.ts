/**
 * Searches everything that a busy hub stores for a number and the text of a code, in every
 * encoding. Before the erasure of the recipient no store contains them in plain text. After it no
 * store contains them.
 */
import { randomBytes } from 'node:crypto'
import { appendFileSync } from 'node:fs'
import {
  deadLetterTopic,
  decodeRecord,
  EventLog,
  layerEventLog,
  layerTopicReader,
  PayloadKeyTopics,
  topicNames,
} from '@hub/kafka'
import { encodeId, recipientHash } from '@hub/domain'
import {
  registerRetentionJobs,
  eraseRecipient,
  RETENTION_JOBS,
  makeSql,
  readErasures,
  runRetentionStep,
  PayloadEncryption,
  Sql,
  storedInboundContext,
  MasterKeyEncryption,
} from '@hub/store'
import { ANSWERED_WITHIN_MS, eventually, makeCertificateAuthority, openDatabase } from '@hub/testkit'
import { startHub, type TestHub } from '../support/hub.ts'
import { ConfigProvider, Effect, Layer, Redacted, Result } from 'effect'
import { TestClock } from 'effect/testing'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Client, send } from '../support/client.ts'
import { findEncodings, findLeaks, needlesOfNumber, needlesOfText } from '../support/secret-search.ts'
import { readTopic } from '../support/read-topic.ts'
import { type HubAdmin, makeHubAdmin } from '../support/hub-admin.ts'
import { readAllStoredData } from '../support/stored-data.ts'

const NUMBER = '+79161837465'
const OTHER = '+79161837499'
/** Ten characters that occur nowhere else. */
const CODE = 'QX7K2M9ZP4'
const ORDER = 'ЩЪ-5521-ЖЮ'
const secrets = [...needlesOfNumber(NUMBER), ...needlesOfText(CODE)]

/** A static header of a subscription, and the key of its client certificate. */
const TOKEN = '7Xq2mZ9pLwT4'
const clientCertificate = await (await makeCertificateAuthority()).issue(['hub'])
/** The Base64 of the private value of the key. 36 octets of PKCS #8 precede it (RFC 5958, RFC 5915). */
const KEY_PART = /[A-Za-z0-9+/]{48}/u.exec(clientCertificate.key.split('\n')[1]?.slice(48) ?? '')?.[0] ?? ''
const credentials = [...needlesOfText(TOKEN), ...needlesOfText(KEY_PART)]
const everySecret = [...secrets, ...needlesOfText(ORDER), ...credentials]

const masterKey = randomBytes(32).toString('base64')
const hashSecret = randomBytes(32).toString('hex')
const hash = recipientHash(hashSecret, NUMBER)

let hub: TestHub
let admin: HubAdmin
let live: Client
let test: Client
beforeAll(async () => {
  hub = await startHub({
    environment: {
      HUB_MASTER_KEY: masterKey,
      HUB_NUMBER_HASH_SECRET: hashSecret,
      HUB_WEBHOOK_ALLOWED_HOSTS: '127.0.0.1',
    },
    apiRps: 10_000,
    ownServers: true,
  })
  admin = makeHubAdmin(hub)
  const account = await admin.createAccount({
    live: { flood_pause_seconds: 0, flood_per_hour: 1000, flood_per_day: 1000 },
    test: {},
  })
  live = account.live
  test = account.test
})
afterAll(async () => {
  await admin?.close()
  await hub?.stop()
})

const EVERY = { everyMs: 100 }
const untilFinal = (apiClient: Client, id: string) =>
  eventually(async () => {
    const { body } = await apiClient.get(`/v1/messages/${id}`)
    return body.final === true ? body : null
  }, EVERY)

const code = (to: string, ref: string) => ({
  ...send('otp', to),
  variables: { code: CODE },
  client_ref: ref,
})
const order = (to: string, ref: string) => ({
  ...send('service', to),
  variables: { order: ORDER },
  client_ref: ref,
})

/** Sends an inbound message from the recipient. */
const receiveInbound = (text: string) =>
  eventually(async () => {
    const response = await fetch(`${hub.describe().operator_url}/inbound`, {
      method: 'POST',
      body: JSON.stringify({ from: NUMBER, to: 'HUB', text }),
    })
    await response.arrayBuffer()
    return response.status === 202
  }, EVERY)

const inbound = () => readTopic(hub.describe().kafka.brokers, topicNames('').operatorReports)

const kafkaConnection = () => ({ brokers: hub.describe().kafka.brokers, clientId: 'leaks-test' })

/**
 * Runs an effect with the stores of the hub, as its processes open them. The clock is the test
 * clock.
 */
const withStores = <A, E>(
  effect: Effect.Effect<A, E, Sql | PayloadEncryption | MasterKeyEncryption>,
  now = Date.now(),
): Promise<A> =>
  Effect.runPromise(
    Effect.andThen(TestClock.setTime(now), effect).pipe(
      Effect.provide(
        PayloadEncryption.layer.pipe(
          Layer.provide(PayloadKeyTopics.layer(topicNames(''))),
          Layer.provide(
            Layer.merge(
              layerTopicReader({ connection: kafkaConnection() }),
              layerEventLog({ connection: kafkaConnection(), partitions: 6 }),
            ),
          ),
          Layer.provideMerge(
            Layer.mergeAll(
              Layer.effect(Sql, makeSql(Redacted.make(hub.describe().database_url), 4, 'leaks-test')),
              MasterKeyEncryption.layer.pipe(
                Layer.provide(
                  ConfigProvider.layer(ConfigProvider.fromUnknown({ HUB_MASTER_KEY: masterKey })),
                ),
              ),
            ),
          ),
        ),
      ),
      Effect.provide(TestClock.layer()),
    ) as Effect.Effect<A, E>,
  )

/**
 * Decrypts all payloads in tables and topics with the existing keys. Returns the locations that
 * contain a secret.
 */
const findEncryptedSecrets = (now = Date.now()) =>
  withStores(
    Effect.gen(function* () {
      const sql = yield* Sql
      const payloadEncryption = yield* PayloadEncryption
      const payloads: Array<{ where: string; keyId: string; aad: string; ciphertext: Uint8Array }> = []
      const atRest = yield* sql.run(
        (q) => q<{ table: string; id: string; key: string | null; sealed: Buffer | null }[]>`
          SELECT 'personal data' AS table, message_id AS id, sealing_key AS key, sealed FROM read.personal_data
          UNION ALL SELECT 'the ledger', message_id, sealing_key, sealed FROM command.acceptances`,
      )
      for (const { id, key, sealed, table } of atRest) {
        if (key !== null && sealed !== null) {
          payloads.push({ where: table, keyId: key, aad: encodeId('msg', id), ciphertext: sealed })
        }
      }
      const inboundMessages = yield* sql.run(
        (q) => q<{ id: string; key: string; sealed: Buffer }[]>`
          SELECT id, sealing_key AS key, sealed FROM command.inbound_messages WHERE sealed IS NOT NULL`,
      )
      for (const { id, key, sealed } of inboundMessages) {
        payloads.push({
          where: 'inbound messages',
          keyId: key,
          aad: storedInboundContext(id),
          ciphertext: sealed,
        })
      }
      const { brokers } = hub.describe().kafka
      const { acceptedOtp, acceptedService, operatorReports } = topicNames('')
      for (const topic of [acceptedOtp, acceptedService, operatorReports]) {
        for (const { value } of yield* Effect.promise(() => readTopic(brokers, topic))) {
          const record = Result.getOrThrow(decodeRecord(value))
          if (record.type === 'MessageAccepted') {
            payloads.push({
              where: topic,
              keyId: record.payloadKey,
              aad: record.messageId,
              ciphertext: record.ciphertext,
            })
          }
          if (record.type === 'InboundMessageReceived') {
            const aad = `inbound:${record.operator}:${record.operatorId}`
            payloads.push({ where: topic, keyId: record.payloadKey, aad, ciphertext: record.ciphertext })
          }
          if (
            record.type === 'DeliveryReportReceived' &&
            record.rawKey !== null &&
            record.rawCiphertext !== null
          ) {
            const aad = `report:${record.operator}:${record.operatorId}`
            payloads.push({ where: topic, keyId: record.rawKey, aad, ciphertext: record.rawCiphertext })
          }
        }
      }
      const found = new Set<string>()
      for (const { aad, keyId, ciphertext, where } of payloads) {
        const plain = yield* payloadEncryption.decrypt(keyId, aad, ciphertext)
        if (plain !== null && findEncodings(plain, everySecret).length > 0) found.add(where)
      }
      return [...found].toSorted()
    }),
    now,
  )

describe('a busy hub', () => {
  const sent: Array<{ readonly apiClient: Client; readonly id: string }> = []

  it('runs every retention job', async () => {
    const sql = openDatabase(hub.describe().database_url)
    try {
      await eventually(async () => {
        const rows = await sql<{ job: string; last_finished_at: Date | null; failures: number }[]>`
          SELECT job, last_finished_at, failures FROM command.retention_jobs`
        expect(rows.map(({ job }) => job).toSorted()).toEqual(
          RETENTION_JOBS.map(({ name }) => name).toSorted(),
        )
        expect(rows.filter(({ failures }) => failures > 0)).toEqual([])
        return rows.every(({ last_finished_at }) => last_finished_at !== null)
      }, EVERY)
      const metrics = await (await fetch(hub.describe().metrics_urls.projector)).text()
      expect(metrics).toContain('hub_retention_last_finished_timestamp_seconds{task="sealing_keys"}')
    } finally {
      await sql.end()
    }
  })

  it('stores no number, no code and no credentials of a subscription in plain text', async () => {
    expect(KEY_PART).toHaveLength(48)
    const subscription = {
      // Nobody listens there, so attempts fail and are logged.
      url: 'https://127.0.0.1:9/hooks',
      headers: { Authorization: `Bearer ${TOKEN}` },
      client_certificate: { certificate: clientCertificate.cert, private_key: clientCertificate.key },
    }
    const subscribed = await live.post('/v1/webhook_endpoints', subscription, {
      'idempotency-key': 'a subscription',
    })
    expect(subscribed.status).toBe(201)
    expect(JSON.stringify(subscribed.body)).not.toContain(TOKEN)
    const path = `/v1/webhook_endpoints/${subscribed.body.id}`
    // Refused requests must not be quoted either: a value as a name, and the key as a certificate.
    for (const bad of [
      { headers: { [`Bearer ${TOKEN}`]: 'Authorization' } },
      { headers: { 'X-Key': `${TOKEN}\n` } },
      { client_certificate: { ...subscription.client_certificate, certificate: clientCertificate.key } },
    ]) {
      const refused = await live.request('PATCH', path, {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(bad),
      })
      expect(refused.status).toBe(422)
      expect(JSON.stringify(refused.body)).not.toContain(TOKEN)
      expect(JSON.stringify(refused.body)).not.toContain(KEY_PART)
    }
    expect((await live.post(`${path}/test`, {})).body).toMatchObject({ status: 'failed' })
    for (const apiClient of [live, test]) {
      for (const body of [code(NUMBER, 'a code'), order(NUMBER, 'an order'), order(OTHER, 'of another')]) {
        const answer = await apiClient.post('/v1/messages', body, {
          'idempotency-key': `key of ${body.client_ref}`,
        })
        expect(answer.status).toBe(202)
        sent.push({ apiClient, id: answer.body.id })
      }
      const batch = await apiClient.post('/v1/messages/batch', {
        messages: [order(NUMBER, 'in a batch'), code(NUMBER, 'a code in a batch')],
      })
      expect(batch.status).toBe(202)
      for (const { message } of batch.body.results)
        if (message !== undefined) sent.push({ apiClient, id: message.id })
      // Refused requests must not be quoted either.
      expect((await apiClient.post('/v1/messages', code(`${NUMBER}0`, 'bad'))).status).toBe(422)
      await apiClient.post('/v1/messages', {
        ...code(NUMBER, 'worse'),
        template: 'nothing',
        variables: { [NUMBER]: CODE },
      })
      await apiClient.request('POST', '/v1/messages', { body: `{"to": "${NUMBER}", "text": "${CODE}"` })
      await apiClient.get(`/v1/messages/${encodeURIComponent(NUMBER)}?to=${encodeURIComponent(NUMBER)}`)
    }
    for (const { apiClient, id } of sent) await untilFinal(apiClient, id)
    await receiveInbound(`${CODE}: ${NUMBER}`)
    await eventually(
      async () => (await inbound()).some(({ type }) => type === 'InboundMessageReceived'),
      EVERY,
    )
    const sql = openDatabase(hub.describe().database_url)
    await eventually(
      async () => (await sql`SELECT 1 FROM command.inbound_messages WHERE sealed IS NOT NULL`).length > 0,
      EVERY,
    )
    await sql.end()

    const pieces = await readAllStoredData(hub)
    for (const location of [
      'read.personal_data',
      'command.acceptances',
      'hub.accepted.otp.v1',
      'Redis',
      'log ',
      'metrics',
    ]) {
      expect(
        pieces.some(({ where }) => where.startsWith(location)),
        `${location} was searched`,
      ).toBe(true)
    }
    expect(findLeaks(pieces, everySecret)).toEqual([])
    // The encrypted payloads contain them.
    expect(await findEncryptedSecrets()).toEqual([
      'hub.accepted.otp.v1',
      'hub.accepted.service.v1',
      'hub.operator-reports.v1',
      'inbound messages',
      'personal data',
      'the ledger',
    ])
  })

  it('erases a recipient: stored data at once, and encrypted copies with their keys', async () => {
    const last = await live.post('/v1/messages', order(NUMBER, 'under way'))
    expect(last.status).toBe(202)
    const receipt = await withStores(eraseRecipient(hash))
    expect(receipt).toMatchObject({ recipient: hash, finishedAt: null })
    expect(receipt.personalData).toBeGreaterThan(0)
    expect(receipt.acceptances).toBeGreaterThan(0)

    // A message in flight becomes final, and shows no personal data.
    const body = await untilFinal(live, last.body.id)
    expect(body).toMatchObject({ status: 'delivered', to: '', text: null, variables: null })
    for (const { apiClient, id } of sent) {
      const message = (await apiClient.get(`/v1/messages/${id}`)).body
      expect(message).toMatchObject({ id, status: 'delivered' })
      expect(['', '+7916***7499']).toContain(message.to)
    }
    const ofAnother = sent.map(({ apiClient, id }) => apiClient.get(`/v1/messages/${id}`))
    const masks = (await Promise.all(ofAnother)).map((answer) => answer.body.to)
    expect(
      masks.filter((to) => to !== ''),
      'other recipients are not erased',
    ).toEqual(['+7916***7499', '+7916***7499'])

    // A projector that reads everything again does not restore the data.
    const sql = openDatabase(hub.describe().database_url)
    try {
      await sql`UPDATE read.checkpoints SET position = 0, epoch = epoch + 1`
      await hub.app('projector').restart()
      await eventually(
        async () =>
          (await sql`SELECT 1 FROM read.checkpoints WHERE position = 0 AND topic LIKE '%accepted.service%'`)
            .length < 6,
        EVERY,
      )
      expect(
        await sql`SELECT 1 FROM read.personal_data WHERE recipient = decode(${hash}, 'hex')`,
      ).toHaveLength(0)
    } finally {
      await sql.end()
    }
    expect(findLeaks(await readAllStoredData(hub), secrets)).toEqual([])

    // Three days later the payload keys are destroyed, and so are all encrypted copies in the
    // topics.
    const later = Date.now() + 72 * 3_600_000
    await withStores(
      Effect.gen(function* () {
        yield* registerRetentionJobs()
        for (;;) {
          const outcome = yield* runRetentionStep()
          expect(outcome.type).not.toBe('failed')
          const [receipt] = yield* readErasures(hash)
          if (receipt?.finishedAt !== null) break
          yield* TestClock.adjust('1 minute')
        }
      }),
      later,
    )
    const [done] = await withStores(readErasures(hash))
    expect(done?.payloadKeys).toBeGreaterThan(0)
    const left = await withStores(
      Effect.flatMap(Sql, (sql) =>
        sql.run(
          (q) => q<{ count: number }[]>`
            SELECT count(*)::integer AS count FROM command.sealing_keys WHERE class IN ('otp', 'service')`,
        ),
      ),
    )
    expect(left).toEqual([{ count: 0 }])
    // The order of the other recipient is still stored.
    expect(await findEncryptedSecrets(later)).toEqual(['personal data'])
    expect(findLeaks(await readAllStoredData(hub), everySecret)).toEqual([])
  })

  it('does not hide a planted number in a table, a topic, Redis or a log file from the search', async () => {
    const sql = openDatabase(hub.describe().database_url)
    const redis = new Redis(hub.describe().redis_url)
    const { deadLetter, log } = {
      deadLetter: deadLetterTopic(topicNames('').messages),
      log: hub.app('projector').logs,
    }
    try {
      await sql`UPDATE command.senders SET registration = ${JSON.stringify({ by: Buffer.from(NUMBER).toString('base64') })}::text::jsonb`
      await redis.set('planted', `x${NUMBER}`)
      appendFileSync(log, `{"code":"${Buffer.from(CODE).toString('hex')}"}\n`)
      await Effect.runPromise(
        Effect.flatMap(EventLog, (log) =>
          log.append(
            [
              {
                topic: deadLetter,
                key: 'planted',
                type: 'Planted',
                id: 'planted',
                occurredAt: 0,
                value: Buffer.from(NUMBER, 'utf16le'),
              },
            ],
            { deadlineMs: ANSWERED_WITHIN_MS },
          ),
        ).pipe(
          Effect.provide(
            layerEventLog({
              connection: kafkaConnection(),
              partitions: 6,
            }),
          ),
        ),
      )
      const leaks = findLeaks(await readAllStoredData(hub), secrets)
      expect(leaks.some((leak) => leak.startsWith('command.senders.registration: base64 at'))).toBe(true)
      expect(leaks).toContain(`${deadLetter} Planted, encoded: utf16le`)
      expect(leaks).toContain('Redis planted: utf8')
      expect(leaks.some((leak) => leak.startsWith('log ') && leak.endsWith(': hex'))).toBe(true)
    } finally {
      redis.disconnect()
      await sql.end()
    }
  })
})
