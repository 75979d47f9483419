/**
 * Sends mixed messages and kills apps meanwhile. Then a checker that shares no code with the
 * projector builds every read model again from the topics, and compares all rows.
 * `HUB_CHECKER_MESSAGES` sets the number of messages; 50,000 take some minutes.
 */
import { openDatabase, eventually } from '@hub/testkit'
import { startHub, type TestHub, WITHOUT_WEBHOOKS } from '../support/hub.ts'
import { decodeId } from '@hub/domain'
import { SANDBOX_DEFAULTS } from '@hub/operator'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { checkReadModels, waitUntilIdle } from '../support/checker/checker.ts'
import { subscribeToNothing } from '../support/client.ts'
import { makeMixedWorkload, emptyWorkloadResult, sendRequest } from '../support/mixed-workload.ts'
import { type HubAdmin, makeHubAdmin } from '../support/hub-admin.ts'
import { seededRandom } from '../support/seeded-random.ts'

const DEFAULT_MESSAGES = 3000
const MESSAGES = Number(process.env['HUB_CHECKER_MESSAGES'] ?? DEFAULT_MESSAGES)
const SEED = Number(process.env['HUB_CHECKER_SEED'] ?? 20_261_121)

/**
 * The projector is killed twice as often because it is the app under test. A kill waits for the
 * restart of the previous app, so the apps with requests in flight come first.
 */
const KILLED = ['command-api', 'dispatcher', 'projector', 'projector'] as const
/** Each app is killed once in the small run, and once more for each further number of messages. */
const MESSAGES_A_ROUND = 12_500
const KILLS = KILLED.length * Math.max(1, Math.round(MESSAGES / MESSAGES_A_ROUND))
/** The time from the handover in the sandbox to its late report, with one second for the report. */
const LATE_REPORT_MS = SANDBOX_DEFAULTS.lateReportMs + 1000
/** Requests in flight. */
const MAX_IN_FLIGHT = 12
/** Only ends a wait that hangs: a busy machine handles a hundred messages a second. */
const WITHIN_MS = 120_000 + MESSAGES * 20
/**
 * The sweep seals batches that a crash left open after a minute. Only the large run waits for it.
 */
const AWAIT_SEALS = MESSAGES > DEFAULT_MESSAGES

let hub: TestHub
let admin: HubAdmin

beforeAll(async () => {
  // Over HTTP the operator recognises repeated references. So every message becomes final,
  // whichever app is killed.
  hub = await startHub({ apps: WITHOUT_WEBHOOKS, liveOperator: 'http' })
  admin = makeHubAdmin(hub)
})
afterAll(async () => {
  await admin?.close()
  await hub?.stop()
})

const uuids = (ids: Iterable<string>): Array<string> => [...ids].map((id) => decodeId('msg', id)!)

describe(`${MESSAGES} mixed messages with ${KILLS} crashes (seed ${SEED})`, () => {
  it(
    'produce read models that equal the topics in every row',
    async () => {
      const random = seededRandom(SEED)
      const noWindows = { flood_pause_seconds: 0, flood_per_hour: 1_000_000, flood_per_day: 1_000_000 }
      const accounts = [
        await admin.createAccount({
          // The run reaches the soft threshold early and never the limit.
          live: { ...noWindows, spend_limit: `${MESSAGES * 3}.00`, soft_threshold_percent: 3 },
        }),
        await admin.createAccount({ live: { ...noWindows, price_otp: '3.07', price_service: '0.10' } }),
      ]
      // Events of the first account are published, those of the second are not.
      await subscribeToNothing(accounts[0]!.test)
      await subscribeToNothing(accounts[0]!.live)
      const requests = makeMixedWorkload({ random, accounts, messages: MESSAGES, prefix: '+7911' })
      const kills = new Map(
        Array.from({ length: KILLS }, (_, index) => [
          Math.floor(((index + 0.5) * requests.length) / KILLS),
          KILLED[index % KILLED.length]!,
        ]),
      )
      const sent = emptyWorkloadResult()
      const began = performance.now()
      let restarted = Promise.resolve()
      let killed = 0
      const dispatcherKilled: Array<string> = []
      let next = 0
      await Promise.all(
        Array.from({ length: MAX_IN_FLIGHT }, async () => {
          for (let index = next++; index < requests.length; index = next++) {
            const name = kills.get(index)
            if (name !== undefined) {
              // Only one app is down at a time.
              restarted = restarted.then(async () => {
                const app = hub.app(name)
                if (name === 'dispatcher') dispatcherKilled.push(new Date().toISOString())
                app.kill('SIGKILL')
                await app.exited()
                await app.restart()
                killed += 1
              })
            }
            await sendRequest(requests[index]!, sent)
          }
        }),
      )
      await restarted
      expect(killed).toBe(KILLS)
      expect(sent.repeats).toBeGreaterThan(0)
      const sentSeconds = (performance.now() - began) / 1000

      const sql = openDatabase(hub.describe().database_url)
      try {
        await eventually(
          async () => {
            // A dispatcher that is killed between the expiry and the late report of a test message
            // loses that report.
            const rows = await sql`
              SELECT 1 FROM read.messages m
               WHERE m.sent_at IS NOT NULL AND m.id = ANY (${uuids(sent.corrections)}::uuid[])
                 AND (m.status = 'delivered' OR m.reason_code = 'dlr_timeout_local' AND EXISTS (
                       SELECT 1 FROM unnest(${dispatcherKilled}::timestamptz[]) AS k (at)
                        WHERE k.at BETWEEN m.sent_at AND m.sent_at + ${LATE_REPORT_MS} * interval '1 millisecond'))`
            expect(rows).toHaveLength(sent.corrections.size)
            return true
          },
          { withinMs: WITHIN_MS, everyMs: 500 },
        )
        await waitUntilIdle(hub, {
          accepted: sent.accepted.size,
          awaitSeals: AWAIT_SEALS,
          withinMs: WITHIN_MS,
        })
        const idleSeconds = (performance.now() - began) / 1000

        const checked = await checkReadModels(hub)
        console.log(
          `seed ${SEED}: ${sent.accepted.size} messages accepted in ${sentSeconds.toFixed(0)} s, idle after ${idleSeconds.toFixed(0)} s; ` +
            `${KILLS} crashes, ${sent.repeats} requests repeated; refused: ` +
            `${[...sent.refused].map(([code, count]) => `${count} ${code}`).join(', ')}; compared ${checked.messages} messages, ` +
            `${checked.batches} batches, ${checked.events} events from ${checked.records} records in ` +
            `${((performance.now() - began) / 1000 - idleSeconds).toFixed(0)} s`,
        )
        expect(checked.differences.slice(0, 50)).toEqual([])
        expect(checked.messages).toBe(sent.accepted.size)

        // Every outcome occurred.
        const outcomes = await sql<ReadonlyArray<{ outcome: string }>>`
          SELECT DISTINCT status || coalesce(' ' || reason_code, '') AS outcome FROM read.messages ORDER BY 1`
        expect(outcomes.map(({ outcome }) => outcome)).toEqual([
          'delivered',
          'expired dlr_timeout',
          'expired dlr_timeout_local',
          'expired ttl_expired_before_submit',
          'rejected spam_filter_content',
          'rejected spam_filter_sender',
          'undelivered recipient_blocked',
          'undelivered recipient_nonexistent',
          'undelivered recipient_unreachable',
        ])
        // This event depends on settings, so no record explains it.
        const thresholds = await sql<ReadonlyArray<{ account: string; mode: string }>>`
          SELECT account, mode FROM read.events WHERE type = 'account.spend_threshold'`
        expect([...thresholds]).toEqual([{ account: accounts[0]!.uuid, mode: 'live' }])

        // The spend equals the ledger of charges, after the reconciler has handled the codes that a
        // crash left open.
        await eventually(
          async () => {
            const spent = await sql<ReadonlyArray<{ spent: string; charged: string }>>`
              SELECT p.spent::text, c.charged::text FROM command.spend_periods p JOIN (
                SELECT account, period, sum(CASE kind WHEN 'charge' THEN amount ELSE -amount END) AS charged
                  FROM read.charges GROUP BY account, period) AS c USING (account, period)`
            expect(spent).toHaveLength(accounts.length)
            for (const account of spent) expect(account.spent).toBe(account.charged)
            return true
          },
          { withinMs: WITHIN_MS, everyMs: 500 },
        )

        // The checker must also report planted differences.
        const [timeless] = await sql<[{ id: string }]>`
          UPDATE read.messages SET sent_at = NULL
           WHERE id = (SELECT min(id::text)::uuid FROM read.messages WHERE sent_at IS NOT NULL)
          RETURNING id`
        const [message] = await sql<[{ id: string; attempts: number }]>`
          UPDATE read.messages SET attempts = attempts + 1 WHERE id = (SELECT max(id::text)::uuid FROM read.messages)
          RETURNING id, attempts`
        const [batch] = await sql<[{ id: string }]>`
          UPDATE read.batches SET expired = expired + 1 WHERE id = (SELECT max(id::text)::uuid FROM read.batches)
          RETURNING id`
        const [line] = await sql<[{ day: string; delivered: number }]>`
          UPDATE read.daily_stats SET price = price + 0.01
           WHERE ctid = (SELECT ctid FROM read.daily_stats WHERE mode = 'live' LIMIT 1)
          RETURNING day, delivered`
        await sql`
          UPDATE read.hourly_stats SET parts = parts + 1
           WHERE ctid = (SELECT ctid FROM read.hourly_stats WHERE accepted > 0 LIMIT 1)`
        const [charge] = await sql<[{ message_id: string }]>`
          DELETE FROM read.charges WHERE ctid = (SELECT ctid FROM read.charges WHERE kind = 'reversal' LIMIT 1)
          RETURNING message_id`
        const [event] = await sql<[{ id: string }]>`
          UPDATE read.event_journal e SET body = replace(body, '\t1\t', '\t2\t') FROM (
            SELECT id, created_at FROM read.event_journal WHERE body LIKE '%\t1\t%' LIMIT 1) AS one
           WHERE e.id = one.id AND e.created_at = one.created_at
          RETURNING e.id`
        expect(line.delivered).toBeGreaterThan(0)
        const found = (await checkReadModels(hub)).differences
        expect(found).toHaveLength(8)
        for (const expected of [
          `read.messages ${timeless.id}: sent_at is null, the topics say`,
          `read.messages ${message.id}: attempts is ${message.attempts}, the topics say ${message.attempts - 1}`,
          `read.batches ${batch.id}: expired is`,
          `read.daily_stats `,
          `read.hourly_stats `,
          `read.charges ${charge.message_id} reversal: is missing`,
          `read.events ${event.id}: body differs from the published one`,
          `: parts differs from the topics`,
        ]) {
          expect(found.filter((difference) => difference.includes(expected))).toHaveLength(1)
        }
      } finally {
        await sql.end()
      }
    },
    3 * WITHIN_MS,
  )
})
