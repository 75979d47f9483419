/** Redeliveries: the hub's staff has the events of a period delivered again. */
import { randomUUID } from 'node:crypto'
import { describe, expect, it } from '@effect/vitest'
import { encodeId } from '@hub/domain'
import { Sql } from '@hub/store'
import { statusResponse, type Received, tlsReceiver } from '@hub/testkit'
import { readRedelivery, requestEventRedelivery, requestRedelivery } from '@hub/webhooks'
import { Effect, type Scope } from 'effect'
import {
  certificate,
  type Deployment,
  type TestSubscription,
  makeDeployment,
  RETRY_MS,
} from '../testing/harness.ts'

const HOUR = 3_600_000

const test = (name: string, body: (hub: Deployment) => Effect.Effect<void, unknown, Scope.Scope>) =>
  it.live(name, () => Effect.flatMap(makeDeployment, body), 60_000)

const eventIds = (received: Received): ReadonlyArray<string> =>
  (JSON.parse(received.body.toString('utf8')) as ReadonlyArray<{ id: string }>).map(({ id }) => id)
const idsOf = (events: ReadonlyArray<{ readonly id: string }>) => events.map(({ id }) => id)

/** Requests a redelivery of all events so far. */
const requestAll = (hub: Deployment, subscription: TestSubscription) =>
  requestRedelivery({
    subscription: subscription.id,
    from: Date.now() - HOUR,
    until: Date.now() + HOUR,
  }).pipe(Effect.provideService(Sql, hub.sql))

const waitUntilDone = (hub: Deployment, id: string) =>
  hub.eventually(async (q) => {
    const [row] = await q<{ done: boolean }[]>`
      SELECT finished_at IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM webhooks.batches WHERE redelivery = ${id}) AS done
      FROM webhooks.redeliveries WHERE id = ${id}`
    return row?.done === true
  })

/** Waits for so many attempts in the delivery log. */
const waitForAttempts = (hub: Deployment, subscription: TestSubscription, attempts: number) =>
  hub.eventually(
    async (q) =>
      (await q`SELECT 1 FROM webhooks.attempts WHERE endpoint_id = ${subscription.uuid}`).length === attempts,
  )

const health = (hub: Deployment, subscription: TestSubscription) =>
  hub.sql
    .run(
      (q) => q<{ status: string; consecutive_failures: number; first_failure_at: Date | null }[]>`
        SELECT status, consecutive_failures, first_failure_at FROM webhooks.endpoints WHERE id = ${subscription.uuid}`,
    )
    .pipe(Effect.map(([row]) => row))

describe('a redelivery', () => {
  // Rules: DEL-24
  test('delivers the same events in separate batches, which the delivery log marks', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url(), { eventTypes: ['message.sent'] })
      yield* hub.start()
      const events = yield* hub.emit(account, 230)
      yield* hub.emit(account, 1, 'message.delivered')
      yield* receiver.until((received) => received.flatMap(eventIds).length === 230)
      const before = receiver.received.length
      yield* waitForAttempts(hub, subscription, before)
      const id = yield* requestAll(hub, subscription)
      yield* waitUntilDone(hub, id)
      const again = receiver.received.slice(before)
      expect(again.flatMap(eventIds).toSorted()).toEqual(idsOf(events).toSorted())
      expect(again.map((request) => eventIds(request).length).toSorted((a, b) => a - b)).toEqual([
        30, 100, 100,
      ])
      // A receiver that drops known batch ids must not drop these.
      const seen = new Set(receiver.received.slice(0, before).map(({ headers }) => headers['hub-event-id']))
      for (const { headers } of again) expect(seen.has(String(headers['hub-event-id']))).toBe(false)
      const log = yield* hub.sql.run(
        (q) => q<{ redelivery: string | null; status: string }[]>`
          SELECT redelivery, status FROM webhooks.attempts WHERE endpoint_id = ${subscription.uuid} ORDER BY id`,
      )
      expect(log.filter(({ redelivery }) => redelivery === id).length).toBe(3)
      expect(log.filter(({ redelivery }) => redelivery === null).length).toBe(before)
      expect(yield* readRedelivery(id).pipe(Effect.provideService(Sql, hub.sql))).toMatchObject({
        events: 230,
        batches: 3,
        pending: 0,
      })
      // A second request delivers them again, under different batch ids.
      yield* waitUntilDone(hub, yield* requestAll(hub, subscription))
      const ids = receiver.received.map(({ headers }) => headers['hub-event-id'])
      expect(new Set(ids).size).toBe(ids.length)
    }))

  test('contains events from before the subscription was created, and none from outside of the period', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      const early = yield* hub.record(account, 2)
      // Without its record in the topic, the subscription gets no events but those of the
      // redelivery.
      const subscription = yield* hub.subscribe(account, receiver.url(), { announce: false })
      yield* hub.sql.run(
        (q) =>
          q`UPDATE read.events SET created_at = created_at - interval '10 minutes' WHERE account = ${account.uuid}`,
      )
      yield* hub.record(account, 3)
      yield* hub.start()
      const id = yield* requestRedelivery({
        subscription: subscription.id,
        from: early.createdAt - 600_000,
        until: early.createdAt - 300_000,
      }).pipe(Effect.provideService(Sql, hub.sql))
      yield* waitUntilDone(hub, id)
      expect(receiver.received.flatMap(eventIds)).toEqual(idsOf(early.events))
    }))

  // Rules: DEL-24
  test('does not change the endpoint health: failures do not disable, and a success releases nothing', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url())
      yield* hub.start({
        settings: { nextAttemptAt: ({ attempt, failedAt }) => failedAt + RETRY_MS * attempt },
      })
      yield* hub.emit(account, 2)
      yield* waitForAttempts(hub, subscription, 1)
      // One more failure of an ordinary batch would disable it.
      yield* hub.sql.run(
        (q) => q`
          UPDATE webhooks.endpoints SET consecutive_failures = 19, first_failure_at = now() - interval '2 hours'
          WHERE id = ${subscription.uuid}`,
      )
      const before = yield* health(hub, subscription)
      receiver.respondWith(statusResponse(500))
      const id = yield* requestAll(hub, subscription)
      yield* receiver.until((received) => received.length >= 4)
      expect(yield* health(hub, subscription)).toEqual(before)
      receiver.respondWith(statusResponse(200))
      yield* waitUntilDone(hub, id)
      expect(yield* health(hub, subscription)).toEqual(before)
      expect((yield* hub.attemptsOf(subscription)).at(-1)).toMatchObject({
        status: 'succeeded',
        reason: null,
      })
    }))

  test('waits until a disabled subscription is enabled, and continues in another process', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url())
      const { events } = yield* hub.record(account, 1500)
      yield* hub.sql.run(
        (q) =>
          q`UPDATE webhooks.endpoints SET status = 'disabled_by_failures' WHERE id = ${subscription.uuid}`,
      )
      const first = yield* hub.start()
      const id = yield* requestAll(hub, subscription)
      // The redelivery of another subscription is not delayed.
      const other = yield* hub.subscribe(account, receiver.url('/other'))
      const others = yield* requestAll(hub, other)
      yield* waitUntilDone(hub, others)
      expect(receiver.received.every(({ path }) => path === '/other')).toBe(true)
      yield* first.stop
      yield* hub.sql.run(
        (q) => q`
          UPDATE webhooks.endpoints SET status = 'enabled', backlog_released_at = now() WHERE id = ${subscription.uuid}`,
      )
      yield* hub.start()
      yield* waitUntilDone(hub, id)
      const got = receiver.received.filter(({ path }) => path === '/').flatMap(eventIds)
      expect(new Set(got)).toEqual(new Set(idsOf(events)))
    }))

  test('of one event delivers exactly this event, each time under a new batch id', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url(), { eventTypes: ['message.sent'] })
      yield* hub.start()
      const events = yield* hub.emit(account, 5)
      const [other] = yield* hub.emit(account, 1, 'message.delivered')
      yield* receiver.until((received) => received.flatMap(eventIds).length === 5)
      // All events have the same time: the sequence alone does not select one.
      yield* hub.sql.run((q) => q`UPDATE read.events SET created_at = now() WHERE account = ${account.uuid}`)
      const before = receiver.received.length
      const again = (event: string) =>
        requestEventRedelivery({ subscription: subscription.id, event }).pipe(
          Effect.provideService(Sql, hub.sql),
        )
      for (let repeat = 0; repeat < 2; repeat++) yield* waitUntilDone(hub, yield* again(events[2]!.id))
      const resent = receiver.received.slice(before)
      expect(resent.map(eventIds)).toEqual([[events[2]!.id], [events[2]!.id]])
      const ids = receiver.received.map(({ headers }) => headers['hub-event-id'])
      expect(new Set(ids).size).toBe(ids.length)
      const reason = (event: string) =>
        Effect.map(Effect.flip(again(event)), (error) =>
          error._tag === 'EventRedeliveryRefused' ? error.reason : error._tag,
        )
      expect(yield* reason(other!.id)).toBe('type_not_wanted')
      expect(yield* reason(encodeId('evt', randomUUID()))).toBe('event_unknown')
      const stranger = yield* hub.account()
      const [foreign] = yield* hub.emit(stranger, 1)
      expect(yield* reason(foreign!.id)).toBe('event_unknown')
    }))

  test('is refused for an unknown or deleted subscription, and for an empty period', (hub) =>
    Effect.gen(function* () {
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, 'https://127.0.0.1:1/', { announce: false })
      const refusal = (subscription: string, from: number, until: number) =>
        requestRedelivery({ subscription, from, until }).pipe(
          Effect.provideService(Sql, hub.sql),
          Effect.flip,
          Effect.map((error) => (error._tag === 'RedeliveryRefused' ? error.reason : error._tag)),
        )
      expect(yield* refusal('we_nonsense', 0, 1)).toBe('subscription_unknown')
      expect(yield* refusal(subscription.id, 2, 2)).toBe('period_empty')
      expect(yield* refusal(subscription.id, Date.now() + HOUR, Date.now() + 2 * HOUR)).toBe('period_empty')
      expect(yield* refusal(subscription.id, Number.NaN, 5)).toBe('period_empty')
      yield* hub.sql.run(
        (q) => q`UPDATE webhooks.endpoints SET deleted_at = now() WHERE id = ${subscription.uuid}`,
      )
      expect(yield* refusal(subscription.id, 0, Date.now())).toBe('subscription_unknown')
    }))
})
