/** One partition on a real PostgreSQL with a real receiver and a clock that the test moves. */
import { describe, expect, it } from '@effect/vitest'
import { makeSupervisor } from '@hub/flow'
import { encodeId } from '@hub/domain'
import { type EventRecorded, encodeRecord, EventLog, type IncomingRecord, webhooksKey } from '@hub/kafka'
import { StorageUnavailable } from '@hub/store'
import { statusResponse, tlsReceiver } from '@hub/testkit'
import { WebhookClient } from '@hub/webhooks'
import { Context, Deferred, Effect, Layer, type Scope } from 'effect'
import { TestClock } from 'effect/testing'
import { makeDeliverer } from '../delivery/deliverer.ts'
import {
  type Account,
  certificate,
  clientLayer,
  type Deployment,
  makeDeploymentInRealTime,
} from '../testing/harness.ts'
import { openPartition, type Partition } from './partition.ts'
import { FANOUT_DEFAULTS, FanoutSettings, type Settings } from '../config.ts'
import { FanoutStore, type FanoutStoreShape } from '../store/store.port.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const START = Date.UTC(2026, 0, 5, 12)

/**
 * After so many turns of the event loop without a call in progress, no further call follows: fibers
 * may yield in between.
 */
const IDLE_TURNS = 25

/** A partition under a clock that stands still until it is moved. */
const open = Effect.fnUntraced(function* (
  hub: Deployment,
  account: Account,
  options: {
    readonly settings?: Partial<Settings>
    readonly store?: (real: FanoutStoreShape) => FanoutStoreShape
    /** Calls of the store that may stay in progress while time stands still. */
    readonly waiting?: ReadonlyArray<keyof FanoutStoreShape>
  } = {},
) {
  // While time stands still, outcomes are recorded only if they need not wait.
  const settings: Settings = { ...FANOUT_DEFAULTS, recordWithinMs: 0, ...options.settings }
  const real = Context.get(
    yield* Layer.build(Layer.fresh(hub.storeLayer)).pipe(Effect.provideService(FanoutSettings, settings)),
    FanoutStore,
  )
  // Calls to the database and the receiver that are in progress. Time must stand still meanwhile.
  let inProgress = 0
  const watched = <S extends object>(service: S): S =>
    Object.fromEntries(
      Object.entries(service).map(([name, method]) => [
        name,
        typeof method !== 'function' || options.waiting?.includes(name as keyof FanoutStoreShape) === true
          ? method
          : (...args: Array<unknown>) =>
              Effect.suspend(() => {
                inProgress += 1
                return Reflect.apply(method, service, args) as Effect.Effect<unknown, unknown>
              }).pipe(Effect.ensuring(Effect.sync(() => (inProgress -= 1)))),
      ]),
    ) as S
  const store = watched(options.store?.(real) ?? real)
  // Built for the scope of the test: a provided layer would end with its first use.
  const client = Context.get(yield* Layer.build(clientLayer), WebhookClient)
  const watchedClient = WebhookClient.of({
    ...client,
    begin: (delivery, deadlineMs, done) => {
      inProgress += 1
      return client.begin(delivery, deadlineMs, (result) => {
        inProgress -= 1
        done(result)
      })
    },
  })

  const consumerCalls: Array<'pause' | 'resume'> = []
  const shard = hub.log.partitionOf(webhooksKey(account.id, account.mode))
  const partition = yield* Effect.gen(function* () {
    let opened: Partition | null = null
    const deliverer = yield* makeDeliverer({
      mayStart: () => true,
      report: (subscription, outcome) => opened?.report(subscription, outcome),
      supervise: makeSupervisor().supervise,
    })
    const { epoch } = yield* real.acquire(shard)
    opened = yield* openPartition({
      ownership: { partition: shard, epoch },
      startAt: 0,
      sources: [{ account: account.id, mode: account.mode }],
      deliverer,
      consumer: {
        pause: () => consumerCalls.push('pause'),
        resume: () => consumerCalls.push('resume'),
        commit: () => Effect.void,
      },
    })
    yield* Effect.forkScoped(opened.run)
    return opened
  }).pipe(
    Effect.provideService(WebhookClient, watchedClient),
    Effect.provideService(FanoutStore, store),
    Effect.provideService(EventLog, hub.log),
    Effect.provideService(FanoutSettings, settings),
  )

  /** Waits until everything that is due at the current time is done. */
  const settle = Effect.promise(async () => {
    for (let turns = 0; turns < IDLE_TURNS; turns++) {
      await new Promise((resolve) => setImmediate(resolve))
      if (inProgress > 0) turns = -1
    }
  })
  let offset = 0
  const read = Effect.fnUntraced(function* (count: number) {
    const { createdAt, events, type } = yield* hub.record(account, count)
    const records = events.map((event): IncomingRecord => {
      const record: EventRecorded = {
        type: 'EventRecorded',
        event: event.id,
        account: account.id,
        mode: account.mode,
        sequence: event.sequence,
        eventType: type,
        createdAt,
        body: event.body,
      }
      return {
        topic: hub.topics.webhooks,
        partition: shard,
        offset: offset++,
        key: webhooksKey(account.id, account.mode),
        type: record.type,
        id: record.event,
        occurredAt: createdAt,
        traceparent: null,
        appendedAt: createdAt,
        value: encodeRecord(record),
      }
    })
    yield* partition.ingest(records)
    yield* settle
  })
  const pass = (ms: number) => Effect.andThen(TestClock.adjust(ms), settle)
  /** Moves time from one due batch to the next: queries would time out in a longer step. */
  const passTo = Effect.fnUntraced(function* (subscription: { readonly uuid: string }, target: number) {
    for (let now = 0; now < target;) {
      const [next] = yield* pending(hub, subscription)
      now = Math.min(target, next?.next_attempt_at.getTime() ?? target)
      yield* TestClock.setTime(now)
      yield* settle
    }
  })
  return { partition, pass, passTo, settle, read, consumerCalls }
})

const pending = (hub: Deployment, subscription: { readonly uuid: string }) =>
  hub.sql.run(
    (q) => q<{ next_attempt_at: Date; queued_at: Date }[]>`
      SELECT next_attempt_at, queued_at FROM webhooks.batches
      WHERE endpoint_id = ${subscription.uuid} ORDER BY next_attempt_at`,
  )

const test = (name: string, body: (hub: Deployment) => Effect.Effect<void, unknown, Scope.Scope>) =>
  it.effect(
    name,
    () => Effect.andThen(TestClock.setTime(START), Effect.flatMap(makeDeploymentInRealTime, body)),
    // A day of transactions; the machine may be slow.
    120_000,
  )

describe('a receiver that is down for a day', () => {
  // Rules: DEL-16, DEL-19, DEL-23
  test('gets attempts after 1, 2, 4, 8, 16, 32, 60, 60 … minutes, is disabled, and the batch is logged as expired', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, { respond: statusResponse(500) })
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url(), { announce: false })
      const { pass, settle, read } = yield* open(hub, account)
      yield* read(1)
      yield* pass(1000)
      const isEnabled = hub.sql
        .run(
          (q) => q`SELECT 1 FROM webhooks.endpoints WHERE id = ${subscription.uuid} AND status = 'enabled'`,
        )
        .pipe(Effect.map((rows) => rows.length === 1))
      while (yield* isEnabled) {
        const [batch] = yield* pending(hub, subscription)
        yield* TestClock.setTime(batch!.next_attempt_at.getTime())
        yield* settle
      }
      // At the time of the next attempt the subscription reads due batches once more. Time must
      // stand still for that.
      const [last] = yield* pending(hub, subscription)
      yield* TestClock.setTime(last!.next_attempt_at.getTime())
      yield* settle
      yield* TestClock.setTime(START + 1000 + 24 * HOUR)
      yield* settle
      const attempts = yield* hub.attemptsOf(subscription)
      expect(attempts.length).toBe(21)
      for (const [index, attempt] of attempts.slice(0, 19).entries()) {
        const wait = attempt.next_attempt_at!.getTime() - attempt.created_at.getTime()
        const minutes = Math.min(2 ** index, 60)
        expect(Math.abs(wait / MINUTE - minutes)).toBeLessThanOrEqual(minutes * 0.1 + 0.001)
        expect(attempts[index + 1]!.created_at).toEqual(attempt.next_attempt_at)
      }
      expect(attempts[19]).toMatchObject({ attempt: 20, reason: 'http_status', next_attempt_at: null })
      expect(attempts.at(-1)).toMatchObject({
        attempt: 20,
        status: 'failed',
        reason: 'retry_window_expired_while_disabled',
        next_attempt_at: null,
        created_at: new Date(START + 1000 + 24 * HOUR),
      })
      expect(new Set(receiver.received.map((request) => request.headers['hub-event-id'])).size).toBe(1)
      expect(receiver.received.length).toBe(20)
    }))

  // Rules: DEL-18
  test('and answers again gets all waiting batches at once, before their scheduled time', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, { respond: statusResponse(503) })
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url(), { announce: false })
      const { pass, passTo, read } = yield* open(hub, account)
      for (let i = 0; i < 10; i++) {
        yield* read(1)
        yield* pass(1000)
      }
      yield* passTo(subscription, START + 40 * MINUTE)
      receiver.respondWith(statusResponse(200))
      const waiting = yield* pending(hub, subscription)
      expect(waiting.length).toBe(10)
      yield* passTo(subscription, waiting[0]!.next_attempt_at.getTime())
      expect(yield* pending(hub, subscription)).toEqual([])
      const successes = (yield* hub.attemptsOf(subscription)).filter(({ status }) => status === 'succeeded')
      expect(successes.every(({ created_at }) => created_at < waiting[1]!.next_attempt_at)).toBe(true)
    }))

  test('for one batch only gets a limited number of early attempts of that batch', (hub) =>
    Effect.gen(function* () {
      let refused: string | undefined
      const receiver = yield* tlsReceiver(certificate, {
        respond: (received, response) => {
          refused ??= String(received.headers['hub-event-id'])
          response.writeHead(received.headers['hub-event-id'] === refused ? 422 : 200).end()
        },
      })
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url(), { announce: false })
      const { pass, read } = yield* open(hub, account)
      for (let i = 0; i < 40; i++) {
        yield* read(1)
        yield* pass(1000)
      }
      const tries = receiver.received.filter((request) => request.headers['hub-event-id'] === refused).length
      expect(tries).toBe(1 + FANOUT_DEFAULTS.earlyAttempts)
      expect((yield* pending(hub, subscription)).length).toBe(1)
    }))
})

describe('a backlog that takes many reads', () => {
  // Rules: DEL-22
  test('and is released by hand starts with the batch that disabled the subscription, and delivers each batch once', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url(), { announce: false })
      const settings = { batchEvents: 1, readyQueueLength: 4, inFlightEach: 2, recordTogether: 3 }
      yield* hub.sql.run(
        (q) => q`UPDATE webhooks.endpoints SET status = 'disabled_by_failures', disabled_at = now()`,
      )
      yield* Effect.scoped(Effect.flatMap(open(hub, account, { settings }), ({ read }) => read(40)))
      const waiting = yield* hub.sql.run(
        (q) => q<{ id: string }[]>`SELECT id FROM webhooks.batches ORDER BY first_sequence`,
      )
      const order = waiting.map(({ id }) => encodeId('evb', id))
      const [probe] = order.splice(30, 1)
      yield* hub.sql.run(
        (q) => q`
          UPDATE webhooks.endpoints SET status = 'enabled', disabled_at = NULL, disabled_by_batch = ${waiting[30]!.id},
                 backlog_released_at = ${new Date(START + 1)}`,
      )
      const blocked = yield* Deferred.make<void>()
      const { pass, settle } = yield* open(hub, account, {
        settings,
        // Delivered batches stay stored, so reads of due batches must leave them out.
        store: (real) => ({
          ...real,
          record: (...args) => Effect.andThen(Deferred.await(blocked), real.record(...args)),
        }),
        waiting: ['record'],
      })
      yield* pass(1)
      const delivered = receiver.received.map(({ headers }) => String(headers['hub-event-id']))
      expect(delivered).toHaveLength(40)
      expect(delivered[0]).toBe(probe)
      expect(new Set(delivered)).toEqual(new Set([probe, ...order]))
      expect(yield* pending(hub, subscription)).toHaveLength(40)
      yield* Deferred.succeed(blocked, undefined)
      while ((yield* pending(hub, subscription)).length > 0) yield* settle
      expect(yield* hub.attemptsOf(subscription)).toHaveLength(40)
    }))
})

describe('while PostgreSQL fails', () => {
  test('nothing is lost and nothing is delivered twice', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url(), { announce: false })
      const failing = { storeBatches: 3, record: 3 }
      const trouble = <A, E, R>(what: keyof typeof failing, effect: Effect.Effect<A, E, R>) =>
        Effect.suspend((): Effect.Effect<A, E | StorageUnavailable, R> => {
          failing[what] -= 1
          return failing[what] >= 0
            ? Effect.fail(new StorageUnavailable({ reason: 'unreachable', detail: 'test' }))
            : effect
        })
      const { pass, read } = yield* open(hub, account, {
        store: (real) => ({
          ...real,
          storeBatches: (...args) => trouble('storeBatches', real.storeBatches(...args)),
          record: (...args) => trouble('record', real.record(...args)),
        }),
      })
      yield* read(3)
      yield* pass(1000)
      expect(receiver.received.length).toBe(0)
      for (let i = 0; i < 3; i++) yield* pass(5000)
      expect(receiver.received.length).toBe(1)
      for (let i = 0; i < 6; i++) yield* pass(5000)
      expect(failing).toEqual({ storeBatches: -1, record: -1 })
      expect(receiver.received.length).toBe(1)
      expect((yield* hub.attemptsOf(subscription)).length).toBe(1)
      expect(yield* pending(hub, subscription)).toEqual([])
    }))

  test('unrecorded deliveries of a subscription have a bound', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url(), { announce: false })
      const blocked = yield* Deferred.make<void>()
      const { settle, read } = yield* open(hub, account, {
        settings: { batchEvents: 1, recordTogether: 3, inFlightEach: 4, unrecordedEach: 5 },
        store: (real) => ({
          ...real,
          record: (...args) => Effect.andThen(Deferred.await(blocked), real.record(...args)),
        }),
        // It waits until the test unblocks it.
        waiting: ['record'],
      })
      yield* read(40)
      expect(receiver.received.length).toBe(5)
      expect((yield* hub.attemptsOf(subscription)).length).toBe(0)
      yield* Deferred.succeed(blocked, undefined)
      yield* receiver.until((received) => received.length === 40)
      while ((yield* pending(hub, subscription)).length > 0) yield* settle
      expect(receiver.received.length).toBe(40)
      expect((yield* hub.attemptsOf(subscription)).length).toBe(40)
    }))

  test('the consumer is paused at the bound of collected events, and resumed when they are stored', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      yield* hub.subscribe(account, receiver.url(), { announce: false })
      const { partition, pass, read, consumerCalls } = yield* open(hub, account, {
        settings: { collectedEvents: 20 },
      })
      yield* read(20)
      expect(consumerCalls).toEqual([])
      yield* read(1)
      expect(consumerCalls).toEqual(['pause'])
      expect(partition.paused()).toBe(true)
      yield* pass(1000)
      expect(consumerCalls).toEqual(['pause', 'resume'])
      expect(partition.paused()).toBe(false)
    }))
})

describe('the stored position', () => {
  test('never passes an event that is not in a stored batch of each subscription', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      yield* hub.subscribe(account, receiver.url(), { announce: false })
      yield* hub.subscribe(account, receiver.url(), { announce: false, eventTypes: ['message.seen'] })
      const position = hub.sql
        .run((q) => q<{ position: string }[]>`SELECT max(position) AS position FROM webhooks.positions`)
        .pipe(Effect.map(([row]) => Number(row?.position)))
      const { pass, read } = yield* open(hub, account, { settings: { batchEvents: 10 } })
      yield* read(4)
      expect(yield* position).toBe(-1)
      yield* pass(600)
      // Fourteen events are collected. The first ten are a full batch, so the position passes only
      // these.
      yield* read(10)
      expect(yield* position).toBe(10)
      yield* pass(400)
      expect(yield* position).toBe(10)
      yield* pass(600)
      expect(yield* position).toBe(14)
    }))
})
