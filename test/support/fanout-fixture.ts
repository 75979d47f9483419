/**
 * A fixture with the fan-out process as it is deployed, on its own database and topics. Tests insert
 * the subscriptions and backlogs that the other apps would create.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { openSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decodeId, encodeId, newId } from '@hub/domain'
import { createTopics, topicCatalogue } from '@hub/kafka'
import { nodeFlags, programFile } from '@hub/local-stack'
import { MasterKeyEncryption } from '@hub/store'
import {
  type CertificateAuthority,
  eventually,
  freePort,
  freshDatabase,
  makeCertificateAuthority,
  openDatabase,
} from '@hub/testkit'
import { ConfigProvider, Effect } from 'effect'
import type { Sql } from 'postgres'

export const FANOUT_PARTITIONS = 6
const MASTER_KEY = randomBytes(32).toString('base64')
/** Queries of the fixture have ended by then. */
const END_WITHIN_SECONDS = 5

export interface Servers {
  readonly brokers: ReadonlyArray<string>
  /** A database whose user may create others. */
  readonly adminDatabaseUrl: string
}

export interface Backlog {
  /** `we_…` */
  readonly subscriptionId: string
  readonly batches: number
  /** Events in each of them. */
  readonly events: number
}

export interface FanoutFixture {
  readonly sql: Sql
  readonly prefix: string
  readonly authority: CertificateAuthority
  /**
   * Stores a subscription in test mode, of a new account or of a given one (`acc_…`). The next start
   * of the process finds it.
   */
  readonly subscribe: (
    url: string,
    accountId?: string,
  ) => Promise<{ readonly account: string; readonly subscriptionId: string }>
  /**
   * Stores batches that are due now. Event ids are `evt_` and the number of the event, from 1, in 26
   * digits.
   */
  readonly fillBacklog: (backlog: Backlog) => Promise<void>
  /** Starts the process, with flags for Node, and waits until it is ready. */
  readonly start: (flags?: ReadonlyArray<string>) => Promise<void>
  readonly pid: () => number
  /** Sends a signal and waits until the process has ended. */
  readonly kill: (signal: 'SIGTERM' | 'SIGKILL') => Promise<void>
  /** Ends the process, and removes the database and the files. */
  readonly stop: () => Promise<void>
}

/** An SQL expression: the JSON of event number `n`, about as long as the event of a message. */
export const EVENT_JSON = `
  '{"id":"evt_' || lpad(n::text, 26, '0') || '","object":"event","type":"message.delivered","created_at":"2026-11-21T09:30:01.260Z",'
  || '"mode":"test","data":{"object":{"id":"msg_' || lpad(n::text, 26, '0') || '","object":"message","status":"delivered","final":true,'
  || '"class":"service","reason_code":null,"client_ref":"order-' || n || '","batch":null,"template":"order_ready",'
  || '"created_at":"2026-11-21T09:30:00.100Z","parts":1,"price":{"amount":"1.50","currency":"RUB"}}}}'`

export const startFanoutFixture = async (servers: Servers): Promise<FanoutFixture> => {
  const dir = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'fanout-'))
  const authority = await makeCertificateAuthority()
  const caFile = join(dir, 'ca.pem')
  writeFileSync(caFile, authority.pem)

  const database = await freshDatabase(servers.adminDatabaseUrl)
  const prefix = `f${randomBytes(4).toString('hex')}.`
  await Effect.runPromise(
    createTopics(
      { brokers: servers.brokers, clientId: 'fanout-fixture' },
      topicCatalogue({ prefix, partitions: FANOUT_PARTITIONS, replicationFactor: 1 }).filter(
        ({ topic }) => topic.includes('hub.webhooks') || topic.includes('hub.erasures'),
      ),
    ),
  )
  const masterKey = await Effect.runPromise(
    Effect.service(MasterKeyEncryption).pipe(
      Effect.provide(MasterKeyEncryption.layer),
      Effect.provideService(
        ConfigProvider.ConfigProvider,
        ConfigProvider.fromUnknown({ HUB_MASTER_KEY: MASTER_KEY }),
      ),
    ),
  )
  const sql = openDatabase(database.url)
  const adminPort = await freePort()
  let child: ChildProcess | null = null
  const untilExited = async (running: ChildProcess): Promise<void> => {
    if (running.exitCode === null && running.signalCode === null) {
      await new Promise((resolve) => running.once('exit', resolve))
    }
  }

  const start = async (flags: ReadonlyArray<string> = []): Promise<void> => {
    const output = openSync(join(dir, 'fanout.log'), 'a')
    const main = await programFile('webhook-fanout')
    const running = spawn(process.execPath, [...nodeFlags('webhook-fanout'), ...flags, main], {
      stdio: ['ignore', output, output],
      env: {
        PATH: process.env['PATH'],
        HUB_DATABASE_URL: database.url,
        HUB_KAFKA_BROKERS: servers.brokers.join(','),
        HUB_TOPIC_PREFIX: prefix,
        HUB_PARTITIONS: String(FANOUT_PARTITIONS),
        HUB_MASTER_KEY: MASTER_KEY,
        HUB_NUMBER_HASH_SECRET: 'this process hashes no phone numbers',
        HUB_ADMIN_PORT: String(adminPort),
        HUB_DATA_DIR: dir,
        HUB_WEBHOOK_ALLOWED_HOSTS: '127.0.0.1',
        HUB_WEBHOOK_CA_FILE: caFile,
      },
    })
    child = running
    await eventually(
      async () => {
        if (running.exitCode !== null)
          throw new Error(`the fan-out process ended; read ${join(dir, 'fanout.log')}`)
        const { status } = await fetch(`http://127.0.0.1:${adminPort}/readyz`)
        if (status !== 200) throw new Error(`/readyz returned ${status}`)
        return true
      },
      { everyMs: 50 },
    )
  }
  const kill = async (signal: 'SIGTERM' | 'SIGKILL'): Promise<void> => {
    if (child === null) return
    const running = child
    child = null
    running.kill(signal)
    await untilExited(running)
  }

  return {
    sql,
    prefix,
    authority,
    subscribe: async (url, accountId) => {
      const account = accountId === undefined ? randomUUID() : (decodeId('acc', accountId) ?? '')
      await sql`INSERT INTO command.accounts (id, name) VALUES (${account}, 'fan-out') ON CONFLICT DO NOTHING`
      const subscriptionId = newId('we', Date.now(), randomBytes(10))
      const secret = masterKey.encrypt(
        'webhook-secret',
        subscriptionId,
        Buffer.from(`whsec_${randomBytes(32).toString('base64')}`),
      )
      await sql`INSERT INTO webhooks.endpoints (id, account, mode, url, event_types, secret)
                VALUES (${decodeId('we', subscriptionId)}, ${account}, 'test', ${url}, '{}', ${secret})`
      return { account: encodeId('acc', account), subscriptionId }
    },
    fillBacklog: async ({ batches, subscriptionId, events }) => {
      await sql.unsafe(
        `INSERT INTO webhooks.batches (id, endpoint_id, partition, first_sequence, event_count, body, queued_at, scheduled_at, next_attempt_at)
         SELECT gen_random_uuid(), $1::uuid, 0, (b - 1) * $3::integer + 1, $3::integer,
                '[' || (SELECT string_agg(${EVENT_JSON}, ',' ORDER BY n)
                                     FROM generate_series((b - 1) * $3::integer + 1, b * $3::integer) n) || ']',
                now(), now(), now()
           FROM generate_series(1, $2::integer) b`,
        [decodeId('we', subscriptionId), batches, events],
      )
      await sql`ANALYZE webhooks.batches`
    },
    start,
    kill,
    pid: () => {
      const pid = child?.pid
      if (pid === undefined) throw new Error('call start() first: the fan-out process does not run')
      return pid
    },
    stop: async () => {
      await kill('SIGKILL')
      // After a crash of PostgreSQL, a connection of the pool may wait for ever.
      await sql.end({ timeout: END_WITHIN_SECONDS })
      await database.drop()
      rmSync(dir, { recursive: true, force: true })
    },
  }
}
