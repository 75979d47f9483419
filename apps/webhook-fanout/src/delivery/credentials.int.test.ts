/** Static headers and client certificates: every kind of delivery of the fan-out has those of its subscription. */
import { randomUUID, X509Certificate } from 'node:crypto'
import { describe, expect, it } from '@effect/vitest'
import { Sql } from '@hub/store'
import { eventually, makeCertificateAuthority, tlsReceiver } from '@hub/testkit'
import { requestRedelivery } from '@hub/webhooks'
import { Effect, Metric, type Scope } from 'effect'
import { metrics } from '../metrics.ts'
import { certificate, type Deployment, makeDeployment } from '../testing/harness.ts'

/** Long enough for a slow machine; it ends a test that hangs. */
const TIMEOUT = 120_000

const test = (name: string, body: (hub: Deployment) => Effect.Effect<void, unknown, Scope.Scope>) =>
  it.live(name, () => Effect.flatMap(makeDeployment, body), TIMEOUT)

const HOUR = 3_600_000
const TOKEN = 'Bearer 7Xq2mZ9pLw'

const clients = await makeCertificateAuthority()
const [own, expired] = await Promise.all([clients.issue(['hub']), clients.issue(['hub'], { expired: true })])
const clientCertificate = { certificate: own.cert, privateKey: own.key }
const asking = (required: boolean) => ({ clients: { ca: clients.pem, required } })

describe('the headers and the client certificate of a subscription', () => {
  // Rules: DEL-28
  test('are those of deliveries, test deliveries, resends and redeliveries', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, asking(true))
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url(), {
        headers: [['Authorization', TOKEN]],
        clientCertificate,
      })
      yield* hub.start()
      yield* hub.emit(account, 1)
      yield* receiver.until((received) => received.length === 1)
      yield* hub.eventually(async (q) => (await q`SELECT 1 FROM webhooks.attempts`).length === 1)
      yield* hub.sql.run(
        (q) =>
          q`INSERT INTO webhooks.trials (endpoint_id, id) VALUES (${subscription.uuid}, ${randomUUID()})`,
      )
      yield* receiver.until((received) => received.length === 2)
      yield* hub.sql.run(
        (q) => q`
          INSERT INTO webhooks.resends (id, endpoint_id, batch_id, resend_of, attempt)
          SELECT ${randomUUID()}, endpoint_id, batch_id, id, attempt FROM webhooks.attempts WHERE NOT trial`,
      )
      yield* receiver.until((received) => received.length === 3)
      yield* requestRedelivery({
        subscription: subscription.id,
        from: Date.now() - HOUR,
        until: Date.now() + HOUR,
      }).pipe(Effect.provideService(Sql, hub.sql))
      const received = yield* receiver.until((all) => all.length === 4)
      const { fingerprint256 } = new X509Certificate(own.cert)
      expect(
        received.map(({ clientFingerprint, headers }) => [headers.authorization, clientFingerprint]),
      ).toEqual(received.map(() => [TOKEN, fingerprint256]))
    }))

  // Rules: DEL-28
  test('are not those of another subscription to the same receiver', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, asking(false))
      const account = yield* hub.account()
      yield* hub.subscribe(account, receiver.url('/with'), {
        headers: [['Authorization', TOKEN]],
        clientCertificate,
      })
      yield* hub.subscribe(account, receiver.url('/without'))
      yield* hub.start()
      for (let count = 1; count <= 3; count++) {
        yield* hub.emit(account, 1)
        yield* receiver.until((received) => received.length === count * 2)
      }
      const { fingerprint256 } = new X509Certificate(own.cert)
      for (const { clientFingerprint, headers, path } of receiver.received) {
        const expected = path === '/with' ? [TOKEN, fingerprint256] : [undefined, null]
        expect([headers.authorization, clientFingerprint], path).toEqual(expected)
      }
    }))

  // Rules: DEL-29, SUB-30
  test('end with the certificate: the delivery log says that it has expired', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, asking(false))
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url(), {
        clientCertificate: { certificate: expired.cert, privateKey: expired.key },
      })
      yield* hub.start()
      yield* hub.emit(account, 1)
      yield* hub.eventually(async (q) => (await q`SELECT 1 FROM webhooks.attempts`).length > 0)
      const [attempt] = yield* hub.attemptsOf(subscription)
      expect(attempt).toMatchObject({
        status: 'failed',
        reason: 'client_certificate_expired',
        response_code: null,
      })
      expect(attempt?.next_attempt_at).toBeInstanceOf(Date)
      expect(receiver.connections()).toBe(0)
    }))

  test('are counted before the certificate ends, while the subscription is enabled', (hub) =>
    Effect.gen(function* () {
      const account = yield* hub.account()
      const ends = [-1, 13, 15, 13, 13]
      const subscriptions = yield* Effect.forEach(ends, () =>
        hub.subscribe(account, 'https://127.0.0.1:9/', { clientCertificate }),
      )
      for (const [i, { uuid }] of subscriptions.entries()) {
        yield* hub.sql.run(
          (q) => q`
            UPDATE webhooks.endpoints SET client_certificate_not_after = now() + ${ends[i]!} * interval '1 day'
             WHERE id = ${uuid}`,
        )
      }
      yield* hub.sql.run(
        (q) => q`UPDATE webhooks.endpoints SET deleted_at = now() WHERE id = ${subscriptions[3]!.uuid}`,
      )
      yield* hub.sql.run(
        (q) => q`
          UPDATE webhooks.endpoints SET status = 'disabled_by_failures', disabled_at = now()
           WHERE id = ${subscriptions[4]!.uuid}`,
      )
      yield* hub.start({ settings: { queriedGaugesEveryMs: 100, purgeEveryMs: 3_600_000 } })
      const counted = () => Effect.runPromise(Metric.value(metrics.endingCertificates))
      // The one that has expired, and that of 13 days.
      yield* Effect.promise(() => eventually(async () => (await counted()).value === 2))
    }))

  test('that cannot be decrypted keep the events back', (hub) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const account = yield* hub.account()
      const subscription = yield* hub.subscribe(account, receiver.url(), {
        headers: [['Authorization', TOKEN]],
      })
      const [stored] = yield* hub.sql.run(
        (q) => q<{ headers: Buffer }[]>`
          UPDATE webhooks.endpoints e SET headers = substring(e.headers FROM 2) FROM webhooks.endpoints o
           WHERE o.id = e.id AND e.id = ${subscription.uuid} RETURNING o.headers`,
      )
      const other = yield* hub.subscribe(account, receiver.url('/other'))
      yield* hub.start()
      yield* hub.emit(account, 1)
      yield* hub.eventually(
        async (q) =>
          (await q`SELECT 1 FROM webhooks.attempts WHERE endpoint_id = ${other.uuid}`).length === 1 &&
          (await q`SELECT 1 FROM webhooks.batches WHERE endpoint_id = ${subscription.uuid}`).length === 1,
      )
      expect(receiver.received.map(({ path }) => path)).toEqual(['/other'])
      yield* hub.sql.run(
        (q) => q`UPDATE webhooks.endpoints SET headers = ${stored!.headers} WHERE id = ${subscription.uuid}`,
      )
      yield* hub.change(account, subscription, 'updated')
      const received = yield* receiver.until((all) => all.length === 2)
      expect(received[1]?.headers.authorization).toBe(TOKEN)
    }))
})
