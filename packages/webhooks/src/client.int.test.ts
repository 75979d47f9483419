/** Deliveries to real TLS receivers on the loopback address, each with another fault. */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as NodeFileSystem from '@effect/platform-node/NodeFileSystem'
import { describe, expect, it } from '@effect/vitest'
import { statusResponse, makeCertificateAuthority, tlsReceiver } from '@hub/testkit'
import { ConfigProvider, Effect, Fiber, Layer, Redacted } from 'effect'
import { Webhook } from 'standardwebhooks'
import { Stripe } from 'stripe'
import { afterAll } from 'vitest'
import {
  AddressPolicy,
  HostUnresolvable,
  makeAddressPolicy,
  makeWebhookClient,
  WebhookClient,
} from './index.ts'
import { tcpServer } from './tcp-server.testing.ts'

const authority = await makeCertificateAuthority()
const certificate = await authority.issue(['127.0.0.1', 'receiver.test'])

const SECRET = `whsec_${randomBytes(32).toString('base64')}`
const OLD_SECRET = `whsec_${randomBytes(32).toString('base64')}`
const EVENTS = [{ id: 'evt_1', object: 'event', type: 'message.sent', data: { note: 'Заказ готов' } }]
const BODY = Buffer.from(JSON.stringify(EVENTS))

/** Only this resolver knows the names `receiver.test` and `sneaky.test`. */
const layer = Layer.effect(WebhookClient, makeWebhookClient(authority.pem)).pipe(
  Layer.provideMerge(
    Layer.sync(AddressPolicy, () => {
      let asked = 0
      return makeAddressPolicy({
        allowedHosts: new Set(['127.0.0.1']),
        resolveName: (name) => {
          asked += 1
          switch (name) {
            case 'receiver.test':
            case 'other-name.test':
              return Effect.succeed([{ address: '127.0.0.1', family: 4 }])
            // An allowed address at first, and another one the next time.
            case 'rebinding.test':
              return Effect.succeed([{ address: asked === 1 ? '127.0.0.1' : '127.0.0.2', family: 4 }])
            case 'mixed.test':
              return Effect.succeed([
                { address: '127.0.0.1', family: 4 },
                { address: '10.0.0.1', family: 4 },
              ])
            default:
              return Effect.fail(new HostUnresolvable())
          }
        },
      })
    }),
  ),
)

const deliver = (url: string, deadlineMs = 5000) =>
  Effect.flatMap(WebhookClient, (client) =>
    client.deliver(
      { url, eventBatch: 'evb_01', body: BODY, secrets: [Redacted.make(SECRET), Redacted.make(OLD_SECRET)] },
      { deadlineMs },
    ),
  )

const failure = (reason: string, responseCode: number | null = null) =>
  expect.objectContaining({ succeeded: false, reason, responseCode })

describe('a delivery', () => {
  // Rules: DEL-6, DEL-7, DEL-8, DEL-9
  it.live('arrives signed, with the headers of the contract, and stripe verifies it unchanged', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      const result = yield* deliver(receiver.url('/hook?tenant=7'))
      expect(result).toMatchObject({ succeeded: true, responseCode: 200, reason: null })
      expect(result.durationMs).toBeGreaterThanOrEqual(0)
      const [request] = receiver.received
      expect(request?.method).toBe('POST')
      expect(request?.path).toBe('/hook?tenant=7')
      expect(request?.headers).toMatchObject({
        'content-type': 'application/json',
        'user-agent': 'SMS-Delivery-Hub/0.4.0',
        'hub-event-id': 'evb_01',
        'content-length': String(BODY.length),
      })
      expect(request?.rawHeaders).toEqual(expect.arrayContaining(['Hub-Event-Id', 'Hub-Signature']))
      expect(request?.body.equals(BODY)).toBe(true)
      const header = String(request?.headers['hub-signature'])
      expect(header).toMatch(/^t=\d{10},v1=[0-9a-f]{64},v1=[0-9a-f]{64}$/u)
      // Each of the two secrets of a rotation verifies the signature; another one does not.
      for (const secret of [SECRET, OLD_SECRET]) {
        expect(Stripe.webhooks.constructEvent(request!.body, header, secret)).toEqual(EVENTS)
      }
      expect(() => Stripe.webhooks.constructEvent(request!.body, header, SECRET.slice(6))).toThrow(
        /signature/u,
      )
    }).pipe(Effect.provide(layer)),
  )

  // Rules: DEL-6, DEL-25, DEL-26
  it.live('has the headers of Standard Webhooks, and its library verifies them with each secret', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      yield* deliver(receiver.url('/hook'))
      const [request] = receiver.received
      const headers = request!.headers as Record<string, string>
      expect(request?.rawHeaders).toEqual(
        expect.arrayContaining(['webhook-id', 'webhook-timestamp', 'webhook-signature']),
      )
      expect(headers['webhook-id']).toBe('evb_01')
      expect(headers['hub-signature']).toContain(`t=${headers['webhook-timestamp']},`)
      expect(headers['webhook-signature']).toMatch(/^v1,[A-Za-z0-9+/]{43}= v1,[A-Za-z0-9+/]{43}=$/u)
      for (const secret of [SECRET, OLD_SECRET]) {
        expect(new Webhook(secret).verify(request!.body, headers)).toEqual(EVENTS)
        for (const changed of [{ 'webhook-id': 'evb_02' }, { 'webhook-timestamp': '1' }]) {
          expect(() => new Webhook(secret).verify(request!.body, { ...headers, ...changed })).toThrow()
        }
        expect(() => new Webhook(secret).verify('[]', headers)).toThrow('No matching signature')
      }
      const other = `whsec_${randomBytes(32).toString('base64')}`
      expect(() => new Webhook(other).verify(request!.body, headers)).toThrow('No matching signature')
    }).pipe(Effect.provide(layer)),
  )

  // Rules: DEL-11
  it.live.each([200, 201, 202, 204, 299])('%i is a success', (status) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, { respond: statusResponse(status) })
      expect(yield* deliver(receiver.url())).toMatchObject({ succeeded: true, responseCode: status })
    }).pipe(Effect.provide(layer)),
  )

  // Rules: DEL-12
  it.live.each([400, 401, 404, 410, 429, 500, 503])('%i is a failure', (status) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, { respond: statusResponse(status) })
      expect(yield* deliver(receiver.url())).toEqual(failure('http_status', status))
    }).pipe(Effect.provide(layer)),
  )

  // Rules: DEL-12, SUB-30
  it.live.each([301, 302, 303, 304, 307, 308])('%i is a failure and is not followed', (status) =>
    Effect.gen(function* () {
      const other = yield* tlsReceiver(certificate)
      const receiver = yield* tlsReceiver(certificate, {
        respond: statusResponse(status, { location: other.url() }),
      })
      expect(yield* deliver(receiver.url())).toEqual(failure('redirect', status))
      expect(other.received).toEqual([])
    }).pipe(Effect.provide(layer)),
  )

  it.live('reuses a connection after the body of the response was read', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, {
        respond: (_received, response) => response.writeHead(200).end('thank you'),
      })
      for (let i = 0; i < 5; i++) expect((yield* deliver(receiver.url())).succeeded).toBe(true)
      expect(receiver.connections()).toBeLessThan(5)
    }).pipe(Effect.provide(layer)),
  )
})

describe('a receiver that', () => {
  // Rules: DEL-12, SUB-30
  it.live('does not listen: connection_refused', () =>
    Effect.gen(function* () {
      const receiver = yield* Effect.scoped(tlsReceiver(certificate))
      expect(yield* deliver(receiver.url())).toEqual(failure('connection_refused'))
    }).pipe(Effect.provide(layer)),
  )

  // Rules: DEL-12, SUB-30
  it.live('never answers: timeout, and the connection is closed', () =>
    Effect.gen(function* () {
      const closed = Promise.withResolvers<void>()
      const receiver = yield* tlsReceiver(certificate, {
        respond: (_received, response) => response.on('close', closed.resolve),
      })
      expect(yield* deliver(receiver.url(), 300)).toEqual(failure('timeout'))
      yield* Effect.promise(() => closed.promise)
    }).pipe(Effect.provide(layer)),
  )

  it.live('never finishes its headers: timeout', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, {
        respond: (_received, response) => {
          response.socket?.write('HTTP/1.1 200 OK\r\nX-Slow: ')
        },
      })
      expect(yield* deliver(receiver.url(), 300)).toEqual(failure('timeout'))
    }).pipe(Effect.provide(layer)),
  )

  it.live('accepts the connection and sends nothing: timeout', () =>
    Effect.gen(function* () {
      const port = yield* tcpServer(() => {})
      expect(yield* deliver(`https://127.0.0.1:${port}/`, 300)).toEqual(failure('timeout'))
    }).pipe(Effect.provide(layer)),
  )

  // Rules: DEL-12, SUB-30
  it.live('resets: connection_reset', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, {
        respond: (_received, response) => response.socket?.destroy(),
      })
      expect(yield* deliver(receiver.url())).toEqual(failure('connection_reset'))
    }).pipe(Effect.provide(layer)),
  )

  it.live('does not speak HTTP: connection_reset', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, {
        respond: (_received, response) => response.socket?.end('SSH-2.0-OpenSSH\r\n'),
      })
      expect(yield* deliver(receiver.url())).toEqual(failure('connection_reset'))
    }).pipe(Effect.provide(layer)),
  )

  // Rules: DEL-11
  it.live('sends an endless body: success by its status, and the connection is closed', () =>
    Effect.gen(function* () {
      const closed = Promise.withResolvers<void>()
      const receiver = yield* tlsReceiver(certificate, {
        respond: (_received, response) => {
          response.writeHead(200)
          const chunk = Buffer.alloc(65_536)
          const more = () => {
            while (!response.destroyed && response.write(chunk));
            response.once('drain', more)
          }
          response.on('close', closed.resolve)
          more()
        },
      })
      expect(yield* deliver(receiver.url())).toMatchObject({ succeeded: true, responseCode: 200 })
      yield* Effect.promise(() => closed.promise)
    }).pipe(Effect.provide(layer)),
  )

  it.live('sends its body too slowly: success by its status, and the connection is closed', () =>
    Effect.gen(function* () {
      const closed = Promise.withResolvers<void>()
      const receiver = yield* tlsReceiver(certificate, {
        respond: (_received, response) => {
          response.writeHead(200)
          const timer = setInterval(() => response.write('.'), 100)
          response.on('close', () => {
            clearInterval(timer)
            closed.resolve()
          })
        },
      })
      expect(yield* deliver(receiver.url())).toMatchObject({ succeeded: true, responseCode: 200 })
      yield* Effect.promise(() => closed.promise)
    }).pipe(Effect.provide(layer)),
  )

  // Rules: DEL-13, SUB-30
  it.live('presents an untrusted or expired certificate, or one of another name: tls_error', () =>
    Effect.gen(function* () {
      const stranger = yield* Effect.promise(makeCertificateAuthority)
      const certificates = yield* Effect.promise(() =>
        Promise.all([
          stranger.issue(['127.0.0.1']),
          authority.issue(['receiver.test']),
          authority.issue(['127.0.0.1'], { expired: true }),
        ]),
      )
      for (const bad of certificates) {
        const receiver = yield* tlsReceiver(bad)
        // Twice, because a resumed TLS session must be checked as well.
        expect(yield* deliver(receiver.url())).toEqual(failure('tls_error'))
        expect(yield* deliver(receiver.url())).toEqual(failure('tls_error'))
        expect(receiver.received).toEqual([])
      }
    }).pipe(Effect.provide(layer)),
  )
})

describe('an address', () => {
  it.live('is reached by a name, which the certificate must contain', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, { name: 'receiver.test' })
      expect((yield* deliver(receiver.url())).succeeded).toBe(true)
      expect(receiver.received[0]?.headers.host).toBe(`receiver.test:${receiver.port}`)
      expect((yield* deliver(`https://receiver.test.:${receiver.port}/`)).succeeded).toBe(true)
      expect(yield* deliver(`https://other-name.test:${receiver.port}/`)).toEqual(failure('tls_error'))
    }).pipe(Effect.provide(layer)),
  )

  // Rules: SUB-15, SUB-30
  it.live(
    'that is not public gets no connection, as a literal or as one of several addresses of a name',
    () =>
      Effect.gen(function* () {
        const receiver = yield* tlsReceiver(certificate, { host: '127.0.0.2' })
        const { port } = yield* tlsReceiver(certificate)
        for (const url of [
          receiver.url(),
          `https://2130706434:${receiver.port}/`,
          `https://[::ffff:127.0.0.2]:${receiver.port}/`,
          `https://localhost:${receiver.port}/`,
          `https://mixed.test:${port}/`,
        ]) {
          expect(yield* deliver(url)).toEqual(failure('address_not_public'))
        }
        expect(receiver.connections()).toBe(0)
      }).pipe(Effect.provide(layer)),
  )

  // Rules: SUB-15
  it.live('is checked again if DNS returns another one the second time', () =>
    Effect.gen(function* () {
      const policy = yield* AddressPolicy
      const receiver = yield* tlsReceiver(certificate, { host: '127.0.0.2', name: 'rebinding.test' })
      yield* policy.checkUrl(receiver.url())
      expect(yield* deliver(receiver.url())).toEqual(failure('address_not_public'))
      expect(receiver.connections()).toBe(0)
    }).pipe(Effect.provide(layer)),
  )

  // Rules: SUB-30
  it.live('of a name that does not resolve: dns_error', () =>
    Effect.gen(function* () {
      expect(yield* deliver('https://nowhere.test/')).toEqual(failure('dns_error'))
    }).pipe(Effect.provide(layer)),
  )
})

it.live('an interrupted attempt leaves no connection open', () =>
  Effect.gen(function* () {
    const closed = Promise.withResolvers<void>()
    const receiver = yield* tlsReceiver(certificate, {
      respond: (_received, response) => response.on('close', closed.resolve),
    })
    const fiber = yield* Effect.forkChild(deliver(receiver.url()))
    yield* receiver.until((received) => received.length === 1)
    yield* Fiber.interrupt(fiber)
    yield* Effect.promise(() => closed.promise)
  }).pipe(Effect.provide(layer)),
)

describe('HUB_WEBHOOK_CA_FILE', () => {
  const directory = mkdtempSync(join(tmpdir(), 'hub-webhooks-'))
  afterAll(() => rmSync(directory, { recursive: true }))

  const deliverWith = (url: string, file?: string) =>
    deliver(url).pipe(
      Effect.provide(
        WebhookClient.layer.pipe(
          Layer.provide(AddressPolicy.layer),
          Layer.provide(NodeFileSystem.layer),
          Layer.provide(
            ConfigProvider.layer(
              ConfigProvider.fromUnknown({
                HUB_WEBHOOK_ALLOWED_HOSTS: '127.0.0.1',
                ...(file === undefined ? {} : { HUB_WEBHOOK_CA_FILE: file }),
              }),
            ),
          ),
        ),
      ),
    )
  const write = (name: string, content: string) => {
    writeFileSync(join(directory, name), content)
    return join(directory, name)
  }

  it.live('is off by default, and adds a certificate authority', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate)
      expect(yield* deliverWith(receiver.url())).toEqual(failure('tls_error'))
      expect(yield* deliverWith(receiver.url(), write('ca.pem', authority.pem))).toMatchObject({
        succeeded: true,
      })
    }),
  )

  it.live.each([
    ['missing', () => join(directory, 'nowhere.pem')],
    ['no PEM', () => write('text.pem', 'hello')],
    ['broken', () => write('broken.pem', '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n')],
  ] as const)('is refused at start-up when it is %s', ([, file]) =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(deliverWith('https://127.0.0.1:1/', file()))
      expect(error._tag).toBe('CaFileUnusable')
    }),
  )
})
