/**
 * Static headers and client certificates of deliveries, as real TLS servers see them: servers of Node, and
 * `openssl s_server`, which prints the certificate that it has verified.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { X509Certificate } from 'node:crypto'
import { describe, expect, it } from '@effect/vitest'
import { makeCertificateAuthority, type ServerCertificate, tlsReceiver } from '@hub/testkit'
import { Effect, Layer, Redacted } from 'effect'
import { afterAll } from 'vitest'
import { AddressPolicy, type Delivery, makeAddressPolicy, makeWebhookClient, WebhookClient } from './index.ts'

const authority = await makeCertificateAuthority()
const server = await authority.issue(['127.0.0.1'])
const clients = await makeCertificateAuthority()
const [first, second, unknown, expired] = await Promise.all([
  clients.issue(['hub']),
  clients.issue(['hub']),
  authority.issue(['hub']),
  clients.issue(['hub'], { expired: true }),
])

const layer = Layer.effect(WebhookClient, makeWebhookClient(authority.pem)).pipe(
  Layer.provide(Layer.succeed(AddressPolicy, makeAddressPolicy({ allowedHosts: new Set(['127.0.0.1']) }))),
)

/** A new object for each call, as the fan-out has after each change of a subscription. */
const certificateOf = ({ cert, key }: ServerCertificate) =>
  Redacted.make({ certificate: cert, privateKey: key })

const fingerprintOf = ({ cert }: ServerCertificate) => new X509Certificate(cert).fingerprint256

const deliver = (url: string, more: Partial<Delivery> = {}) =>
  Effect.flatMap(WebhookClient, (client) =>
    client.deliver(
      {
        url,
        eventBatch: 'evb_01',
        body: Buffer.from('[]'),
        secrets: [Redacted.make('whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=')],
        ...more,
      },
      { deadlineMs: 30_000 },
    ),
  ).pipe(
    // The connection is free in the next turn of the event loop.
    Effect.tap(Effect.callback<void>((resume) => void setImmediate(() => resume(Effect.void)))),
  )

describe('static headers', () => {
  // Rules: DEL-28
  it.live('arrive as they are, beside those of the hub', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(server)
      const headers = ['Authorization', 'Bearer a.b-c=', 'x-tenant', 'Shop \t 7']
      expect(yield* deliver(receiver.url(), { headers: Redacted.make(headers) })).toMatchObject({
        succeeded: true,
      })
      expect(yield* deliver(receiver.url())).toMatchObject({ succeeded: true })
      const [withHeaders, without] = receiver.received
      expect(withHeaders?.rawHeaders.join('\n')).toContain(headers.join('\n'))
      expect(withHeaders?.headers).toMatchObject({
        'content-type': 'application/json',
        'hub-event-id': 'evb_01',
        'webhook-id': 'evb_01',
      })
      expect(Object.keys(withHeaders?.headers ?? {}).toSorted()).toEqual(
        [...Object.keys(without?.headers ?? {}), 'authorization', 'x-tenant'].toSorted(),
      )
    }).pipe(Effect.provide(layer)),
  )
})

describe('a client certificate', () => {
  const required = { clients: { ca: clients.pem, required: true } }
  const asked = { clients: { ca: clients.pem, required: false } }

  // Rules: DEL-28
  it.live('opens a receiver that requires one', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(server, required)
      expect(yield* deliver(receiver.url(), { clientCertificate: certificateOf(first) })).toMatchObject({
        succeeded: true,
      })
      expect(receiver.received.map(({ clientFingerprint }) => clientFingerprint)).toEqual([
        fingerprintOf(first),
      ])
    }).pipe(Effect.provide(layer)),
  )

  // Rules: SUB-30
  it.live('that is missing fails with tls_error', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(server, required)
      expect(yield* deliver(receiver.url())).toMatchObject({
        succeeded: false,
        reason: 'tls_error',
        responseCode: null,
      })
      expect(receiver.received).toEqual([])
    }).pipe(Effect.provide(layer)),
  )

  // Rules: SUB-30
  it.live(
    'of another authority fails as the receiver ends it: Node closes the connection without an alert',
    () =>
      Effect.gen(function* () {
        const receiver = yield* tlsReceiver(server, required)
        expect(yield* deliver(receiver.url(), { clientCertificate: certificateOf(unknown) })).toMatchObject({
          succeeded: false,
          reason: 'connection_reset',
        })
        expect(receiver.received).toEqual([])
      }).pipe(Effect.provide(layer)),
  )

  // Rules: DEL-28
  it.live('has connections of its own: none is shared with another certificate, or with none', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(server, asked)
      const order = [first, null, second, first, null, second, first]
      for (const certificate of order) {
        const result = yield* deliver(
          receiver.url(),
          certificate === null ? {} : { clientCertificate: certificateOf(certificate) },
        )
        expect(result.succeeded).toBe(true)
      }
      expect(receiver.received.map(({ clientFingerprint }) => clientFingerprint)).toEqual(
        order.map((certificate) => (certificate === null ? null : fingerprintOf(certificate))),
      )
      // One for each certificate, and one without: the later requests use the earlier connections.
      expect(receiver.connections()).toBe(3)
    }).pipe(Effect.provide(layer)),
  )

  // Rules: DEL-29
  it.live('that has expired: the attempt fails without a connection', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(server, asked)
      expect(yield* deliver(receiver.url(), { clientCertificate: certificateOf(expired) })).toEqual({
        succeeded: false,
        reason: 'client_certificate_expired',
        responseCode: null,
        durationMs: 0,
      })
      expect(receiver.connections()).toBe(0)
    }).pipe(Effect.provide(layer)),
  )

  it.live('that TLS does not accept any more: the attempt fails, and later ones are made', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(server, asked)
      const broken = Redacted.make({ certificate: first.cert, privateKey: second.key })
      expect(yield* deliver(receiver.url(), { clientCertificate: broken })).toMatchObject({
        succeeded: false,
        reason: 'tls_error',
      })
      expect((yield* deliver(receiver.url())).succeeded).toBe(true)
    }).pipe(Effect.provide(layer)),
  )
})

describe('openssl s_server', () => {
  const folder = mkdtempSync(join(tmpdir(), 's-server-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  const file = (name: string, content: string): string => {
    const path = join(folder, name)
    writeFileSync(path, content)
    return path
  }

  /** It requires a client certificate, and answers the first request with 200. Returns its port and its output. */
  const opensslServer = Effect.acquireRelease(
    Effect.callback<{ readonly port: number; readonly output: () => string; readonly end: () => void }>(
      (resume) => {
        const process = spawn('openssl', [
          's_server',
          '-accept',
          '127.0.0.1:0',
          '-Verify',
          '1',
          '-verify_return_error',
          '-cert',
          file('server.pem', server.cert),
          '-key',
          file('server.key', server.key),
          '-CAfile',
          file('clients.pem', clients.pem),
        ])
        let output = ''
        let port: number | null = null
        let answered = false
        process.stdout.on('data', (chunk: Buffer) => {
          output += chunk.toString('latin1')
          const accepting = /^ACCEPT .*:(?<port>\d+)$/mu.exec(output)?.groups?.['port']
          if (port === null && accepting !== undefined) {
            port = Number(accepting)
            resume(Effect.succeed({ port, output: () => output, end: () => void process.kill('SIGKILL') }))
          }
          if (!answered && output.includes('\r\n\r\n')) {
            answered = true
            process.stdin.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
          }
        })
      },
    ),
    ({ end }) => Effect.sync(end),
  )

  // Rules: DEL-28
  it.live('verifies the client certificate and gets the static headers', () =>
    Effect.gen(function* () {
      const { output, port } = yield* opensslServer
      const result = yield* deliver(`https://127.0.0.1:${port}/`, {
        clientCertificate: certificateOf(first),
        headers: Redacted.make(['X-Tenant', 'Shop 7']),
      })
      expect(result).toMatchObject({ succeeded: true, responseCode: 200 })
      expect(output()).toContain(first.cert.trim())
      expect(output()).toContain('\r\nX-Tenant: Shop 7\r\n')
    }).pipe(Effect.provide(layer)),
  )

  // Rules: SUB-30
  it.live('refuses a delivery without one, and with one of another authority: tls_error', () =>
    Effect.gen(function* () {
      for (const more of [{}, { clientCertificate: certificateOf(unknown) }]) {
        const { port } = yield* opensslServer
        expect(yield* deliver(`https://127.0.0.1:${port}/`, more)).toMatchObject({
          succeeded: false,
          reason: 'tls_error',
        })
      }
    }).pipe(Effect.provide(layer)),
  )
})
