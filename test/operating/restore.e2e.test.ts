/**
 * Restores a hub that lost its servers: PostgreSQL from a base backup that was taken under load,
 * the topics by replay, Redis empty. An erasure after the backup is applied again. The checker of
 * the read models finds no difference. Clients with a subscription continue at their cursors, and a
 * client without one finds its events again. Sends continue. The steps are those of
 * docs/operating.md.
 */
import { mkdtempSync, chmodSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { APPS } from '@hub/config'
import { decodeId, encodeId } from '@hub/domain'
import { eventually, openDatabase } from '@hub/testkit'
import { startHub, startStack, type TestHub, type TestStack } from '../support/hub.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  backUpDatabase,
  readPayloadKeys,
  readTopicCopies,
  replayTopics,
  writePayloadKeys,
} from '../support/backup.ts'
import { checkReadModels, waitUntilIdle } from '../support/checker/checker.ts'
import { allEvents, client, send, sendUntilAccepted } from '../support/client.ts'
import { eventsIn, type WebhookReceiver, startWebhookReceiver } from '../support/webhook-receiver.ts'
import { hubctl } from '../support/hubctl.ts'
import {
  type WorkloadRequest,
  makeMixedWorkload,
  emptyWorkloadResult,
  sendRequest,
} from '../support/mixed-workload.ts'
import { type HubAdmin, makeHubAdmin } from '../support/hub-admin.ts'
import { seededRandom } from '../support/seeded-random.ts'

const MESSAGES = 450
const SEED = 20_261_121
const ERASED_NUMBER = '+79147777777'
/** Requests in flight. */
const MAX_IN_FLIGHT = 8
/** These limits only end a wait that hangs. */
const WITHIN = { withinMs: 180_000, everyMs: 250 }
const WITHIN_MS = 420_000

/** The topics that the projector reads. */
const PROJECTED = /^hub\.(?:accepted\.(?:otp|service)|messages)\.v1$/u
const MODES = ['test', 'live'] as const

let receiver: WebhookReceiver
let lostHub: TestHub
let admin: HubAdmin
let stack: TestStack | undefined
let restored: TestHub | undefined
const folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'backup-'))

beforeAll(async () => {
  // If the tests run as root, PostgreSQL runs as another user.
  chmodSync(folder, 0o755)
  receiver = await startWebhookReceiver()
  lostHub = await startHub({ liveOperator: 'smpp', environment: receiver.environment })
  admin = makeHubAdmin(lostHub)
})
afterAll(async () => {
  await restored?.stop()
  await stack?.stop()
  await admin?.close()
  await lostHub?.stop()
  await receiver?.close()
  rmSync(folder, { recursive: true, force: true })
})

const sendAll = async (
  requests: ReadonlyArray<WorkloadRequest>,
  sent: ReturnType<typeof emptyWorkloadResult>,
): Promise<void> => {
  let next = 0
  await Promise.all(
    Array.from({ length: MAX_IN_FLIGHT }, async () => {
      for (let index = next++; index < requests.length; index = next++)
        await sendRequest(requests[index]!, sent)
    }),
  )
}

const idsOf = (events: ReadonlyArray<{ readonly id: string }>): ReadonlyArray<string> =>
  events.map(({ id }) => id)

const inSeconds = (since: number): string => ((performance.now() - since) / 1000).toFixed(1)

describe('a hub that has lost its servers', () => {
  it(
    'is restored from a base backup and the topics, and the checker finds no difference',
    async () => {
      const noWindows = { flood_pause_seconds: 0, flood_per_hour: 1_000_000, flood_per_day: 1_000_000 }
      const account = await admin.createAccount({
        live: { ...noWindows, spend_limit: `${MESSAGES * 100}.00` },
      })
      for (const mode of MODES) {
        const { status } = await account[mode].post('/v1/webhook_endpoints', { url: receiver.url('/hook') })
        expect(status).toBe(201)
      }
      const quiet = await admin.createAccount()
      const requests = makeMixedWorkload({
        random: seededRandom(SEED),
        accounts: [account],
        messages: MESSAGES,
        prefix: '+7914',
      })
      const third = Math.ceil(requests.length / 3)
      const sent = emptyWorkloadResult()

      // A person who is in the backup, and is erased after it.
      const erased = await sendUntilAccepted(
        account.test,
        send('service', ERASED_NUMBER, 'of an erased person'),
        60_000,
      )
      sent.accepted.add(erased.id)
      // An account without a subscription has events before the backup, and more after it.
      const sendQuietly = async (): Promise<void> => {
        const { id } = await sendUntilAccepted(quiet.test, send('otp', '+79148888899'), 60_000)
        sent.accepted.add(id)
        await eventually(async () => (await quiet.test.get(`/v1/messages/${id}`)).body.final === true, WITHIN)
      }
      await sendQuietly()
      await eventually(
        async () => (await account.test.get(`/v1/messages/${erased.id}`)).body.final === true,
        WITHIN,
      )
      const erasedUuid = decodeId('msg', erased.id)!

      // The backup runs during sends, and more sends follow it.
      await sendAll(requests.slice(0, third), sent)
      const backupBegan = Date.now()
      const copying = performance.now()
      await Promise.all([
        sendAll(requests.slice(third, 2 * third), sent),
        backUpDatabase(lostHub.describe().database_url, join(folder, 'postgres')),
      ])
      const backupTook = inSeconds(copying)
      const backupEnded = Date.now()
      const inBackup = new Set(sent.accepted)
      await sendAll(requests.slice(2 * third), sent)
      const quietInBackup = await allEvents(quiet.test)
      await sendQuietly()
      const quietAfterBackup = (await allEvents(quiet.test)).slice(quietInBackup.length)
      const afterBackup = [...sent.accepted].filter((id) => !inBackup.has(id))
      expect(afterBackup.length).toBeGreaterThan(MESSAGES / 10)
      // Data that is only in PostgreSQL and newer than the backup is lost: this account.
      const late = await admin.createAccount()
      const { database_url, kafka, redis_url } = lostHub.describe()
      const lostServers = { brokers: kafka.brokers, databaseUrl: database_url, redisUrl: redis_url }
      const receipt = await hubctl(lostServers, lostHub, ['recipients', 'erase', ERASED_NUMBER])
      await eventually(async () => {
        const [row] = await admin.sql<[{ published: boolean }]>`
          SELECT published_at IS NOT NULL AS published FROM command.erasures WHERE id = ${receipt.id}`
        return row.published
      }, WITHIN)

      // The events that clients have read.
      const ids = afterBackup.map((id) => decodeId('msg', id)!)
      await eventually(async () => {
        const rows = await admin.sql<ReadonlyArray<{ id: string; waiting: boolean }>>`
          SELECT id, status = 'accepted' AND mode = 'live' AS waiting
            FROM read.messages WHERE account IN (${account.uuid}, ${quiet.uuid})`
        expect(rows.filter(({ waiting }) => waiting)).toEqual([])
        const known = new Set(rows.map(({ id }) => encodeId('msg', id)))
        expect([...sent.accepted].filter((id) => !known.has(id))).toEqual([])
        // On a busy machine, a send with an unknown outcome can be accepted beside its repetition.
        for (const id of known) sent.accepted.add(id)
        return true
      }, WITHIN)
      const seen = { test: await allEvents(account.test), live: await allEvents(account.live) }
      const references = await admin.sql<
        ReadonlyArray<{ id: string; client_ref: string; mode: 'live' | 'test' }>
      >`SELECT id, client_ref, mode FROM read.messages WHERE id = ANY (${ids}::uuid[]) AND client_ref IS NOT NULL LIMIT 20`
      await eventually(async () => {
        const [row] = await admin.sql<[{ waiting: number }]>`
          SELECT count(*)::int AS waiting FROM read.event_outbox`
        expect(row.waiting).toBe(0)
        return true
      }, WITHIN)

      // Some messages still wait for their reports. Now all processes end; only Kafka runs until
      // the topics are copied.
      for (const name of APPS) {
        lostHub.app(name).kill('SIGKILL')
        await lostHub.app(name).exited()
      }
      const reading = performance.now()
      const copies = await readTopicCopies(lostHub.describe().kafka.brokers)
      const keys = await readPayloadKeys(lostHub.describe().database_url)
      const readingTook = inSeconds(reading)
      await admin.close()
      for (const name of ['postgres', 'kafka', 'redis'] as const) {
        lostHub.server(name).kill('SIGKILL')
        await lostHub.server(name).exited()
      }

      const restoring = performance.now()
      stack = await startStack({ database: join(folder, 'postgres') })
      await replayTopics(stack.brokers, copies)
      const sql = openDatabase(stack.databaseUrl)
      try {
        // The keys of reports come from a separate copy: here all of them, in production those after
        // the backup. The payload keys are in the topics, as in a mirror with their settings.
        await sql`DELETE FROM command.sealing_keys`
        await writePayloadKeys(stack.databaseUrl, keys)
        // The restored database contains the erased person, until the erasures are applied again.
        const numbersOfErased = () => sql`SELECT 1 FROM read.personal_data WHERE message_id = ${erasedUuid}`
        expect(await numbersOfErased()).toHaveLength(1)
        await expect(hubctl(stack, lostHub, ['doctor'])).rejects.toThrow(/hubctl restore erasures/u)
        // The topics are in a new cluster. No command and no process works with it before staff accept it.
        await expect(hubctl(stack, lostHub, ['restore', 'erasures'])).rejects.toThrow(
          /HUB_KAFKA_BROKERS leads to the Kafka cluster .* hubctl restore kafka/u,
        )
        await hubctl(stack, lostHub, ['restore', 'kafka'])
        expect(await hubctl(stack, lostHub, ['restore', 'erasures'])).toMatchObject({ restored: 1 })
        expect(await numbersOfErased()).toHaveLength(0)
        const { data: receipts } = await hubctl(stack, lostHub, ['recipients', 'receipts', receipt.id])
        expect(receipts).toMatchObject([{ id: receipt.id, requested_at: receipt.requested_at }])
        const journal = await hubctl(stack, lostHub, ['restore', 'journal'])
        expect(journal.restored).toBeGreaterThan(afterBackup.length)
        restored = await startHub({
          servers: stack,
          takesOverFrom: lostHub,
          apps: ['projector'],
          liveOperator: 'smpp',
          environment: receiver.environment,
        })
        const records = [...copies].flatMap(([topic, all]) => (PROJECTED.test(topic) ? all : [])).length
        await eventually(async () => {
          const [row] = await sql<[{ applied: number }]>`
            SELECT sum(position)::int AS applied FROM read.checkpoints WHERE projection = 'messages'`
          expect(row.applied).toBe(records)
          return true
        }, WITHIN)
        await Promise.all([restored.app('dispatcher').restart(), restored.app('webhook-fanout').restart()])
        const ledger = await hubctl(stack, lostHub, [
          'restore',
          'ledger',
          '--since',
          new Date(backupBegan).toISOString(),
        ])
        await restored.app('command-api').restart()
        // The open messages become final.
        await waitUntilIdle(restored, { accepted: sent.accepted.size, awaitSeals: false, ...WITHIN })
        expect(ledger.references).toBeGreaterThanOrEqual(references.length)
        const restoringTook = inSeconds(restoring)

        const checked = await checkReadModels(restored)
        // The checker does not know of erasures.
        const isOfErased = (line: string) => line.includes('personal_data') && line.includes(erasedUuid)
        // The end of the processes may have left an event unpublished. Later events are then recorded again.
        const isAgain = (line: string) => line.includes('has two records with different content')
        const differences = checked.differences.filter((line) => !isOfErased(line))
        expect(differences.filter((line) => !isAgain(line)).slice(0, 50)).toEqual([])
        expect(differences.filter(isAgain).length).toBeLessThanOrEqual(journal.after_gap)
        expect(checked.messages).toBe(sent.accepted.size)

        const [shown] = await numbersOfErased()
        expect(shown).toBeUndefined()
        // Clients continue at their cursors: the same events have the same positions, and new ones
        // follow.
        const { base_url } = restored.describe()
        const apiClients = {
          test: client(base_url, account.keys.test),
          live: client(base_url, account.keys.live),
        }
        for (const mode of MODES) {
          const events = await allEvents(apiClients[mode])
          expect(events.slice(0, seen[mode].length)).toEqual(seen[mode])
        }
        // The events of the account without a subscription are recorded again, with the same ids. Its
        // client finds them all by their time.
        const quietClient = client(base_url, quiet.keys.test)
        const since = new Date(backupEnded).toISOString()
        const again = (await quietClient.get(`/v1/events?limit=1000&created_after=${since}`)).body
        expect(idsOf(again.data).toSorted()).toEqual(idsOf(quietAfterBackup).toSorted())
        expect(again.has_more).toBe(false)
        expect((await allEvents(quietClient)).slice(0, quietInBackup.length)).toEqual(quietInBackup)
        // The spend equals the charges.
        const spent = await sql`
          SELECT p.spent::text, c.charged::text FROM command.spend_periods p JOIN (
            SELECT account, period, sum(CASE kind WHEN 'charge' THEN amount ELSE -amount END) AS charged
              FROM read.charges GROUP BY account, period) AS c USING (account, period) WHERE p.spent <> c.charged`
        expect([...spent]).toEqual([])
        // References used after the backup are still used.
        for (const { client_ref, id, mode } of references) {
          const answer = await apiClients[mode].post(
            '/v1/messages',
            send('service', '+79149999999', client_ref),
          )
          expect(answer.body).toMatchObject({ duplicate: true })
          expect(decodeId('msg', answer.body.id)).toBe(id)
        }
        expect((await client(base_url, late.keys.test).get('/v1/account')).status).toBe(401)

        // Sends and their webhooks continue.
        const fresh = await Promise.all(
          MODES.map((mode, i) =>
            sendUntilAccepted(
              apiClients[mode],
              send('service', `+7914888888${i}`, 'after the restore'),
              60_000,
            ),
          ),
        )
        await eventually(async () => {
          const deliveredIds = new Set(eventsIn(receiver.received).map(({ id }) => id as string))
          for (const mode of MODES) {
            const events = await allEvents(apiClients[mode])
            expect(events.filter(({ id }) => !deliveredIds.has(id)).map(({ id }) => id)).toEqual([])
          }
          for (const [i, { id }] of fresh.entries()) {
            expect((await apiClients[MODES[i]!].get(`/v1/messages/${id}`)).body.status).toBe('delivered')
          }
          return true
        }, WITHIN)
        console.log(
          `backup during sends in ${backupTook} s, ${afterBackup.length} of ${sent.accepted.size} messages accepted after it; ` +
            `${[...copies.values()].flat().length} records read in ${readingTook} s; restored and idle in ${restoringTook} s; ` +
            `${journal.restored} events restored, ${ledger.references} references marked; compared ${checked.messages} messages, ` +
            `${checked.batches} batches, ${checked.events} events`,
        )
      } finally {
        await sql.end()
      }
    },
    WITHIN_MS,
  )
})
