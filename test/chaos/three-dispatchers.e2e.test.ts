/**
 * Three dispatchers share the shards and the live traffic, and every few seconds one of them is killed, stopped or ended, against an
 * operator that takes every submission for a new one. Nothing may be lost, stuck, or handed over twice.
 *
 *   HUB_CHAOS_SECONDS=120 HUB_CHAOS_RATE=1000 [HUB_CHAOS_SEED=…] npm run test:e2e -- three-dispatchers
 */
import { randomInt } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { encodeId } from '@hub/domain'
import { eventually, openDatabase } from '@hub/testkit'
import { type ProcessHandle, startHub, type TestHub } from '../support/hub.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Client, client } from '../support/client.ts'
import { readHandoverHistory } from '../support/handover-history.ts'
import { seededRandom } from '../support/seeded-random.ts'

const readNumber = (name: string, otherwise: number): number => {
  const text = process.env[name] ?? ''
  if (text === '') return otherwise
  if (!/^[1-9]\d{0,8}$/u.test(text)) throw new Error(`${name} must be a whole number above zero`)
  return Number(text)
}

/** As in `npm test`: each kind of end once, at a pace that two busy cores carry. */
const SECONDS = readNumber('HUB_CHAOS_SECONDS', 45)
/** Messages a second. */
const RATE = readNumber('HUB_CHAOS_RATE', 150)
const SEED = readNumber('HUB_CHAOS_SEED', randomInt(1, 1_000_000_000))

/** The operator takes so long to answer, so that whoever is injected always has messages under way. */
const ANSWER_AFTER_MS = 100
/** A batch goes off so often. */
const BATCH_EVERY_MS = 250
/** Batches under way at once; then the pace follows the answers. */
const BATCHES = 8
/** From one fault to the next. */
const FAULT_EVERY_MS = 5000
/** Longer than the six seconds after which the group gives a silent member up. */
const STOPPED_MS = 9000
/** Its shards are with the others by then. */
const AWAY_MS = 12_000
/**
 * What an overloaded hub may answer for an element: Kafka did not confirm a code; Redis did not answer in time, or the place in the
 * windows of a request that failed has not lapsed yet (decision 8). No recipient gets a second message here.
 */
const RETRYABLE: ReadonlySet<string> = new Set(['provider_unavailable', 'recipient_flood_limited'])
/** Before a batch that was not wholly accepted comes again. */
const RETRY_AFTER_MS = 500
/** A bound on what hangs: the session of a member that is gone, and some rebalances of a busy machine. */
const HEALTHY_WITHIN = { withinMs: 60_000, everyMs: 250 }
/** The traffic goes on for so long after the last fault. */
const QUIET_MS = 5000
/** A bound on what hangs, not on what is slow: the backlog of the whole run may have to be worked off on a busy machine. */
const ALL_FINAL_WITHIN_MS = 180_000 + SECONDS * 4000

const FAULTS = {
  'killed, started again': async (process: ProcessHandle) => {
    process.kill('SIGKILL')
    await process.exited()
    await process.restart()
  },
  'killed, away': async (process: ProcessHandle) => {
    process.kill('SIGKILL')
    await process.exited()
    await delay(AWAY_MS)
  },
  stopped: async (process: ProcessHandle) => {
    process.kill('SIGSTOP')
    await delay(STOPPED_MS)
    process.kill('SIGCONT')
    await process.waitReady()
  },
  'ended, started again': async (process: ProcessHandle) => {
    process.kill('SIGTERM')
    await process.exited()
    await process.restart()
  },
} as const
type Fault = keyof typeof FAULTS
const FAULT_KINDS = Object.keys(FAULTS) as ReadonlyArray<Fault>

interface InjectedFault {
  readonly kind: Fault
  readonly name: string
  readonly at: number
  /** When all were well again and the next thing could happen to any of them. */
  readonly until: number
}

let hub: TestHub
beforeAll(async () => {
  hub = await startHub({ apiRps: 100_000, dispatchers: 3, liveOperator: 'smpp' })
})
afterAll(() => hub?.stop())

/** A figure of a dispatcher, summed over its labels. */
const metricOf = async ({ name }: ProcessHandle, metric: string): Promise<number> => {
  const urls: Readonly<Record<string, string>> = hub.describe().metrics_urls
  const text = await (await fetch(urls[name]!)).text()
  return text
    .split('\n')
    .filter((line) => line.startsWith(`${metric}{`) || line.startsWith(`${metric} `))
    .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}

/** Waits until each dispatcher has two of the six shards and hands over. */
const untilHealthy = async (): Promise<void> => {
  const handedOver = (dispatcher: ProcessHandle) =>
    metricOf(dispatcher, 'hub_dispatcher_handover_latency_seconds_count')
  await Promise.all(
    hub.dispatchers.map(async (dispatcher) => {
      await eventually(
        async () => (await metricOf(dispatcher, 'hub_dispatcher_open_shards')) === 2,
        HEALTHY_WITHIN,
      )
      const before = await handedOver(dispatcher)
      await eventually(async () => (await handedOver(dispatcher)) > before, HEALTHY_WITHIN)
    }),
  )
}

interface Message {
  readonly body: { readonly to: string } & Readonly<Record<string, unknown>>
  /** As the operator gets it. */
  readonly text: string
}

/** A message in four is a code; each has a recipient and a text of its own, by which the operator counts it. */
const makeMessage = (index: number): Message => {
  const to = `+7911${String(1_000_000 + index)}`
  const client_ref = `chaos-${index}`
  return index % 4 === 0
    ? {
        body: { to, client_ref, class: 'otp', template: 'otp_code', variables: { code: `${index}` } },
        text: `Code ${index}`,
      }
    : {
        body: {
          to,
          client_ref,
          class: 'service',
          template: 'order_ready',
          variables: { order: `A-${index}` },
        },
        text: `Заказ A-${index} готов`,
      }
}

/**
 * Sends batches at an even pace until `isOver`, each until all of it is accepted: `client_ref` makes a repeat harmless. Answers the
 * messages by their ids.
 */
const sendWhile = async (hubClient: Client, isOver: () => boolean) => {
  const accepted = new Map<string, Message>()
  /** What must not happen; told at the end, since the traffic goes on. */
  const refused = new Set<string>()
  let repeats = 0
  let next = 0
  const sendBatch = async (messages: ReadonlyArray<Message>): Promise<void> => {
    for (let left = messages; left.length > 0;) {
      const answer = await hubClient
        .post('/v1/messages/batch', { messages: left.map(({ body }) => body) })
        .catch(() => null)
      if (answer?.status === 202) {
        const again: Array<Message> = []
        for (const [i, result] of answer.body.results.entries()) {
          const id = result.message?.id ?? result.message_id
          if (id !== undefined) accepted.set(id, left[i]!)
          else if (RETRYABLE.has(result.error.code)) again.push(left[i]!)
          else refused.add(result.error.code)
        }
        left = again
      } else if (answer !== null && answer.status !== 429 && answer.status < 500) {
        refused.add(`${answer.status} ${answer.text}`)
        return
      }
      if (left.length > 0) {
        repeats++
        await delay(RETRY_AFTER_MS)
      }
    }
  }
  const inFlight = new Set<Promise<void>>()
  const size = Math.max(1, Math.round((RATE * BATCH_EVERY_MS) / 1000))
  let due = performance.now()
  while (!isOver()) {
    const sent = sendBatch(Array.from({ length: size }, () => makeMessage(next++))).then(() => {
      inFlight.delete(sent)
    })
    inFlight.add(sent)
    // What the hub does not carry is not sent later: the pace follows its answers.
    if (inFlight.size >= BATCHES) await Promise.race(inFlight)
    due = Math.max(due + BATCH_EVERY_MS, performance.now() - BATCH_EVERY_MS)
    await delay(Math.max(0, due - performance.now()))
  }
  await Promise.all(inFlight)
  return { accepted, refused, repeats, sent: next }
}

/** The longest time in which a shard did not hand over, from a fault until all were well again, ms. */
const longestGap = (times: ReadonlyArray<number>, { at, until }: InjectedFault): number => {
  let longest = 0
  let last = at
  for (const time of [...times.filter((time) => time > at && time < until), until]) {
    longest = Math.max(longest, time - last)
    last = time
  }
  return longest
}

const inSeconds = (ms: number): string => (ms / 1000).toFixed(1)

describe(`three dispatchers under ${RATE} messages a second for ${SECONDS} s, one struck every few seconds (seed ${SEED})`, () => {
  it(
    'lose nothing, leave nothing behind, and hand nothing over twice',
    async () => {
      const random = seededRandom(SEED)
      const { base_url, database_url, kafka, keys, operator_url } = hub.describe()
      expect(hub.dispatchers.map(({ name }) => name)).toEqual(['dispatcher', 'dispatcher-2', 'dispatcher-3'])

      const behaviour = await fetch(`${operator_url}/behaviour`, {
        method: 'PUT',
        body: JSON.stringify({ submit_delay_ms: ANSWER_AFTER_MS }),
      })
      expect(behaviour.status).toBe(200)

      const begun = performance.now()
      const elapsed = (): number => performance.now() - begun
      const injected: Array<InjectedFault> = []
      const injectFaults = async (): Promise<void> => {
        // Every kind at least once, however slow the machine.
        for (let round = 0; round === 0 || elapsed() < SECONDS * 1000; round++) {
          for (const kind of random.shuffled(FAULT_KINDS)) {
            if (round > 0 && elapsed() > SECONDS * 1000) return
            const victim = hub.dispatchers[random.below(hub.dispatchers.length)]!
            const at = Date.now()
            await FAULTS[kind](victim)
            // One at a time: the next comes when its time has come and the victim is well again.
            await delay(Math.max(0, at + FAULT_EVERY_MS - Date.now()))
            if (kind !== 'killed, away') await untilHealthy()
            injected.push({ kind, name: victim.name, at, until: Date.now() })
            if (kind === 'killed, away') {
              await victim.restart()
              await untilHealthy()
            }
          }
        }
      }
      let isOver = false
      const injecting = untilHealthy()
        .then(() => delay(FAULT_EVERY_MS))
        .then(injectFaults)
        .then(() => delay(QUIET_MS))
        .finally(() => {
          isOver = true
        })
      const traffic = await sendWhile(client(base_url, keys.live), () => isOver)
      await injecting
      const tookMs = elapsed()
      const { accepted } = traffic
      expect([...traffic.refused]).toEqual([])
      expect(accepted.size).toBe(traffic.sent)

      /** How often the operator got a message. */
      const timesReceived = async (id: string): Promise<number> => {
        const { body, text } = accepted.get(id)!
        const found = await fetch(
          `${operator_url}/submissions?${new URLSearchParams({ to: body.to, text }).toString()}`,
        )
        if (found.status === 404) return 0
        expect(found.status).toBe(200)
        return ((await found.json()) as { readonly times: number }).times
      }
      const sql = openDatabase(database_url)
      try {
        // None stuck: everything comes to its end, but for what counts as sent and reached nobody: no report can come of that.
        const withoutReport = await eventually(
          async () => {
            const [all] = await sql<ReadonlyArray<{ count: number }>>`
              SELECT count(*)::int AS count FROM read.messages WHERE account IS NOT NULL`
            expect(all?.count).toBe(accepted.size)
            const open = await sql<ReadonlyArray<{ id: string; status: string }>>`
              SELECT id, status FROM read.messages WHERE NOT final LIMIT 1000`
            expect(open.filter(({ status }) => status !== 'sent')).toEqual([])
            const ids = open.map(({ id }) => encodeId('msg', id))
            for (const id of ids) expect(await timesReceived(id), `${id} has been reported`).toBe(0)
            return ids
          },
          { withinMs: ALL_FINAL_WITHIN_MS, everyMs: 2000 },
        )
        const allFinalMs = elapsed() - tookMs

        // None lost: each was delivered, or the operator never had it.
        const statuses = new Map(
          (
            await sql<ReadonlyArray<{ status: string; reason: string | null; count: number }>>`
              SELECT status, reason_code AS reason, count(*)::int AS count FROM read.messages GROUP BY 1, 2`
          ).map(({ count, reason, status }) => [reason === null ? status : `${status}: ${reason}`, count]),
        )
        const expired = await sql<ReadonlyArray<{ id: string }>>`
          SELECT id FROM read.messages WHERE status = 'expired'`
        for (const { id } of expired) expect(await timesReceived(encodeId('msg', id))).toBe(0)
        const late = statuses.get('expired: ttl_expired_before_submit') ?? 0
        expect((statuses.get('delivered') ?? 0) + (statuses.get('sent') ?? 0) + late).toBe(accepted.size)
        const twice = await sql`
          SELECT body::jsonb #>> '{data,object,id}' AS id, type, count(*)::int AS count
          FROM read.events WHERE type LIKE 'message.%' GROUP BY 1, 2 HAVING count(*) > 1`
        expect(twice).toEqual([])

        // None handed over twice: by the log, and by the operator, which lived through it all.
        const log = await readHandoverHistory(kafka.brokers, ALL_FINAL_WITHIN_MS)
        expect(log.repeated).toEqual([])
        const neverReceived: Array<string> = []
        for (const id of log.unknown) {
          const times = await timesReceived(id)
          expect(times, `${id} was handed over once at most`).toBeLessThanOrEqual(1)
          if (times === 0) neverReceived.push(id)
        }
        expect(withoutReport.toSorted()).toEqual(neverReceived.toSorted())
        const operator = (await (await fetch(`${operator_url}/statistics`)).json()) as Record<string, number>
        expect(operator).toMatchObject({
          references: accepted.size - neverReceived.length - late,
          repeated: 0,
          unfinished: 0,
        })

        const lines = injected.map((fault) => {
          const gaps = [...log.claimTimes.values()]
            .map((times) => longestGap(times, fault))
            .toSorted((one, other) => one - other)
          return `  ${fault.name} ${fault.kind}: longest time without a hand-over, by shard: ${gaps.map(inSeconds).join(', ')} s`
        })
        console.log(
          [
            `seed ${SEED}: ${accepted.size} messages in ${inSeconds(tookMs)} s (${Math.round((accepted.size / tookMs) * 1000)}/s), ` +
              `${traffic.repeats} requests repeated, all at their end ${inSeconds(allFinalMs)} s later: ` +
              [...statuses].map(([status, count]) => `${count} ${status}`).join(', '),
            `${injected.length} blows, ${log.fences} fences; hand-overs of unknown outcome ${log.unknown.size}, of them ` +
              `${log.unknown.size - neverReceived.length} had reached the operator and ${neverReceived.length} had not; ` +
              `${log.refused} claims ended without a hand-over, ${log.voidClaims} were void; handed over twice: 0`,
            ...lines,
          ].join('\n'),
        )
      } finally {
        await sql.end()
      }
    },
    SECONDS * 1000 + 2 * ALL_FINAL_WITHIN_MS,
  )
})
