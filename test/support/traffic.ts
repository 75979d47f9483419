/**
 * Traffic at an even pace while something happens to the hub, and the question afterwards whether all of it went well: nothing lost,
 * nothing handed over twice, every event once, every event delivered.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { decodeId } from '@hub/domain'
import { eventually, openDatabase, type TlsReceiver } from '@hub/testkit'
import { type TestHub } from './hub.ts'
import { expect } from 'vitest'
import { allEvents, type Answer, client, send } from './client.ts'
import { readHandoverHistory } from './handover-history.ts'
import type { Mode } from './hub-admin.ts'

interface TrafficOptions {
  readonly post: (path: string, key: string, body: unknown) => Promise<Answer>
  readonly keys: Readonly<Record<Mode, string>>
  /** Sends a second, whatever the hub does: who writes to people does not slow down because a process is restarted. */
  readonly perSecond: number
  /** Begins every `client_ref`, and with `numbers` tells one traffic from another. */
  readonly name: string
  /** Recipients: seven more digits follow, one number a message. */
  readonly numbers: string
}

export interface Traffic {
  /** Ids of what was accepted so far. */
  readonly accepted: Readonly<Record<Mode, ReadonlySet<string>>>
  readonly count: () => number
  /** Of each accepted send: from the moment when it was due until it was accepted, ms. */
  readonly latenciesMs: ReadonlyArray<number>
  /** Sends that were refused for the moment, by status and code. */
  readonly refusals: ReadonlyMap<string, number>
  /** Those of them that a process answered which was about to end. */
  readonly refusedDuringShutdown: () => number
  /** Waits until so many more have been accepted. */
  readonly waitForAccepted: (messages: number) => Promise<void>
  /** Ends it and waits until every message that was begun has been accepted. */
  readonly stop: () => Promise<void>
}

/**
 * Requests under way: all that become due while one is answered, which takes 3 s at most. Only a hub that breaks that promise makes
 * clients wait with the next one, and what was due before that is not made up for. Source: contract, Unavailability.
 */
const MAX_IN_FLIGHT_SECONDS = 3
const TICK_MS = 20
/** Before a send that was refused for the moment comes again, as the contract tells clients to. */
const RETRY_AFTER_MS = 200
/** A bound on what hangs. */
const ACCEPTED_WITHIN_MS = 60_000

/** Sends both classes with both keys in turn until it is stopped. */
export const startTraffic = (options: TrafficOptions): Traffic => {
  const { keys, name, numbers, perSecond, post } = options
  const maxInFlight = Math.ceil(perSecond * MAX_IN_FLIGHT_SECONDS)
  const accepted = { live: new Set<string>(), test: new Set<string>() }
  const refusals = new Map<string, number>()
  const count = (): number => accepted.live.size + accepted.test.size
  const latenciesMs: Array<number> = []
  let refusedDuringShutdown = 0
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
      const what = `${answer.status} ${answer.body?.error?.code ?? ''}`
      refusals.set(what, (refusals.get(what) ?? 0) + 1)
      if (answer.headers.get('connection') === 'close') refusedDuringShutdown += 1
      if (performance.now() > deadline) throw new Error(`a send was not accepted: ${what}`)
      await delay(RETRY_AFTER_MS)
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
      }
      due = Math.max(due, performance.now() - MAX_IN_FLIGHT_SECONDS * 1000)
      await delay(TICK_MS)
    }
    await Promise.all(inFlight)
  })()

  return {
    accepted,
    count,
    latenciesMs,
    refusals,
    refusedDuringShutdown: () => refusedDuringShutdown,
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
  /** Hand-overs of which no answer was written down. */
  readonly unknown: number
  readonly fences: number
}

/**
 * What a hub says that is short of processor time, restart or not: Kafka did not confirm a code within a second, Redis did not answer
 * within a quarter of one. `npm test` shares its two cores with the hub and the starting processes; on a quiet machine there are none.
 */
const OVERLOADED: ReadonlySet<string> = new Set(['503 provider_unavailable', '422 recipient_flood_limited'])

/**
 * Fails where sends were refused for another reason than that, or by a process because it was about to end, or more often than this share
 * of them, at which it is no hiccup any more.
 */
export const expectFewRefusals = (traffic: Traffic, share: number): void => {
  expect([...traffic.refusals.keys()].filter((what) => !OVERLOADED.has(what))).toEqual([])
  expect(traffic.refusedDuringShutdown()).toBe(0)
  const refused = [...traffic.refusals.values()].reduce((sum, times) => sum + times, 0)
  expect(refused, JSON.stringify([...traffic.refusals])).toBeLessThanOrEqual(share * traffic.count())
}

/** A bound on what hangs: a backlog of some thousand messages on a busy machine. */
const WITHIN = { withinMs: 120_000, everyMs: 500 }
/** The kinds of a message that went well. */
const EVENT_TYPES = ['message.accepted', 'message.delivered', 'message.sent'].join()

/**
 * Waits until everything has come to its end, and fails where anything was lost, handed over twice, delivered twice in the journal, or not delivered
 * to the receiver (absent: nobody subscribes).
 */
export const expectNothingLostOrRepeated = async (
  hub: TestHub,
  traffic: Pick<Traffic, 'accepted' | 'count'>,
  receiver?: Pick<TlsReceiver, 'received'>,
): Promise<Outcome> => {
  const { base_url, database_url, kafka, keys, operator_url } = hub.describe()
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

  // Every event once, one of each kind a message.
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
      const of = kinds.get(data.object.id)
      if (of === undefined) kinds.set(data.object.id, [type])
      else of.push(type)
    }
    expect([...kinds].filter(([, types]) => types.toSorted().join() !== EVENT_TYPES)).toEqual([])
    expect(kinds.size).toBe(traffic.accepted[mode].size)
    all.push(...events)
  }
  expect(new Set(all.map(({ id }) => id)).size).toBe(all.length)

  // Handed over once: by the log, and by the operator, which lived through it all.
  const log = await readHandoverHistory(kafka.brokers, WITHIN.withinMs)
  expect(log.repeated).toEqual([])
  expect([...traffic.accepted.live, ...traffic.accepted.test].filter((id) => !log.claimed.has(id))).toEqual(
    [],
  )
  const operator = (await (await fetch(`${operator_url}/statistics`)).json()) as Record<string, number>
  expect(operator['repeated']).toBe(0)

  // Told: each event reaches the subscriber at least once.
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
