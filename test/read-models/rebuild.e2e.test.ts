/**
 * Rebuilds the read models while mixed messages are sent and read, and kills the projector during
 * the rebuild. Afterwards the tables equal the topics, no event is published twice, and an erased
 * recipient stays erased. `HUB_REBUILD_MESSAGES` sets the number of messages.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { decodeId } from '@hub/domain'
import {
  eraseRecipient,
  makeSql,
  readRebuild,
  type Rebuild,
  type RebuildPolicy,
  requestRebuild,
  Sql,
} from '@hub/store'
import { eventually, openDatabase } from '@hub/testkit'
import { startHub, type TestHub, WITHOUT_WEBHOOKS } from '../support/hub.ts'
import { Effect, Layer, Redacted } from 'effect'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { checkReadModels, waitUntilIdle } from '../support/checker/checker.ts'
import { send, subscribeToNothing } from '../support/client.ts'
import { readTopic } from '../support/read-topic.ts'
import { makeMixedWorkload, emptyWorkloadResult, sendRequest } from '../support/mixed-workload.ts'
import { type Account, type HubAdmin, makeHubAdmin } from '../support/hub-admin.ts'
import { seededRandom } from '../support/seeded-random.ts'

const MESSAGES = Number(process.env['HUB_REBUILD_MESSAGES'] ?? 600)
const SEED = Number(process.env['HUB_REBUILD_SEED'] ?? 20_261_121)
const MAX_IN_FLIGHT = 8
/**
 * Only ends a wait that hangs. The lease of a killed projector lasts ten seconds, and each
 * projector joins two groups.
 */
const WITHIN_MS = 120_000
const ERASED_NUMBER = '+79161234321'

let hub: TestHub
let admin: HubAdmin
let account: Account

beforeAll(async () => {
  hub = await startHub({ apps: WITHOUT_WEBHOOKS, liveOperator: 'http' })
  admin = makeHubAdmin(hub)
  account = await admin.createAccount({
    live: { flood_pause_seconds: 0, flood_per_hour: 1_000_000, flood_per_day: 1_000_000 },
  })
  for (const mode of ['test', 'live'] as const) await subscribeToNothing(account[mode])
})
afterAll(async () => {
  await admin?.close()
  await hub?.stop()
})

const withStore = <A, E>(effect: Effect.Effect<A, E, Sql>): Promise<A> =>
  Effect.runPromise(
    Effect.provide(
      effect,
      Layer.effect(Sql, makeSql(Redacted.make(hub.describe().database_url), 2, 'rebuild-test')),
    ),
  )
const rebuildFor = (policy: RebuildPolicy): Promise<string> =>
  withStore(Effect.map(requestRebuild(policy), ({ id }) => id))
const untilEnded = (id: string): Promise<Rebuild> =>
  eventually(
    async () => {
      const rebuild = await withStore(readRebuild(id))
      return rebuild?.endedAt == null ? null : rebuild
    },
    { withinMs: WITHIN_MS, everyMs: 100 },
  )

/**
 * Reads messages, events and statistics until the returned function is called. Every response must
 * be a success. Returns the number of responses.
 */
const readContinuously = (ids: ReadonlySet<string>) => {
  let over = false
  let answers = 0
  const ended = (async () => {
    while (!over) {
      const id = [...ids].at(-1)
      const paths = ['/v1/events?limit=50', '/v1/stats', ...(id === undefined ? [] : [`/v1/messages/${id}`])]
      for (const path of paths) {
        const { status } = await account.live.get(path)
        // The message belongs to the other mode.
        if (status === 404 && path.startsWith('/v1/messages/')) continue
        expect({ path, status }).toEqual({ path, status: 200 })
        answers += 1
      }
      await delay(20)
    }
  })()
  ended.catch(() => {})
  return async (): Promise<number> => {
    over = true
    await ended
    return answers
  }
}

describe(`${MESSAGES} mixed messages around a rebuild (seed ${SEED})`, () => {
  it(
    'leave read models that equal the topics, publish no event twice, and keep an erased recipient erased',
    async () => {
      const sql = openDatabase(hub.describe().database_url)
      const sent = emptyWorkloadResult()
      const requests = makeMixedWorkload({
        random: seededRandom(SEED),
        accounts: [account],
        messages: MESSAGES,
        prefix: '+7911',
      })
      let next = 0
      const sendSome = (upTo: number): Promise<unknown> =>
        Promise.all(
          Array.from({ length: MAX_IN_FLIGHT }, async () => {
            while (next < upTo) await sendRequest(requests[next++]!, sent)
          }),
        )
      try {
        const erased = await account.live.post('/v1/messages', send('service', ERASED_NUMBER, 'to be erased'))
        expect(erased.status).toBe(202)
        sent.accepted.add(erased.body.id)
        const uuid = decodeId('msg', erased.body.id)!
        const [person] = await eventually(
          async () => {
            const rows = await sql<ReadonlyArray<{ recipient: Buffer }>>`
              SELECT recipient FROM read.personal_data WHERE message_id = ${uuid}`
            return rows.length > 0 ? rows : null
          },
          { withinMs: WITHIN_MS },
        )
        const receipt = await withStore(eraseRecipient(person!.recipient.toString('hex')))
        expect(receipt.personalData).toBe(1)
        await sendSome(requests.length / 2)

        // This transaction locks the tables, so the rebuild cannot finish before the projector is
        // killed.
        const stopReading = readContinuously(sent.accepted)
        let id = ''
        await sql.begin(async (q) => {
          await q`SELECT count(*) FROM read.messages`
          id = await rebuildFor('swap_if_equal')
          await eventually(async () => ((await withStore(readRebuild(id)))?.records ?? 0) > 0, {
            withinMs: WITHIN_MS,
            everyMs: 5,
          })
          hub.app('projector').kill('SIGKILL')
          await hub.app('projector').exited()
        })
        expect(await withStore(readRebuild(id))).toMatchObject({ endedAt: null })
        const sending = sendSome(requests.length)
        sending.catch(() => {})
        await hub.app('projector').restart()
        const rebuild = await untilEnded(id)
        const answers = await stopReading()
        await sending

        const differing = (rebuild.compared ?? []).flatMap(({ examples, table }) =>
          examples.map((one) => ({ table, ...one })),
        )
        expect(differing).toEqual([])
        expect(rebuild).toMatchObject({ outcome: 'swapped', since: null })
        expect(answers).toBeGreaterThan(0)

        await eventually(
          async () => {
            const [row] = await sql<[{ corrected: number }]>`
              SELECT count(*)::int AS corrected FROM read.messages
               WHERE id = ANY (${[...sent.corrections].map((one) => decodeId('msg', one)!)}::uuid[]) AND status = 'delivered'`
            expect(row.corrected).toBe(sent.corrections.size)
            return true
          },
          { withinMs: WITHIN_MS, everyMs: 500 },
        )
        await waitUntilIdle(hub, { accepted: sent.accepted.size, awaitSeals: false, withinMs: WITHIN_MS })
        const checked = await checkReadModels(hub)
        // The topics still contain the erased recipient, so the checker reports this row.
        expect(checked.differences.slice(0, 50)).toEqual([`read.personal_data ${uuid}: is missing`])
        expect(checked.messages).toBe(sent.accepted.size)

        // A second rebuild on an idle hub appends, records, charges and queues nothing.
        const readState = async () => {
          const [row] = await sql`
            SELECT (SELECT json_agg(json_build_array(account, mode, sequence, id) ORDER BY account, mode, sequence)
                      FROM read.events) AS events,
                   (SELECT json_agg(c ORDER BY message_id, kind) FROM read.charges c) AS charges,
                   (SELECT json_agg(p ORDER BY account, period) FROM command.spend_periods p) AS spent,
                   (SELECT count(*)::int FROM read.event_outbox) AS outbox`
          const topic = await readTopic(hub.describe().kafka.brokers, 'hub.webhooks.v1')
          return { ...row, topic: topic.map(({ offset, partition }) => `${partition}/${offset}`).toSorted() }
        }
        // A busy broker can append a record late a second time, which the producer has repeated meanwhile.
        let before = await readState()
        await eventually(
          async () => {
            const earlier = before
            before = await readState()
            expect(before).toEqual(earlier)
            return true
          },
          { everyMs: 5000 },
        )
        const again = await untilEnded(await rebuildFor('swap_if_equal'))
        expect(again.outcome).toBe('swapped')
        expect(await readState()).toEqual(before)

        // The number stays in the lanes for two days, and is in no table.
        const stored = await sql`SELECT 1 FROM read.personal_data WHERE recipient = ${person!.recipient}`
        expect(stored).toHaveLength(0)
        const shown = await account.live.get(`/v1/messages/${erased.body.id}`)
        expect(shown.body).toMatchObject({ id: erased.body.id, to: '', text: null, variables: null })
        console.log(
          `seed ${SEED}: ${checked.messages} messages, ${checked.events} events; ${rebuild.records} records folded by two projectors and ` +
            `${again.records} by one; ${answers} reads answered meanwhile`,
        )
      } finally {
        await sql.end()
      }
    },
    3 * WITHIN_MS,
  )
})
