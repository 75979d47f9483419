/** The whole fan-out on real Kafka and PostgreSQL, with real TLS receivers. */
import { randomUUID } from 'node:crypto'
import { describe, expect, it } from '@effect/vitest'
import { encodeId, eventBatchId } from '@hub/domain'
import { ANSWERED_WITHIN_MS, statusResponse, type Received, tlsReceiver } from '@hub/testkit'
import { enableSubscription } from '@hub/webhooks'
import { Cause, Deferred, Effect, Exit, Fiber, Layer, Schedule, type Scope } from 'effect'
import { Stripe } from 'stripe'
import { certificate, type Deployment, makeDeployment, PARTITIONS } from './testing/harness.ts'
import { FANOUT_DEFAULTS } from './config.ts'
import { FanoutStore } from './store/store.port.ts'

const HOUR = 3_600_000

/** Long enough for a slow machine; it ends a test that hangs. */
const TIMEOUT = 120_000

const eventIds = (received: Received): ReadonlyArray<string> =>
  (JSON.parse(received.body.toString('utf8')) as ReadonlyArray<{ id: string }>).map(({ id }) => id)
const allIds = (received: ReadonlyArray<Received>) => received.flatMap(eventIds)
const idsOf = (events: ReadonlyArray<{ readonly id: string }>) => events.map(({ id }) => id)
const batchOf = (received: Received | undefined) => received?.headers['hub-event-id']

const test = (
  name: string,
  body: (hub: Deployment) => Effect.Effect<void, unknown, Scope.Scope>,
  timeout = TIMEOUT,
) => it.live(name, () => Effect.flatMap(makeDeployment, body), timeout)

const pendingOf = (hub: Deployment, subscription: { readonly uuid: string }) =>
  hub.sql
    .run(
      (q) => q<{ count: number }[]>`
        SELECT count(*)::int AS count FROM webhooks.batches WHERE endpoint_id = ${subscription.uuid}`,
    )
    .pipe(Effect.map(([row]) => row?.count))

const waitUntilEnded = (hub: Deployment, subscription: { readonly uuid: string }, batches: number) =>
  hub.eventually(async (q) => {
    const [row] = await q<{ count: number }[]>`
      SELECT count(DISTINCT batch_id)::int AS count FROM webhooks.attempts a
      WHERE a.endpoint_id = ${subscription.uuid} AND NOT EXISTS (SELECT 1 FROM webhooks.batches b WHERE b.id = a.batch_id)`
    return row?.count === batches
  })

describe('events', () => {
  // Rules: DEL-1, DEL-8, SUB-28
  test('arrive as one signed array of their exact texts, which stripe verifies', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url('/hook?key=s3cret'))
      yield* hub.start()
      const events = yield* hub.emit(account, 3)
      const [request] = yield* receiver.until((received) => received.length === 1)
      expect(request?.body.toString('utf8')).toBe(`[${events.map((event) => event.body).join(',')}]`)
      expect(batchOf(request)).toBe(eventBatchId(subscription.id, events[0]!.id, 3))
      const verified: unknown = Stripe.webhooks.constructEvent(
        request!.body,
        String(request?.headers['hub-signature']),
        subscription.secret,
      )
      expect(verified).toEqual(events.map((event) => JSON.parse(event.body)))
      yield* waitUntilEnded(hub, subscription, 1)
      expect(yield* hub.attemptsOf(subscription)).toMatchObject([
        { attempt: 1, status: 'succeeded', response_code: 200, reason: null, next_attempt_at: null },
      ])
    }))

  // Rules: DEL-2, DEL-4, SUB-4
  test('arrive in batches of a hundred, and each subscription gets only its event types', (hub) =>
    Effect.gen(function* () {
      const [all, some] = [yield* tlsReceiver(certificate), yield* tlsReceiver(certificate)]
      const account = yield* hub.account()
      yield* hub.subscribe(account, all.url())
      yield* hub.subscribe(account, some.url(), { eventTypes: ['message.delivered'] })
      const other = yield* hub.account()
      yield* hub.start()
      yield* hub.emit(other, 1)
      const sent = yield* hub.emit(account, 230)
      const delivered = yield* hub.emit(account, 2, 'message.delivered')
      const requests = yield* all.until((received) => allIds(received).length >= 232)
      expect(
        requests
          .map((request) => eventIds(request).length)
          .sort((a, b) => b - a)
          .slice(0, 2),
      ).toEqual([100, 100])
      expect(new Set(allIds(requests))).toEqual(new Set([...idsOf(sent), ...idsOf(delivered)]))
      const filtered = yield* some.until((received) => allIds(received).length >= 2)
      expect(allIds(filtered)).toEqual(idsOf(delivered))
    }))

  // Rules: DEL-3
  test('of one batch arrive in journal order, whatever their order in the topic', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url())
      yield* hub.start()
      // The subscription has caught up with the journal, so the next events come from the topic.
      yield* hub.emit(account, 1)
      yield* waitUntilEnded(hub, subscription, 1)
      // Two projectors publish the events of an account, each its own ones.
      const recorded = yield* hub.record(account, 6)
      const [a, b, c, d, e, f] = recorded.events
      yield* hub.publish(account, { ...recorded, events: [b!, d!, f!, a!, c!, e!] })
      const [, request] = yield* receiver.until((received) => received.length === 2)
      expect(eventIds(request!)).toEqual(idsOf(recorded.events))
      yield* waitUntilEnded(hub, subscription, 2)
      const stored = yield* hub.sql.run(
        (q) => q<{ id: string }[]>`
          SELECT event_id AS id FROM webhooks.batch_events
           WHERE batch_id = (SELECT batch_id FROM webhooks.attempts ORDER BY id DESC LIMIT 1)
           ORDER BY position`,
      )
      expect(stored.map(({ id }) => encodeId('evt', id))).toEqual(idsOf(recorded.events))
    }))

  // Rules: DEL-4
  test('of a mode go to subscriptions of that mode', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const live = yield* hub.account('live')
      const inTest = { ...live, mode: 'test' as const }
      yield* hub.subscribe(inTest, receiver.url())
      yield* hub.start()
      yield* hub.emit(live, 2)
      const wanted = yield* hub.emit(inTest, 1)
      expect(allIds(yield* receiver.until((received) => received.length > 0))).toEqual(idsOf(wanted))
    }))

  test('that are read twice are delivered once', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url())
      const first = yield* hub.start()
      const events = yield* hub.emit(account, 5)
      yield* waitUntilEnded(hub, subscription, 1)
      yield* first.stop
      // Like a crash before the position was stored: all records come again, with one more event.
      yield* hub.sql.run((q) => q`UPDATE webhooks.positions SET position = 0`)
      yield* hub.start()
      const more = yield* hub.emit(account, 1)
      const requests = yield* receiver.until((received) => received.length >= 2)
      expect(requests.map(eventIds)).toEqual([idsOf(events), idsOf(more)])
    }))

  test('that cannot be decoded are dead-lettered, and the next ones are delivered', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      yield* hub.subscribe(account, receiver.url())
      yield* hub.start()
      yield* hub.log.append(
        [
          {
            topic: hub.topics.webhooks,
            key: `${account.id}:live`,
            type: 'EventRecorded',
            id: 'evt_broken',
            occurredAt: Date.now(),
            value: Buffer.from('not a record'),
          },
        ],
        { deadlineMs: ANSWERED_WITHIN_MS },
      )
      const events = yield* hub.emit(account, 1)
      expect(allIds(yield* receiver.until((received) => received.length > 0))).toEqual(idsOf(events))
    }))
})

describe('a new subscription', () => {
  // Rules: DEL-4
  test('gets the events that are recorded after its creation, and none before', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      yield* hub.start()
      // Recorded before the creation, published after it.
      const before = yield* hub.record(account, 2)
      const subscription = yield* hub.subscribe(account, receiver.url(), { announce: false })
      // Recorded after the creation, read before the record of the subscription.
      const between = yield* hub.emit(account, 2)
      yield* hub.publish(account, before)
      yield* hub.change(account, subscription, 'created')
      const after = yield* hub.emit(account, 2)
      const requests = yield* receiver.until((received) => allIds(received).length >= 4)
      expect(allIds(requests)).toEqual([...idsOf(between), ...idsOf(after)])
    }))

  test('gets them also if it is created while no process runs', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      yield* hub.emit(account, 2)
      yield* hub.subscribe(account, receiver.url())
      const after = yield* hub.emit(account, 2)
      yield* hub.start()
      expect(allIds(yield* receiver.until((received) => received.length > 0))).toEqual(idsOf(after))
    }))
})

describe('the lag of an idle fan-out', () => {
  test('becomes 0 in each partition, for tools that read the committed positions', (hub) =>
    Effect.gen(function* () {
      yield* hub.start()
      const idle = Array.from({ length: PARTITIONS }, () => 0)
      const untilIdle = hub.groupLag.pipe(
        Effect.repeat({
          until: (lag) => lag.every((records) => records === 0),
          schedule: Schedule.spaced('100 millis'),
        }),
      )
      // KEDA counts a partition without a committed position as one record behind (its Kafka scaler, `getLagForPartition`).
      expect(yield* untilIdle).toEqual(idle)
      // The second record comes less than a second after the first one has been stored.
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, 'https://127.0.0.1:9/')
      yield* hub.eventually(async (q) => {
        const [row] = await q<{ moved: boolean }[]>`
          SELECT coalesce(max(position), 0) > 0 AS moved FROM webhooks.positions`
        return row?.moved === true
      })
      yield* hub.change(account, subscription, 'enabled')
      expect(yield* untilIdle).toEqual(idle)
    }))
})

describe('a failed attempt', () => {
  // Rules: DEL-7, DEL-19
  test('is repeated by the schedule with the same id and bytes, and is in the delivery log', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, { respond: statusResponse(500) })
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url())
      yield* hub.start()
      yield* hub.emit(account, 2)
      yield* receiver.until((received) => received.length === 2)
      receiver.respondWith(statusResponse(200))
      yield* waitUntilEnded(hub, subscription, 1)
      const requests = receiver.received
      expect(new Set(requests.map(batchOf)).size).toBe(1)
      for (const request of requests) expect(request.body.equals(requests[0]!.body)).toBe(true)
      const attempts = yield* hub.attemptsOf(subscription)
      expect(attempts.length).toBe(requests.length)
      expect(attempts.map(({ attempt }) => attempt)).toEqual(requests.map((_, index) => index + 1))
      for (const failed of attempts.slice(0, -1)) {
        expect(failed).toMatchObject({ status: 'failed', response_code: 500, reason: 'http_status' })
        expect(failed.next_attempt_at).not.toBeNull()
      }
      expect(attempts.at(-1)).toMatchObject({ status: 'succeeded', response_code: 200, reason: null })
      const [row] = yield* hub.sql.run(
        (q) =>
          q`SELECT consecutive_failures, first_failure_at FROM webhooks.endpoints WHERE id = ${subscription.uuid}`,
      )
      expect(row).toEqual({ consecutive_failures: 0, first_failure_at: null })
    }))

  // Rules: DEL-12
  test('by a redirect is not followed', (hub) =>
    Effect.gen(function* () {
      const other = yield* tlsReceiver(certificate)
      const receiver = yield* tlsReceiver(certificate, {
        respond: statusResponse(307, { location: other.url() }),
      })
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url())
      yield* hub.start({ settings: { nextAttemptAt: ({ failedAt }) => failedAt + HOUR } })
      yield* hub.emit(account, 1)
      yield* hub.eventually(
        async (q) =>
          (await q`SELECT 1 FROM webhooks.attempts WHERE endpoint_id = ${subscription.uuid}`).length === 1,
      )
      expect(yield* hub.attemptsOf(subscription)).toMatchObject([
        { status: 'failed', response_code: 307, reason: 'redirect' },
      ])
      expect(other.received).toEqual([])
    }))

  // Rules: DEL-15, DEL-18
  test('of a batch does not delay a new one, whose success releases the others in the order of their events', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, { respond: statusResponse(503) })
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url())
      yield* hub.start({
        settings: {
          batchEvents: 1,
          inFlightEach: 1,
          inFlightEachFailing: 1,
          nextAttemptAt: ({ failedAt }) => failedAt + HOUR,
        },
      })
      const backlog = yield* hub.emit(account, 40)
      yield* hub.eventually(
        async (q) =>
          (await q`SELECT 1 FROM webhooks.attempts WHERE endpoint_id = ${subscription.uuid}`).length === 40,
      )
      receiver.respondWith(statusResponse(200))
      const [trigger] = yield* hub.emit(account, 1)
      yield* waitUntilEnded(hub, subscription, 41)
      expect(receiver.received.slice(40).flatMap(eventIds)).toEqual([trigger!.id, ...idsOf(backlog)])
    }))

  // Rules: DEL-19, DEL-21
  test('disables the subscription at the limit of consecutive failures, and later events are kept', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, { respond: statusResponse(500) })
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url())
      yield* hub.sql.run(
        (q) => q`
          UPDATE webhooks.endpoints SET consecutive_failures = 19, first_failure_at = now() - interval '61 minutes'
          WHERE id = ${subscription.uuid}`,
      )
      yield* hub.start()
      yield* hub.emit(account, 1)
      yield* hub.eventually(
        async (q) =>
          (await q`SELECT 1 FROM webhooks.endpoints WHERE id = ${subscription.uuid} AND status <> 'enabled'`)
            .length === 1,
      )
      yield* hub.emit(account, 1)
      yield* hub.eventually(
        async (q) =>
          (await q`SELECT 1 FROM webhooks.batches WHERE endpoint_id = ${subscription.uuid}`).length === 2,
      )
      // After a delivery of another subscription of the partition, a further attempt would have
      // been made.
      const other = yield* tlsReceiver(certificate)
      yield* hub.subscribe(account, other.url())
      yield* hub.emit(account, 1)
      yield* other.until((received) => received.length === 1)
      expect(receiver.received.length).toBe(1)
      const [row] = yield* hub.sql.run(
        (q) => q`SELECT status, consecutive_failures, disabled_reason, disabled_at IS NOT NULL AS at
                 FROM webhooks.endpoints WHERE id = ${subscription.uuid}`,
      )
      expect(row).toEqual({
        status: 'disabled_by_failures',
        consecutive_failures: 20,
        disabled_reason: 'http_status',
        at: true,
      })
    }))
})

describe('a batch', () => {
  // Rules: DEL-17, SUB-30
  test('fails with an entry in the delivery log when its retry window closes', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, { respond: statusResponse(500) })
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url())
      yield* hub.start({
        settings: {
          retryWindowMs: 700,
          nextAttemptAt: ({ failedAt, queuedAt }) =>
            failedAt + 150 < queuedAt + 700 ? failedAt + 150 : null,
        },
      })
      yield* hub.emit(account, 1)
      yield* waitUntilEnded(hub, subscription, 1)
      const attempts = yield* hub.attemptsOf(subscription)
      expect(attempts.length).toBe(receiver.received.length + 1)
      // On a busy machine, the window may end before an attempt that was due in it.
      for (const { reason } of attempts.slice(0, -1)) expect(reason).toBe('http_status')
      expect(attempts.at(-1)).toMatchObject({
        status: 'failed',
        reason: 'retry_window_expired',
        response_code: null,
        next_attempt_at: null,
      })
    }))

  // Rules: DEL-23, SUB-30
  test('of a disabled subscription fails in the same way', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url())
      yield* hub.sql.run(
        (q) => q`UPDATE webhooks.endpoints SET status = 'disabled_by_failures', disabled_at = now()
                 WHERE id = ${subscription.uuid}`,
      )
      yield* hub.start({ settings: { retryWindowMs: 500 } })
      yield* hub.emit(account, 1)
      yield* waitUntilEnded(hub, subscription, 1)
      expect(yield* hub.attemptsOf(subscription)).toMatchObject([
        { status: 'failed', reason: 'retry_window_expired_while_disabled', next_attempt_at: null },
      ])
      expect(receiver.received).toEqual([])
    }))

  /** Stops the fan-out while a batch waits for the retry of its only attempt. */
  const waitingBatch = Effect.fnUntraced(function* (hub: Deployment) {
    const receiver = yield* tlsReceiver(certificate, { respond: statusResponse(500) })
    const account = yield* hub.account()
    const subscription = yield* hub.subscribe(account, receiver.url())
    const { stop } = yield* hub.start({ settings: { nextAttemptAt: ({ failedAt }) => failedAt + HOUR } })
    yield* hub.emit(account, 1)
    yield* hub.eventually(async (q) => (await q`SELECT 1 FROM webhooks.attempts`).length === 1)
    yield* stop
    return { subscription, receiver }
  })
  const queuedHoursAgo = (hub: Deployment, hours: number) =>
    hub.sql.run(
      (q) => q`UPDATE webhooks.batches SET queued_at = now() - make_interval(hours => ${hours}),
                      next_attempt_at = now() - interval '1 minute'`,
    )
  const disabledHoursAgo = (hub: Deployment, hours: number) =>
    hub.sql.run(
      (q) => q`UPDATE webhooks.endpoints SET status = 'disabled_by_failures', consecutive_failures = 20,
                      disabled_at = now() - make_interval(hours => ${hours})`,
    )

  // Rules: DEL-23
  test('whose window ended while its subscription was disabled says so, also when it was enabled before the fan-out came back', (hub) =>
    Effect.gen(function* () {
      const { subscription, receiver } = yield* waitingBatch(hub)
      // Its window ended an hour ago.
      yield* queuedHoursAgo(hub, 25)
      yield* disabledHoursAgo(hub, 2)
      yield* hub.sql.transaction((q) => enableSubscription(q, subscription.uuid))
      yield* hub.start()
      yield* waitUntilEnded(hub, subscription, 1)
      expect((yield* hub.attemptsOf(subscription)).at(-1)?.reason).toBe('retry_window_expired_while_disabled')
      expect(receiver.received).toHaveLength(1)
    }))

  // Rules: DEL-23
  test('whose window ended before its subscription was disabled says nothing of that', (hub) =>
    Effect.gen(function* () {
      const { subscription } = yield* waitingBatch(hub)
      // Its window ended three hours ago.
      yield* queuedHoursAgo(hub, 27)
      yield* disabledHoursAgo(hub, 2)
      yield* hub.start()
      yield* waitUntilEnded(hub, subscription, 1)
      expect((yield* hub.attemptsOf(subscription)).at(-1)?.reason).toBe('retry_window_expired')
    }))

  // Rules: SUB-10
  test('is deleted with its subscription, and the attempt in flight is aborted', (hub) =>
    Effect.gen(function* () {
      const aborted = yield* Deferred.make<void>()
      const receiver = yield* tlsReceiver(certificate, {
        respond: (_received, response) =>
          response.on('close', () => Deferred.doneUnsafe(aborted, Effect.void)),
      })
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url())
      yield* hub.start()
      yield* hub.emit(account, 1)
      yield* receiver.until((received) => received.length === 1)
      yield* hub.sql.run((q) => q`DELETE FROM webhooks.endpoints WHERE id = ${subscription.uuid}`)
      yield* hub.change(account, subscription, 'deleted')
      yield* Deferred.await(aborted)
      // The partition still delivers.
      const next = yield* tlsReceiver(certificate)
      yield* hub.subscribe(account, next.url())
      yield* hub.emit(account, 1)
      yield* next.until((received) => received.length === 1)
    }))
})

describe('a hung receiver', () => {
  test('takes only the slots of its subscription', (hub) =>
    Effect.gen(function* () {
      const hung = yield* tlsReceiver(certificate, { respond: () => {} })
      const healthy = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      yield* hub.subscribe(account, hung.url())
      yield* hub.subscribe(account, healthy.url())
      yield* hub.start({ settings: { batchEvents: 1, inFlight: 16, inFlightEach: 4, deadlineMs: 60_000 } })
      const events = yield* hub.emit(account, 60)
      const requests = yield* healthy.until((received) => received.length >= 60)
      expect(new Set(allIds(requests))).toEqual(new Set(idsOf(events)))
      expect(hung.received.length).toBe(4)
    }))

  // Rules: DEL-12, SUB-30
  test('is logged as a timeout, and gets another attempt', (hub) =>
    Effect.gen(function* () {
      const hung = yield* tlsReceiver(certificate, { respond: () => {} })
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, hung.url())
      yield* hub.start({ settings: { deadlineMs: 200 } })
      yield* hub.emit(account, 1)
      yield* hung.until((received) => received.length === 2)
      hung.respondWith(statusResponse(204))
      yield* waitUntilEnded(hub, subscription, 1)
      expect((yield* hub.attemptsOf(subscription))[0]).toMatchObject({
        status: 'failed',
        reason: 'timeout',
        response_code: null,
      })
    }))
})

describe('forty hung receivers of one account', () => {
  test('do not stop the deliveries and test deliveries of another account', (hub) =>
    Effect.gen(function* () {
      const { inFlight } = FANOUT_DEFAULTS
      const hung = yield* tlsReceiver(certificate, { respond: () => {} })
      const receiver = yield* tlsReceiver(certificate)
      const [account, other] = [yield* hub.account(), yield* hub.account()]
      yield* Effect.forEach(Array.from({ length: 40 }), () => hub.subscribe(account, hung.url()))
      const subscription = yield* hub.subscribe(other, receiver.url())
      // Each event is a batch of its own, and no attempt of the test ends by its deadline.
      yield* hub.start({ settings: { deadlineMs: 60_000, batchEvents: 1 } })
      yield* hub.emit(account, 20)
      yield* hung.until((received) => received.length > inFlight / 2 - 4)
      const events = yield* hub.emit(other, 50)
      yield* hub.sql.run(
        (q) =>
          q`INSERT INTO webhooks.trials (endpoint_id, id) VALUES (${subscription.uuid}, ${randomUUID()})`,
      )
      const received = yield* receiver.until((requests) => requests.length === events.length + 1)
      expect(new Set(allIds(received)).size).toBe(events.length + 1)
      expect(hung.received.length).toBeLessThanOrEqual(inFlight / 2)
    }))
})

describe('a process', () => {
  // Rules: DEL-5, DEL-7
  test('that ends before a delivery is recorded makes the next one repeat it under the same id', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url())
      const first = yield* hub.start({ store: (real) => ({ ...real, record: () => Effect.never }) })
      const events = yield* hub.emit(account, 3)
      yield* receiver.until((received) => received.length === 1)
      yield* first.stop
      expect(yield* pendingOf(hub, subscription)).toBe(1)
      yield* hub.start()
      const requests = yield* receiver.until((received) => received.length === 2)
      expect(requests.map(eventIds)).toEqual([idsOf(events), idsOf(events)])
      expect(batchOf(requests[1])).toBe(batchOf(requests[0]))
      yield* waitUntilEnded(hub, subscription, 1)
    }))

  test('that ends after PostgreSQL has committed a record does not make the next one repeat the delivery', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url())
      const recorded = yield* Deferred.make<void>()
      const first = yield* hub.start({
        store: (real) => ({
          ...real,
          record: (...args) =>
            real
              .record(...args)
              .pipe(Effect.andThen(Deferred.succeed(recorded, undefined)), Effect.andThen(Effect.never)),
        }),
      })
      yield* hub.emit(account, 3)
      yield* Deferred.await(recorded)
      yield* first.stop
      expect(yield* pendingOf(hub, subscription)).toBe(0)
      yield* hub.start()
      yield* hub.emit(account, 1)
      yield* waitUntilEnded(hub, subscription, 2)
      expect(receiver.received.length).toBe(2)
    }))

  for (const part of ['record', 'body'] as const) {
    test(`ends when one of its loops dies: ${part}`, (hub) =>
      Effect.gen(function* () {
        const receiver = yield* tlsReceiver(certificate)
        const account = yield* hub.account()
        yield* hub.subscribe(account, receiver.url())
        const broken = yield* hub.start({
          store: (real) => ({ ...real, [part]: () => Effect.die('broken') }),
          // Each body is read before its attempt.
          settings: { bodyBytes: part === 'body' ? 0 : FANOUT_DEFAULTS.bodyBytes },
        })
        yield* hub.emit(account, 3)
        const exit = yield* Effect.exit(broken.failure)
        expect(Exit.isFailure(exit) && Cause.squash(exit.cause)).toBe('broken')
      }))
  }

  // Rules: DEL-5
  test('that ends before it has stored a batch loses nothing', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      yield* hub.subscribe(account, receiver.url())
      const read = yield* Deferred.make<void>()
      const first = yield* hub.start({
        store: (real) => ({
          ...real,
          storeBatches: (_owner, _position, batches) =>
            batches.length === 0
              ? Effect.succeed([])
              : Effect.andThen(Deferred.succeed(read, undefined), Effect.never),
        }),
      })
      const events = yield* hub.emit(account, 3)
      yield* Deferred.await(read)
      yield* first.stop
      yield* hub.start()
      const requests = yield* receiver.until((received) => allIds(received).length >= 3)
      expect(allIds(requests)).toEqual(idsOf(events))
    }))

  // Rules: DEL-5
  test('that joins or leaves changes the owners of the partitions, and nothing is lost', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const accounts = yield* Effect.forEach(Array.from({ length: 6 }), () => hub.account())
      for (const account of accounts) yield* hub.subscribe(account, receiver.url())
      const shards = new Set(accounts.map((account) => hub.log.partitionOf(`${account.id}:live`)))
      const emitted: Array<string> = []
      const emit = (rounds: number) =>
        Effect.gen(function* () {
          for (let round = 0; round < rounds; round++) {
            for (const account of accounts) emitted.push(...idsOf(yield* hub.emit(account, 5)))
          }
        })
      const first = yield* hub.start()
      yield* emit(2)
      const second = yield* Effect.forkChild(hub.start())
      yield* emit(4)
      yield* Fiber.join(second)
      yield* emit(2)
      yield* first.stop
      yield* emit(2)
      yield* receiver.until((received) => new Set(allIds(received)).size === emitted.length)
      expect(new Set(allIds(receiver.received))).toEqual(new Set(emitted))
      // Each partition with events was acquired more than once.
      const rows = yield* hub.sql.run(
        (q) => q<{ partition: number; epoch: string }[]>`SELECT * FROM webhooks.positions`,
      )
      expect(rows.length).toBe(PARTITIONS)
      expect(rows.filter((row) => shards.has(row.partition) && Number(row.epoch) > 1).length).toBe(
        shards.size,
      )
    }))
})

describe('a process that has lost its partition', () => {
  test('changes nothing', (hub) =>
    Effect.gen(function* () {
      const store = yield* FanoutStore
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, 'https://127.0.0.1:1/', { announce: false })
      const { events } = yield* hub.record(account, 2)
      const batchOfEvents = (members: typeof events) => ({
        subscription,
        events: members.map((event, offset) => ({ ...event, offset })),
      })
      const old = yield* store.acquire(0)
      const [queued] = yield* store.storeBatches({ partition: 0, epoch: old.epoch }, 1, [
        batchOfEvents(events.slice(0, 1)),
      ])
      const current = yield* store.acquire(0)
      expect(current).toEqual({ epoch: old.epoch + 1, position: 1 })
      const lost = { partition: 0, epoch: old.epoch }
      const outcome = {
        subscriptionId: subscription.uuid,
        batch: queued!.batch,
        kind: 'attempt' as const,
        responseCode: 200,
        durationMs: 1,
        reason: null,
        startedAt: Date.now(),
        endedAt: Date.now(),
      }
      expect((yield* Effect.flip(store.storeBatches(lost, 7, [batchOfEvents(events)])))._tag).toBe(
        'PartitionLost',
      )
      expect((yield* Effect.flip(store.record(lost, [outcome])))._tag).toBe('PartitionLost')
      expect(yield* pendingOf(hub, subscription)).toBe(1)
      expect(yield* hub.attemptsOf(subscription)).toEqual([])
      const owner = { partition: 0, epoch: current.epoch }
      // The owner records it once, also if it repeats the call.
      yield* store.record(owner, [outcome])
      yield* store.record(owner, [outcome])
      expect((yield* hub.attemptsOf(subscription)).length).toBe(1)
      const [second] = yield* store.storeBatches(owner, 2, [batchOfEvents(events)])
      expect(second?.batch.body?.toString()).toBe(`[${events[1]?.body}]`)
      expect(second?.batch.id).toBe(encodeId('evb', second!.batch.uuid))
    }).pipe(Effect.provide(Layer.fresh(hub.storeLayer))))
})
