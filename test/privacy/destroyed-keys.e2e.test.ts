/**
 * Searches all files of a hub for the payload keys of its messages, with the master key: tables and
 * their dead rows, the write-ahead log, a base backup and the segments of Kafka. Only Kafka contains
 * the keys, and after their time no file does. So nobody can decrypt the payloads in the topics.
 */
import { randomBytes } from 'node:crypto'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { decodeRecord, topicNames } from '@hub/kafka'
import { MasterKeyEncryption } from '@hub/store'
import { eventually, openDatabase } from '@hub/testkit'
import { ConfigProvider, Effect, Layer, Result } from 'effect'
import kafkajs from 'kafkajs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { backUpDatabase } from '../support/backup.ts'
import { client, send } from '../support/client.ts'
import { startHub, type TestHub } from '../support/hub.ts'
import { readTopic } from '../support/read-topic.ts'
import { decryptPayload, findWrappedKeys, type FoundKey } from '../support/wrapped-keys.ts'

const KEY_TOPICS = ['hub.sealing-keys.otp.v1', 'hub.sealing-keys.service.v1']
const CODE = '4719-0356'
const MESSAGES = 20
const WITHIN = { everyMs: 250 }

const masterKey = randomBytes(32).toString('base64')
const folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'keys-'))
let hub: TestHub

beforeAll(async () => {
  // If the tests run as root, PostgreSQL runs as another user.
  chmodSync(folder, 0o755)
  hub = await startHub({ environment: { HUB_MASTER_KEY: masterKey }, apiRps: 10_000, ownServers: true })
})
afterAll(async () => {
  await hub?.stop()
  rmSync(folder, { recursive: true, force: true })
})

interface Payload {
  readonly keyId: string
  readonly message: string
  readonly ciphertext: Uint8Array
}

const payloadsOf = async (topic: string): Promise<ReadonlyArray<Payload>> =>
  (await readTopic(hub.describe().kafka.brokers, topic)).flatMap(({ value }) => {
    const record = Result.getOrThrow(decodeRecord(value))
    return record.type === 'MessageAccepted'
      ? [{ keyId: record.payloadKey, message: record.messageId, ciphertext: record.ciphertext }]
      : []
  })

/** Sets the retention of the keys. With 1 ms, Kafka deletes them at its next check. */
const setRetention = async (ms: number): Promise<void> => {
  const admin = new kafkajs.Kafka({
    brokers: [...hub.describe().kafka.brokers],
    logLevel: kafkajs.logLevel.NOTHING,
  }).admin()
  await admin.connect()
  await admin.alterConfigs({
    validateOnly: false,
    resources: KEY_TOPICS.map((name) => ({
      type: kafkajs.ConfigResourceTypes.TOPIC,
      name,
      configEntries: [
        { name: 'cleanup.policy', value: 'delete' },
        { name: 'retention.ms', value: String(ms) },
        { name: 'file.delete.delay.ms', value: '1' },
      ],
    })),
  })
  await admin.disconnect()
}

describe('the payload keys of messages', () => {
  it('are only in Kafka, and after their time in no file, so that no payload can be decrypted', async () => {
    const { base_url, database_url, keys } = hub.describe()
    const api = client(base_url, keys.test)
    const ids: Array<string> = []
    for (let i = 0; i < MESSAGES; i++) {
      const to = `+791618374${String(i).padStart(2, '0')}`
      const { body, status } = await api.post('/v1/messages', {
        ...send(i % 2 === 0 ? 'otp' : 'service', to),
        variables: i % 2 === 0 ? { code: CODE } : { order: CODE },
      })
      expect(status).toBe(202)
      ids.push(body.id)
    }
    for (const id of ids) {
      await eventually(async () => (await api.get(`/v1/messages/${id}`)).body.final === true, WITHIN)
    }
    await backUpDatabase(database_url, join(folder, 'postgres'))

    const { acceptedOtp, acceptedService } = topicNames('')
    const payloads = [...(await payloadsOf(acceptedOtp)), ...(await payloadsOf(acceptedService))]
    expect(payloads).toHaveLength(MESSAGES)
    const keyIds = [...new Set(payloads.map(({ keyId }) => keyId))]
    const sql = openDatabase(database_url)
    const stored = await sql<ReadonlyArray<{ id: string; class: string }>>`
      SELECT id, class FROM command.sealing_keys`
    const [server] = await sql<[{ data_directory: string }]>`SHOW data_directory`
    await sql.end()
    const folders = [server.data_directory, hub.dataDir, folder]
    const atRest = stored.filter((row) => row.class === 'personal').map(({ id }) => id)

    const encryption = await Effect.runPromise(
      MasterKeyEncryption.pipe(
        Effect.provide(
          MasterKeyEncryption.layer.pipe(
            Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ HUB_MASTER_KEY: masterKey }))),
          ),
        ),
      ),
    )
    const search = (wanted: ReadonlyArray<string>, where = folders): ReadonlyArray<FoundKey> =>
      where.flatMap((searched) => findWrappedKeys(searched, encryption, wanted))
    const placesOf = (found: ReadonlyArray<FoundKey>) =>
      [
        ...new Set(
          found.map(({ file }) => {
            if (file.startsWith(folder)) return 'base backup'
            if (file.includes('/pg_wal/')) return 'write-ahead log'
            if (file.startsWith(server.data_directory)) return 'tables'
            return file.startsWith(join(hub.dataDir, 'kafka')) ? 'Kafka' : file
          }),
        ),
      ].toSorted()
    /** The payloads that can be decrypted with the found keys. */
    const readable = (found: ReadonlyArray<FoundKey>) =>
      payloads.filter(({ keyId, message, ciphertext }) => {
        const key = found.find(({ id }) => id === keyId)
        return key !== undefined && decryptPayload(key.key, message, ciphertext).includes(CODE)
      })

    // The search finds the keys of data at rest, which are in PostgreSQL.
    expect(placesOf(search(atRest))).toEqual(['base backup', 'tables', 'write-ahead log'])
    // While the keys exist, they are in Kafka only.
    const existing = search(keyIds)
    expect(placesOf(existing)).toEqual(['Kafka'])
    expect(readable(existing)).toHaveLength(MESSAGES)

    await setRetention(1)
    // All files of Kafka are gigabytes of prepared index files. They are read when the topics have no key.
    const ofKeys = existing.map(({ file }) => dirname(file))
    const segments = [...new Set(ofKeys)].filter((path) => KEY_TOPICS.some((topic) => path.includes(topic)))
    expect(segments.length).toBeGreaterThan(0)
    await eventually(async () => search(keyIds, segments).length === 0, { ...WITHIN, everyMs: 1000 })
    const left = search(keyIds)
    console.log(
      `${existing.length} copies of ${keyIds.length} keys in Kafka before, ${left.length} copies in any file after; ` +
        `${readable(left).length} of ${MESSAGES} payloads readable`,
    )
    expect(left).toEqual([])
    expect(readable(left)).toEqual([])

    await setRetention(3_600_000)
    // A new process cannot read them either, and new messages get new keys.
    await hub.app('command-api').restart()
    await hub.app('dispatcher').restart()
    const fresh = await api.post('/v1/messages', send('otp', '+79161837499'))
    expect(fresh.status).toBe(202)
    await eventually(
      async () => (await api.get(`/v1/messages/${fresh.body.id}`)).body.status === 'delivered',
      WITHIN,
    )
  }, 300_000)
})
