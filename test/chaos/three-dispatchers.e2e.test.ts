/**
 * Three dispatchers share the shards under live traffic. Every few seconds one of them is killed,
 * paused or stopped. The operator accepts every submit as a new message, so a repeat would be
 * visible. No message may be lost, stuck, or handed over twice.
 *
 *   HUB_CHAOS_SECONDS=120 HUB_CHAOS_RATE=1000 [HUB_CHAOS_SEED=…] npm run test:e2e -- three-dispatchers
 */
import { randomInt } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { encodeId } from '@hub/domain'
import { eventually, openDatabase } from '@hub/testkit'
import { type ProcessHandle, readMetric, startHub, operatorStatistics, type TestHub } from '../support/hub.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Client, client } from '../support/client.ts'
import { readHandoverHistory } from '../support/handover-history.ts'
import { seededRandom } from '../support/seeded-random.ts'

const readNumber = (name: string, defaultValue: number): number => {
  const text = process.env[name] ?? ''
  if (text === '') return defaultValue
  if (!/^[1-9]\d{0,8}$/u.test(text)) throw new Error(`${name} must be a positive integer`)
  return Number(text)
}

/** The default in `npm test`: each fault once, at a rate that two busy cores can handle. */
const SECONDS = readNumber('HUB_CHAOS_SECONDS', 20)
/** Messages per second. */
const RATE = readNumber('HUB_CHAOS_RATE', 150)
const SEED = readNumber('HUB_CHAOS_SEED', randomInt(1, 1_000_000_000))

/** The response time of the operator, so that each dispatcher always has messages in flight. */
const ANSWER_AFTER_MS = 100
/** The interval of batches. */
const BATCH_EVERY_MS = 250
/** Batches in flight. At this limit the rate follows the answers. */
const BATCHES = 8
/** The interval of faults. */
const FAULT_EVERY_MS = 5000
/** Longer than the six seconds after which the group removes a silent member. */
const PAUSED_MS = 9000
/** By then the other members own its shards. */
const AWAY_MS = 12_000
/**
 * Errors of an overloaded hub: Kafka did not confirm a code, Redis did not respond in time, or the
 * reservation of a failed request has not expired yet (docs/decisions/limits.md#flood-windows). No recipient
 * gets a second message in this test.
 */
const RETRYABLE: ReadonlySet<string> = new Set([
  'provider_unavailable',
  'internal_error',
  'recipient_flood_limited',
])
/** The pause before the refused elements of a batch are repeated. */
const RETRY_AFTER_MS = 500
const EVERY = { everyMs: 250 }
/** The traffic continues for this long after the last fault. */
const QUIET_MS = 5000
/** Only ends a wait that hangs: on a busy machine the backlog of the whole run may remain. */
const ALL_FINAL_WITHIN_MS = 180_000 + SECONDS * 4000

const FAULTS = {
  'killed and restarted': async (process: ProcessHandle) => {
    process.kill('SIGKILL')
    await process.exited()
    await process.restart()
  },
  'killed and away': async (process: ProcessHandle) => {
    process.kill('SIGKILL')
    await process.exited()
    await delay(AWAY_MS)
  },
  paused: async (process: ProcessHandle) => {
    process.kill('SIGSTOP')
    await delay(PAUSED_MS)
    process.kill('SIGCONT')
    await process.waitReady()
  },
  'stopped and restarted': async (process: ProcessHandle) => {
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
  /** The time when all dispatchers were healthy again, before the next fault. */
  readonly until: number
}

let hub: TestHub
beforeAll(async () => {
  hub = await startHub({ apiRps: 100_000, dispatchers: 3, liveOperator: 'smpp' })
})
afterAll(() => hub?.stop())

/** Reads a metric of a dispatcher. */
const metricOf = ({ name }: ProcessHandle, metric: string): Promise<number> => {
  const urls: Readonly<Record<string, string>> = hub.describe().metrics_urls
  return readMetric(urls[name]!, metric)
}

/** Waits until each dispatcher has two of the six shards and hands messages over. */
const untilHealthy = async (): Promise<void> => {
  const submitted = (dispatcher: ProcessHandle) =>
    metricOf(dispatcher, 'hub_dispatcher_handover_latency_seconds_count')
  await Promise.all(
    hub.dispatchers.map(async (dispatcher) => {
      await eventually(async () => (await metricOf(dispatcher, 'hub_dispatcher_open_shards')) === 2, EVERY)
      const before = await submitted(dispatcher)
      await eventually(async () => (await submitted(dispatcher)) > before, EVERY)
    }),
  )
}

interface Message {
  readonly body: { readonly to: string } & Readonly<Record<string, unknown>>
  /** The text that the operator receives. */
  readonly text: string
}

/**
 * Creates a message. Every fourth is a code. Each has its own recipient and text, by which the
 * operator counts it.
 */
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
 * Sends batches at a constant rate until `isOver`. Refused elements are repeated with the same
 * `client_ref`. Returns the accepted messages by id.
 */
const sendWhile = async (hubClient: Client, isOver: () => boolean) => {
  const accepted = new Map<string, Message>()
  /** Unexpected errors. They are checked at the end because the traffic continues. */
  const refused = new Set<string>()
  let repeats = 0
  let next = 0
  const sendBatch = async (messages: ReadonlyArray<Message>): Promise<void> => {
    for (let left = messages; left.length > 0;) {
      const answer = await hubClient
        .post('/v1/messages/batch', { messages: left.map(({ body }) => body) })
        .catch(() => null)
      if (answer?.status === 202) {
        const retry: Array<Message> = []
        for (const [i, result] of answer.body.results.entries()) {
          const id = result.message?.id ?? result.message_id
          if (id !== undefined) accepted.set(id, left[i]!)
          else if (RETRYABLE.has(result.error.code)) retry.push(left[i]!)
          else refused.add(result.error.code)
        }
        left = retry
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
    // Sends that the hub cannot handle are dropped: the rate follows its answers.
    if (inFlight.size >= BATCHES) await Promise.race(inFlight)
    due = Math.max(due + BATCH_EVERY_MS, performance.now() - BATCH_EVERY_MS)
    await delay(Math.max(0, due - performance.now()))
  }
  await Promise.all(inFlight)
  return { accepted, refused, repeats, sent: next }
}

/**
 * Returns the longest time in ms in which a shard handed nothing over, from a fault until all
 * dispatchers were healthy again.
 */
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

describe(`three dispatchers under ${RATE} messages a second for ${SECONDS} s, with a fault every few seconds (seed ${SEED})`, () => {
  it(
    'lose no message, leave none open, and hand none over twice',
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
        // Every fault occurs at least once, on any machine.
        for (let round = 0; round === 0 || elapsed() < SECONDS * 1000; round++) {
          for (const kind of random.shuffled(FAULT_KINDS)) {
            if (round > 0 && elapsed() > SECONDS * 1000) return
            const victim = hub.dispatchers[random.below(hub.dispatchers.length)]!
            const at = Date.now()
            await FAULTS[kind](victim)
            // One fault at a time: the next waits until the dispatcher is healthy again.
            await delay(Math.max(0, at + FAULT_EVERY_MS - Date.now()))
            if (kind !== 'killed and away') await untilHealthy()
            injected.push({ kind, name: victim.name, at, until: Date.now() })
            if (kind === 'killed and away') {
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

      /** Returns how often the operator received a message. */
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
        // No message is stuck. Only a message that counts as sent and that the operator never
        // received gets no report.
        const withoutReport = await eventually(
          async () => {
            const [all] = await sql<ReadonlyArray<{ count: number }>>`
              SELECT count(*)::int AS count FROM read.messages WHERE account IS NOT NULL`
            expect(all?.count).toBe(accepted.size)
            const open = await sql<ReadonlyArray<{ id: string; status: string }>>`
              SELECT id, status FROM read.messages WHERE NOT final LIMIT 1000`
            expect(open.filter(({ status }) => status !== 'sent')).toEqual([])
            const ids = open.map(({ id }) => encodeId('msg', id))
            for (const id of ids)
              expect(await timesReceived(id), `the operator received ${id}, but it has no final status`).toBe(
                0,
              )
            return ids
          },
          { withinMs: ALL_FINAL_WITHIN_MS, everyMs: 2000 },
        )
        const allFinalMs = elapsed() - tookMs

        // No message is lost: each was delivered, or the operator never received it.
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

        // No message was handed over twice: according to the log, and according to the operator,
        // which ran all the time.
        const log = await readHandoverHistory(kafka.brokers, ALL_FINAL_WITHIN_MS)
        expect(log.repeated).toEqual([])
        const neverReceived: Array<string> = []
        for (const id of log.unknown) {
          const times = await timesReceived(id)
          expect(times, `${id} was handed over more than once`).toBeLessThanOrEqual(1)
          if (times === 0) neverReceived.push(id)
        }
        expect(withoutReport.toSorted()).toEqual(neverReceived.toSorted())
        const operator = await operatorStatistics(hub)
        expect(operator).toMatchObject({
          references: accepted.size - neverReceived.length - late,
          repeated: 0,
          unfinished: 0,
        })

        const lines = injected.map((fault) => {
          const gaps = [...log.claimTimes.values()]
            .map((times) => longestGap(times, fault))
            .toSorted((a, b) => a - b)
          return `  ${fault.name} ${fault.kind}: longest time without a handover, by shard: ${gaps.map(inSeconds).join(', ')} s`
        })
        console.log(
          [
            `seed ${SEED}: ${accepted.size} messages in ${inSeconds(tookMs)} s (${Math.round((accepted.size / tookMs) * 1000)}/s), ` +
              `${traffic.repeats} requests repeated, all final ${inSeconds(allFinalMs)} s later: ` +
              [...statuses].map(([status, count]) => `${count} ${status}`).join(', '),
            `${injected.length} faults, ${log.fences} fences; ${log.unknown.size} handovers of unknown outcome, of which ` +
              `${log.unknown.size - neverReceived.length} the operator received and ${neverReceived.length} it did not; ` +
              `${log.refused} claims ended without a handover, ${log.voidClaims} were void; handed over twice: 0`,
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
