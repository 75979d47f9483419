/**
 * Sends messages at a constant rate while a test disturbs the hub, and checks the result: no
 * message is lost or handed over twice, and every event is recorded once and delivered.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { decodeId } from '@hub/domain'
import { eventually, openDatabase, type TlsReceiver } from '@hub/testkit'
import { operatorStatistics, type TestHub } from './hub.ts'
import { expect } from 'vitest'
import { allEvents, type Answer, client, send } from './client.ts'
import { readHandoverHistory } from './handover-history.ts'
import type { Mode } from './hub-admin.ts'

interface TrafficOptions {
  readonly post: (path: string, key: string, body: unknown) => Promise<Answer>
  readonly keys: Readonly<Record<Mode, string>>
  /** Sends per second. The rate does not drop when a process restarts. */
  readonly perSecond: number
  /** The prefix of every `client_ref`. It and `numbers` separate concurrent traffic. */
  readonly name: string
  /** The prefix of the recipients. Seven digits follow, and each message has its own number. */
  readonly numbers: string
}

export interface Traffic {
  /** Ids of the messages accepted so far. */
  readonly accepted: Readonly<Record<Mode, ReadonlySet<string>>>
  readonly count: () => number
  /**
   * The latencies of the accepted sends in ms: from the scheduled time of the send to its
   * acceptance.
   */
  readonly latenciesMs: ReadonlyArray<number>
  /** The number of temporary refusals, by status and code. */
  readonly refusals: ReadonlyMap<string, number>
  /** Waits until this many further messages are accepted. */
  readonly waitForAccepted: (messages: number) => Promise<void>
  /** Stops the traffic and waits until every message that was begun is accepted. */
  readonly stop: () => Promise<void>
}

/**
 * The limit on requests in flight: those that become due within half a second. A quiet machine answers
 * within a tenth of it. On a busy machine it lowers the rate to what the hub can answer within its
 * deadlines, and sends that were due meanwhile are dropped. Otherwise the hub would spend its time on
 * refusals.
 */
const MAX_IN_FLIGHT_SECONDS = 0.5
const TICK_MS = 20
/** The pause before a send is repeated whose refusal has no `Retry-After`. */
const RETRY_AFTER_MS = 200
/** The hub spreads the repeats after an overload over ten seconds. Flood windows may be longer. */
const MAX_RETRY_AFTER_MS = 10_000
/**
 * Only ends a wait that hangs. On a busy machine Kafka may confirm most codes too late, and with ten
 * seconds between two repeats, a minute has only six of them.
 */
const ACCEPTED_WITHIN_MS = 300_000

/** Sends both classes with both keys in turn until `stop`. */
export const startTraffic = (options: TrafficOptions): Traffic => {
  const { keys, name, numbers, perSecond, post } = options
  const maxInFlight = Math.ceil(perSecond * MAX_IN_FLIGHT_SECONDS)
  const accepted = { live: new Set<string>(), test: new Set<string>() }
  const refusals = new Map<string, number>()
  const count = (): number => accepted.live.size + accepted.test.size
  const latenciesMs: Array<number> = []
  let stopping = false
  let failure: unknown = null
  let next = 0

  const sendOne = async (index: number, due: number): Promise<void> => {
    const mode = index % 2 === 0 ? 'test' : 'live'
    const to = `${numbers}${String(index).padStart(7, '0')}`
    const body = send(index % 4 < 2 ? 'otp' : 'service', to, `${name}-${index}`)
    const deadline = performance.now() + ACCEPTED_WITHIN_MS
    for (;;) {
      const answer = await post('/v1/messages', keys[mode], body)
      if (answer.status === 202) {
        accepted[mode].add(answer.body.id)
        latenciesMs.push(performance.now() - due)
        return
      }
      const { code = '', window = '' } = answer.body?.error ?? {}
      const error = `${answer.status} ${code} ${window}`.trimEnd()
      refusals.set(error, (refusals.get(error) ?? 0) + 1)
      if (performance.now() > deadline)
        throw new Error(`a send was not accepted. The last error was ${error}`)
      const retryAfter = Number(answer.headers.get('retry-after') ?? 0) * 1000
      await delay(Math.min(Math.max(retryAfter, RETRY_AFTER_MS), MAX_RETRY_AFTER_MS))
    }
  }

  const sending = (async () => {
    const inFlight = new Set<Promise<void>>()
    let due = performance.now()
    while (!stopping) {
      for (; due <= performance.now() && !stopping; due += 1000 / perSecond) {
        const sent = sendOne(next++, due)
          .catch((error: unknown) => {
            failure ??= error
          })
          .finally(() => inFlight.delete(sent))
        inFlight.add(sent)
        if (inFlight.size >= maxInFlight) await Promise.race(inFlight)
        due = Math.max(due, performance.now() - MAX_IN_FLIGHT_SECONDS * 1000)
      }
      await delay(TICK_MS)
    }
    await Promise.all(inFlight)
  })()

  return {
    accepted,
    count,
    latenciesMs,
    refusals,
    waitForAccepted: async (messages) => {
      const target = count() + messages
      while (count() < target && failure === null) await delay(TICK_MS)
      if (failure !== null) throw failure
    },
    stop: async () => {
      stopping = true
      await sending
      if (failure !== null) throw failure
    },
  }
}

export interface Outcome {
  readonly messages: number
  readonly events: number
  /** The number of handovers without a recorded response. */
  readonly unknown: number
  readonly fences: number
}

/**
 * Refusals of a hub that is short of CPU time: it could not answer in time, Kafka did not confirm a
 * code in time, or Redis did not check the flood windows in time. `npm test` shares two cores with
 * the hub and the starting processes, so their number says nothing. A quiet machine has none.
 */
const OVERLOADED: ReadonlySet<string> = new Set([
  '503 overloaded',
  '503 provider_unavailable',
  '503 internal_error',
  '422 recipient_flood_limited',
])

/** Fails if sends were refused for another reason than overload. */
export const expectOnlyOverload = (traffic: Traffic): void => {
  expect([...traffic.refusals.keys()].filter((error) => !OVERLOADED.has(error))).toEqual([])
}

/** Only ends a wait that hangs: a busy machine may have a backlog of some thousand messages. */
const WITHIN = { withinMs: 180_000, everyMs: 500 }
/** The event types of a delivered message. */
const EVENT_TYPES = ['message.accepted', 'message.delivered', 'message.sent'].join()

/**
 * Waits until every message is final. Fails if a message was lost or handed over twice, if an event
 * is missing or duplicate in the journal, or if the receiver did not get it (without a receiver: no
 * such check).
 */
export const expectNothingLostOrRepeated = async (
  hub: TestHub,
  traffic: Pick<Traffic, 'accepted' | 'count'>,
  receiver?: Pick<TlsReceiver, 'received'>,
): Promise<Outcome> => {
  const { base_url, database_url, kafka, keys } = hub.describe()
  const sql = openDatabase(database_url)
  try {
    const ids = [...traffic.accepted.live, ...traffic.accepted.test].map((id) => decodeId('msg', id)!)
    expect(new Set(ids).size).toBe(traffic.count())
    await eventually(async () => {
      const rows = await sql<ReadonlyArray<{ status: string; count: number }>>`
        SELECT status, count(*)::int AS count FROM read.messages WHERE id = ANY (${ids}::uuid[]) GROUP BY status`
      expect([...rows]).toEqual([{ status: 'delivered', count: ids.length }])
      return true
    }, WITHIN)
  } finally {
    await sql.end()
  }

  // Every message has each event once.
  const all: Array<any> = []
  for (const mode of ['live', 'test'] as const) {
    const apiClient = client(base_url, keys[mode])
    const events = await eventually(async () => {
      const found = (await allEvents(apiClient)).filter(({ data }) =>
        traffic.accepted[mode].has(data.object.id),
      )
      expect(found.length).toBeGreaterThanOrEqual(3 * traffic.accepted[mode].size)
      return found
    }, WITHIN)
    const kinds = new Map<string, Array<string>>()
    for (const { data, type } of events) {
      const types = kinds.get(data.object.id)
      if (types === undefined) kinds.set(data.object.id, [type])
      else types.push(type)
    }
    expect([...kinds].filter(([, types]) => types.toSorted().join() !== EVENT_TYPES)).toEqual([])
    expect(kinds.size).toBe(traffic.accepted[mode].size)
    all.push(...events)
  }
  expect(new Set(all.map(({ id }) => id)).size).toBe(all.length)

  // Each message was handed over once: according to the log, and according to the operator, which
  // ran all the time.
  const log = await readHandoverHistory(kafka.brokers, WITHIN.withinMs)
  expect(log.repeated).toEqual([])
  expect([...traffic.accepted.live, ...traffic.accepted.test].filter((id) => !log.claimed.has(id))).toEqual(
    [],
  )
  const operator = await operatorStatistics(hub)
  expect(operator['repeated']).toBe(0)

  // Each event reaches the subscriber at least once.
  if (receiver !== undefined) {
    const delivered = new Set<string>()
    let seen = 0
    await eventually(() => {
      for (; seen < receiver.received.length; seen++) {
        for (const { id } of JSON.parse(receiver.received[seen]!.body.toString('utf8'))) delivered.add(id)
      }
      expect(all.filter(({ id }) => !delivered.has(id)).map(({ id }) => id)).toEqual([])
      return true
    }, WITHIN)
  }
  return { messages: traffic.count(), events: all.length, unknown: log.unknown.size, fences: log.fences }
}
