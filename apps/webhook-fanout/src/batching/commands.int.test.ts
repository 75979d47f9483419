/** Test deliveries, secret rotation, deletion, and the event of a disabled subscription. */
import { randomUUID } from 'node:crypto'
import { describe, expect, it } from '@effect/vitest'
import { decodeId, encodeId, eventIdOf, toTimestamp } from '@hub/domain'
import { statusResponse, tlsReceiver } from '@hub/testkit'
import { WebhooksAttempts } from '@hub/store'
import { Deferred, Effect, type Scope } from 'effect'
import { Stripe } from 'stripe'
import { certificate, type Deployment, type TestSubscription, makeDeployment } from '../testing/harness.ts'

/** Long enough for a slow machine; it ends a test that hangs. */
const TIMEOUT = 120_000

const test = (name: string, body: (hub: Deployment) => Effect.Effect<void, unknown, Scope.Scope>) =>
  it.live(name, () => Effect.flatMap(makeDeployment, body), TIMEOUT)

/** Requests a test delivery as command-api does. Returns the id of its attempt. */
const requestTestDelivery = Effect.fnUntraced(function* (hub: Deployment, subscription: TestSubscription) {
  const id = randomUUID()
  yield* hub.sql.run(
    (q) => q`INSERT INTO webhooks.trials (endpoint_id, id) VALUES (${subscription.uuid}, ${id})`,
  )
  return id
})

const verified = (request: { readonly body: Buffer; readonly headers: object } | undefined, secret: string) =>
  Stripe.webhooks.constructEvent(
    request!.body,
    String((request!.headers as Record<string, unknown>)['hub-signature']),
    secret,
  ) as unknown as ReadonlyArray<Record<string, unknown>>

describe('a test delivery', () => {
  // Rules: SUB-22, SUB-23
  test('is made at once and signed, for any status and event types, and is marked in the delivery log', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account('test')
      const subscription = yield* hub.subscribe(account, receiver.url(), { eventTypes: ['message.seen'] })
      yield* hub.sql.run(
        (q) => q`UPDATE webhooks.endpoints SET status = 'disabled_by_failures', consecutive_failures = 20
                 WHERE id = ${subscription.uuid}`,
      )
      yield* hub.start()
      const id = yield* requestTestDelivery(hub, subscription)
      const [request] = yield* receiver.until((received) => received.length === 1)
      const [event, ...more] = verified(request, subscription.secret)
      expect(more).toEqual([])
      expect(event).toMatchObject({
        id: eventIdOf(encodeId('whd', id), 'webhook.test'),
        object: 'event',
        type: 'webhook.test',
        mode: 'test',
        data: { object: { id: subscription.id, object: 'webhook_endpoint', status: 'disabled_by_failures' } },
      })
      yield* hub.eventually(async (q) => (await q`SELECT 1 FROM webhooks.attempts`).length === 1)
      const [attempt] = yield* hub.sql.run((q) => q`SELECT * FROM webhooks.attempts`)
      expect(attempt).toMatchObject({
        id,
        trial: true,
        status: 'succeeded',
        response_code: 200,
        reason: null,
        attempt: 1,
        next_attempt_at: null,
        batch_id: decodeId('evb', String(request?.headers['hub-event-id'])),
      })
      const traces = yield* hub.sql.run(async (q) => ({
        trials: (await q`SELECT 1 FROM webhooks.trials`).length,
        batches: (await q`SELECT 1 FROM webhooks.batches`).length,
        journal: (await q`SELECT 1 FROM read.events`).length,
        events: await q`SELECT event_id, batch_id FROM webhooks.batch_events`,
      }))
      expect(traces).toMatchObject({
        trials: 0,
        batches: 0,
        journal: 0,
        events: [{ event_id: decodeId('evt', String(event?.['id'])), batch_id: attempt?.['batch_id'] }],
      })
    }))

  // Rules: SUB-23
  test('that fails does not change the endpoint health', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, { respond: statusResponse(500) })
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url())
      yield* hub.sql.run(
        (
          q,
        ) => q`UPDATE webhooks.endpoints SET consecutive_failures = 19, first_failure_at = now() - interval '2 hours'
                 WHERE id = ${subscription.uuid}`,
      )
      yield* hub.start()
      yield* requestTestDelivery(hub, subscription)
      yield* hub.eventually(async (q) => (await q`SELECT 1 FROM webhooks.attempts`).length === 1)
      const [row] = yield* hub.sql.run(
        (q) => q`SELECT e.status, e.consecutive_failures, a.reason, a.response_code, a.status AS attempt
                 FROM webhooks.endpoints e JOIN webhooks.attempts a ON a.endpoint_id = e.id`,
      )
      expect(row).toEqual({
        status: 'enabled',
        consecutive_failures: 19,
        reason: 'http_status',
        response_code: 500,
        attempt: 'failed',
      })
    }))

  test('is made once by several processes', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      const subscriptions = yield* Effect.forEach(Array.from({ length: 12 }), () =>
        hub.subscribe(account, receiver.url()),
      )
      yield* hub.start()
      yield* hub.start()
      yield* Effect.forEach(subscriptions, (subscription) => requestTestDelivery(hub, subscription))
      yield* hub.eventually(async (q) => (await q`SELECT 1 FROM webhooks.attempts WHERE trial`).length === 12)
      expect(receiver.received.length).toBe(12)
    }))

  test('does not wait behind many requests of another account whose receivers hang', (hub) =>
    Effect.gen(function* () {
      const [hung, receiver] = [
        yield* tlsReceiver(certificate, { respond: () => {} }),
        yield* tlsReceiver(certificate),
      ]
      const account = yield* hub.account()
      // More than a process makes at a time. command-api would refuse the fifth one.
      const subscriptions = yield* Effect.forEach(Array.from({ length: 40 }), () =>
        hub.subscribe(account, hung.url()),
      )
      const other = yield* hub.subscribe(yield* hub.account(), receiver.url())
      yield* Effect.forEach(subscriptions, (subscription) => requestTestDelivery(hub, subscription))
      yield* requestTestDelivery(hub, other)
      yield* hub.start({ settings: { deadlineMs: 60_000 } })
      yield* receiver.until((received) => received.length === 1)
      yield* hung.until((received) => received.length === 31)
    }))

  test('is not made when its request is too old', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      const [late, fresh] = [
        yield* hub.subscribe(account, receiver.url('/late')),
        yield* hub.subscribe(account, receiver.url('/fresh')),
      ]
      yield* requestTestDelivery(hub, late)
      yield* hub.sql.run((q) => q`UPDATE webhooks.trials SET requested_at = now() - interval '6 seconds'`)
      yield* hub.start()
      yield* requestTestDelivery(hub, fresh)
      yield* hub.eventually(async (q) => (await q`SELECT 1 FROM webhooks.attempts`).length === 1)
      expect(receiver.received.map(({ path }) => path)).toEqual(['/fresh'])
    }))
})

describe('after a rotation', () => {
  // Rules: DEL-9, SUB-17
  test('up to three secrets sign, each until its own transition ends', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      const [subscription, spare] = [
        yield* hub.subscribe(account, receiver.url()),
        yield* hub.subscribe(yield* hub.account(), receiver.url('/other')),
      ]
      yield* hub.start()
      yield* hub.rotate(account, subscription, { secret: 'whsec_new', endsInMs: 86_400_000 })
      yield* hub.emit(account, 1)
      const [first] = yield* receiver.until((received) => received.length === 1)
      expect(String(first?.headers['hub-signature'])).toMatch(/^t=\d+,v1=[0-9a-f]{64},v1=[0-9a-f]{64}$/u)
      for (const secret of ['whsec_new', subscription.secret]) expect(verified(first, secret)).toHaveLength(1)
      expect(() => verified(first, spare.secret)).toThrow()

      yield* hub.rotate(account, subscription, { secret: 'whsec_newer', endsInMs: 86_400_000 })
      yield* hub.emit(account, 1)
      const [, second] = yield* receiver.until((received) => received.length === 2)
      expect(String(second?.headers['hub-signature'])).toMatch(/^t=\d+(?:,v1=[0-9a-f]{64}){3}$/u)
      for (const secret of ['whsec_newer', 'whsec_new', subscription.secret]) {
        expect(verified(second, secret)).toHaveLength(1)
      }

      // The transition of `whsec_newer` has ended. That of `whsec_new` has not.
      yield* hub.rotate(account, subscription, { secret: 'whsec_newest', endsInMs: -1 })
      yield* hub.emit(account, 1)
      const [, , third] = yield* receiver.until((received) => received.length === 3)
      expect(String(third?.headers['hub-signature'])).toMatch(/^t=\d+(?:,v1=[0-9a-f]{64}){2}$/u)
      for (const secret of ['whsec_newest', 'whsec_new']) expect(verified(third, secret)).toHaveLength(1)
      for (const secret of ['whsec_newer', subscription.secret])
        expect(() => verified(third, secret)).toThrow()
    }))
})

describe('a deleted subscription', () => {
  const remove = (hub: Deployment, subscription: TestSubscription) =>
    hub.sql.run(
      (q) =>
        q`UPDATE webhooks.endpoints SET deleted_at = now(), url = '', secret = ''::bytea WHERE id = ${subscription.uuid}`,
    )

  // Rules: RET-7, SUB-10
  test('keeps its delivery log with the events, and loses its waiting batches', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, { respond: statusResponse(500) })
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url())
      yield* hub.start({ settings: { nextAttemptAt: ({ failedAt }) => failedAt + 3_600_000 } })
      const events = yield* hub.emit(account, 2)
      yield* hub.eventually(async (q) => (await q`SELECT 1 FROM webhooks.attempts`).length === 1)
      yield* remove(hub, subscription)
      yield* hub.change(account, subscription, 'deleted')
      yield* hub.eventually(async (q) => (await q`SELECT 1 FROM webhooks.batches`).length === 0)
      const log = yield* hub.sql.run((q) =>
        WebhooksAttempts.readPage(q, subscription.uuid, WebhooksAttempts.ALL_ATTEMPTS, null, 10),
      )
      expect(log).toMatchObject([
        { status: 'failed', reason: 'http_status', event_ids: events.map(({ id }) => decodeId('evt', id)) },
      ])
    }))

  // Rules: SUB-10
  test('gets no further attempts, and its rows are deleted', (hub) =>
    Effect.gen(function* () {
      const aborted = yield* Deferred.make<void>()
      const receiver = yield* tlsReceiver(certificate, {
        respond: (_received, response) =>
          response.on('close', () => Deferred.doneUnsafe(aborted, Effect.void)),
      })
      const otherReceiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url())
      const other = yield* hub.subscribe(account, otherReceiver.url())
      yield* hub.start()
      yield* hub.emit(account, 3)
      yield* receiver.until((received) => received.length === 1)
      yield* remove(hub, subscription)
      yield* hub.change(account, subscription, 'deleted')
      yield* Deferred.await(aborted)
      yield* hub.emit(account, 1)
      yield* hub.eventually(
        async (q) =>
          (await q`SELECT 1 FROM webhooks.attempts WHERE endpoint_id = ${other.uuid}`).length === 2 &&
          (await q`SELECT 1 FROM webhooks.batches WHERE endpoint_id = ${subscription.uuid}`).length === 0 &&
          (await q`SELECT 1 FROM webhooks.batch_events WHERE endpoint_id = ${subscription.uuid}`).length ===
            0,
      )
      expect(receiver.received).toHaveLength(1)
      expect(yield* hub.attemptsOf(subscription)).toEqual([])
    }))

  test('is detected at its next attempt if the record of the deletion has not been read', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, { respond: statusResponse(500) })
      const otherReceiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url())
      yield* hub.start({ settings: { nextAttemptAt: ({ failedAt }) => failedAt + 50 } })
      yield* hub.emit(account, 1)
      yield* receiver.until((received) => received.length >= 2)
      yield* remove(hub, subscription)
      // No record announces the deletion. Remaining attempts are not logged, and soon the batches
      // are deleted.
      yield* hub.eventually(
        async (q) =>
          (await q`SELECT 1 FROM webhooks.batches WHERE endpoint_id = ${subscription.uuid}`).length === 0,
      )
      yield* hub.subscribe(account, otherReceiver.url())
      // A round takes longer than the retry interval, so a round without an attempt shows that
      // there are no more.
      for (let before = -1; receiver.received.length !== before;) {
        before = receiver.received.length
        const delivered = otherReceiver.received.length
        yield* hub.emit(account, 1)
        yield* otherReceiver.until((received) => received.length > delivered)
      }
    }))
})

describe('a disabled subscription', () => {
  // Rules: DEL-20
  test('inserts one event into the event inbox, in the transaction that disables it', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, { respond: statusResponse(503) })
      const account = yield* hub.account('test')
      const subscription = yield* hub.subscribe(account, receiver.url('/hook'))
      yield* hub.sql.run(
        (
          q,
        ) => q`UPDATE webhooks.endpoints SET consecutive_failures = 19, first_failure_at = now() - interval '61 minutes'
                 WHERE id = ${subscription.uuid}`,
      )
      yield* hub.start()
      yield* hub.emit(account, 1)
      yield* hub.eventually(
        async (q) => (await q`SELECT 1 FROM webhooks.endpoints WHERE status <> 'enabled'`).length === 1,
      )
      const [{ disabled_at: disabledAt } = {}] = yield* hub.sql.run(
        (q) => q<{ disabled_at: Date }[]>`SELECT disabled_at FROM webhooks.endpoints`,
      )
      const at = toTimestamp(disabledAt!.getTime())
      const left = yield* hub.sql.run((q) => q`SELECT * FROM command.event_inbox`)
      expect(left).toMatchObject([
        {
          id: decodeId('evt', eventIdOf(`${subscription.id} ${at}`, 'webhook.endpoint_disabled')),
          account: account.uuid,
          mode: 'test',
          type: 'webhook.endpoint_disabled',
          object: {
            id: subscription.id,
            object: 'webhook_endpoint',
            url: receiver.url('/hook'),
            status: 'disabled_by_failures',
            disabled_at: at,
            disabled_reason: 'http_status',
            consecutive_failures: 20,
          },
        },
      ])
      expect(JSON.stringify(left)).not.toContain('whsec')
    }))

  // Rules: DEL-20, DEL-27
  test('is not informed of its own disabling and enabling; the others are', (hub) =>
    Effect.gen(function* () {
      const [own, other] = [yield* tlsReceiver(certificate), yield* tlsReceiver(certificate)]
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, own.url())
      yield* hub.subscribe(account, other.url())
      yield* hub.start()
      const disabling = yield* hub.record(account, 1, 'webhook.endpoint_disabled', { id: subscription.id })
      const enabling = yield* hub.record(account, 1, 'webhook.endpoint_enabled', { id: subscription.id })
      yield* hub.publish(account, disabling)
      yield* hub.publish(account, enabling)
      const [after] = yield* hub.emit(account, 1)
      const ids = (received: ReadonlyArray<{ readonly body: Buffer }>) =>
        received.flatMap(({ body }) => (JSON.parse(body.toString()) as { id: string }[]).map(({ id }) => id))
      yield* other.until((received) => ids(received).length === 3)
      yield* own.until((received) => ids(received).length > 0)
      expect(new Set(ids(other.received))).toEqual(
        new Set([disabling.events[0]!.id, enabling.events[0]!.id, after!.id]),
      )
      expect(ids(own.received)).toEqual([after!.id])
    }))
})

describe('a change of a subscription', () => {
  // Rules: SUB-8
  test('is applied when the stored position passes its record', (hub) =>
    Effect.gen(function* () {
      const [before, after] = [yield* tlsReceiver(certificate), yield* tlsReceiver(certificate)]
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, before.url())
      yield* hub.start()
      yield* hub.emit(account, 1)
      yield* before.until((received) => received.length === 1)
      yield* hub.sql.run(
        (q) => q`UPDATE webhooks.endpoints SET url = ${after.url()} WHERE id = ${subscription.uuid}`,
      )
      const [at] = yield* hub.change(account, subscription, 'updated')
      expect(at?.topic).toBe(hub.topics.webhooks)
      yield* hub.eventually(
        async (q) =>
          (
            await q`SELECT 1 FROM webhooks.positions
                    WHERE partition = ${at!.partition} AND position > ${at!.offset}`
          ).length === 1,
      )
      yield* hub.emit(account, 1)
      yield* after.until((received) => received.length === 1)
      expect(before.received.length).toBe(1)
    }))
})
