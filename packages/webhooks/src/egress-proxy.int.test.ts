/** Deliveries through an HTTP proxy, to real TLS receivers on the loopback address. */
import { X509Certificate } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import * as NodeFileSystem from '@effect/platform-node/NodeFileSystem'
import { describe, expect, it } from '@effect/vitest'
import { makeCertificateAuthority, tlsReceiver } from '@hub/testkit'
import { ConfigProvider, Context, Effect, Layer, Redacted, Result } from 'effect'
import {
  AddressPolicy,
  AttemptNotMade,
  type Delivery,
  makeAddressPolicy,
  makeWebhookClient,
  WebhookClient,
} from './index.ts'
import { readEgressProxy } from './egress-proxy.ts'
import { tcpServer } from './tcp-server.testing.ts'

const authority = await makeCertificateAuthority()
const certificate = await authority.issue(['127.0.0.1', 'receiver.test'])
const clients = await makeCertificateAuthority()
const [first, second] = await Promise.all([clients.issue(['hub']), clients.issue(['hub'])])

const failure = (reason: string) => expect.objectContaining({ succeeded: false, reason, responseCode: null })

/**
 * A proxy that answers `CONNECT` with a status, and connects for 200. `heads`: what it was asked;
 * `before`: what it sends first.
 */
const proxyOf = Effect.fnUntraced(function* (status: number | null, before = '') {
  const heads: Array<string> = []
  const port = yield* tcpServer((socket: Socket) => {
    socket.once('data', (data) => {
      const head = data.toString('latin1')
      heads.push(head)
      socket.write(before)
      if (status === null) return
      if (status !== 200) {
        socket.end(`HTTP/1.1 ${status} No\r\nContent-Length: 0\r\n\r\n`)
        return
      }
      const [, host = '', target = ''] = /^CONNECT (?<host>[\d.]+):(?<port>\d+) /u.exec(head) ?? []
      const onward = connect(Number(target), host, () => {
        socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
        socket.pipe(onward).pipe(socket)
      })
      onward.on('error', () => socket.destroy())
      socket.on('close', () => onward.destroy())
    })
  })
  return { heads, port }
})

const clientThrough = Effect.fnUntraced(function* (proxyUrl: string) {
  const policy = makeAddressPolicy({
    allowedHosts: new Set(['127.0.0.1']),
    resolveName: (name) =>
      Effect.succeed([{ address: name === 'receiver.test' ? '127.0.0.1' : '10.0.0.1', family: 4 as const }]),
  })
  const client = yield* makeWebhookClient(authority.pem, Result.getOrThrow(readEgressProxy(proxyUrl))).pipe(
    Effect.provideService(AddressPolicy, policy),
  )
  return (url: string, deadlineMs = 5000, clientCertificate: Delivery['clientCertificate'] = null) =>
    client.deliver(
      {
        url,
        eventBatch: 'evb_01',
        body: Buffer.from('[]'),
        secrets: [Redacted.make('whsec_1')],
        clientCertificate,
      },
      { deadlineMs },
    )
})

describe('with an egress proxy, a delivery', () => {
  it.live('goes through a tunnel to the checked address, with the certificate of the host name', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, { name: 'receiver.test' })
      const proxy = yield* proxyOf(200)
      const deliver = yield* clientThrough(`http://hub:pass%20word@127.0.0.1:${proxy.port}`)
      expect(yield* deliver(receiver.url('/hook'))).toMatchObject({ succeeded: true, responseCode: 200 })
      expect(proxy.heads).toHaveLength(1)
      const { port } = new URL(receiver.url())
      const login = Buffer.from('hub:pass word').toString('base64')
      expect(proxy.heads[0]).toBe(
        `CONNECT 127.0.0.1:${port} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nProxy-Authorization: Basic ${login}\r\n\r\n`,
      )
    }),
  )

  // Rules: DEL-28
  it.live('has the client certificate of its subscription, and a tunnel for it', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, {
        clients: { ca: clients.pem, required: true },
        name: 'receiver.test',
      })
      const proxy = yield* proxyOf(200)
      const deliver = yield* clientThrough(`http://127.0.0.1:${proxy.port}`)
      for (const { cert, key } of [first, second]) {
        const own = Redacted.make({ certificate: cert, privateKey: key })
        expect(yield* deliver(receiver.url(), 30_000, own)).toMatchObject({ succeeded: true })
      }
      expect(receiver.received.map(({ clientFingerprint }) => clientFingerprint)).toEqual(
        [first, second].map(({ cert }) => new X509Certificate(cert).fingerprint256),
      )
      expect(proxy.heads).toHaveLength(2)
      expect(yield* deliver(receiver.url(), 30_000)).toEqual(failure('tls_error'))
    }),
  )

  it.live('to an address that is not public is refused before the proxy is asked', () =>
    Effect.gen(function* () {
      const proxy = yield* proxyOf(200)
      const deliver = yield* clientThrough(`http://127.0.0.1:${proxy.port}`)
      expect(yield* deliver('https://private.test/')).toEqual(failure('address_not_public'))
      expect(yield* deliver('https://10.1.2.3/')).toEqual(failure('address_not_public'))
      expect(proxy.heads).toEqual([])
    }),
  )

  // RFC 9110, 15.2: a client must be able to parse informational responses, also unexpected ones.
  it.live('goes through a tunnel that the proxy announces with informational responses', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, { name: 'receiver.test' })
      const proxy = yield* proxyOf(
        200,
        'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\nA: b\r\n\r\n',
      )
      const deliver = yield* clientThrough(`http://127.0.0.1:${proxy.port}`)
      expect(yield* deliver(receiver.url())).toMatchObject({ succeeded: true, responseCode: 200 })
    }),
  )

  it.live('does not count as an attempt if the proxy sends informational responses without end', () =>
    Effect.gen(function* () {
      const proxy = yield* proxyOf(null, 'HTTP/1.1 102 Processing\r\n\r\n'.repeat(1000))
      const deliver = yield* clientThrough(`http://127.0.0.1:${proxy.port}`)
      expect(yield* Effect.flip(deliver('https://127.0.0.1:9/'))).toBeInstanceOf(AttemptNotMade)
    }),
  )

  it.live.each([
    [502, 'connection_refused'],
    [403, 'connection_refused'],
    [504, 'timeout'],
  ] as const)('that the proxy answers with %i fails as %s', ([status, reason]) =>
    Effect.gen(function* () {
      const proxy = yield* proxyOf(status)
      const deliver = yield* clientThrough(`http://127.0.0.1:${proxy.port}`)
      expect(yield* deliver('https://127.0.0.1:9/')).toEqual(failure(reason))
    }),
  )

  it.live('does not count as an attempt while the proxy is away or refuses the login', () =>
    Effect.gen(function* () {
      const refusing = yield* proxyOf(407)
      const away = yield* Effect.scoped(proxyOf(200))
      for (const port of [refusing.port, away.port]) {
        const deliver = yield* clientThrough(`http://127.0.0.1:${port}`)
        expect(yield* Effect.flip(deliver('https://127.0.0.1:9/'))).toBeInstanceOf(AttemptNotMade)
      }
    }),
  )

  it.live('uses the proxy of the environment', () =>
    Effect.gen(function* () {
      const proxy = yield* proxyOf(502)
      const client = yield* Layer.build(WebhookClient.layer).pipe(
        Effect.map((context) => Context.get(context, WebhookClient)),
        Effect.provide(NodeFileSystem.layer),
        Effect.provideService(AddressPolicy, makeAddressPolicy({ allowedHosts: new Set(['127.0.0.1']) })),
        Effect.provide(
          ConfigProvider.layer(
            ConfigProvider.fromUnknown({ HUB_WEBHOOK_PROXY_URL: `http://127.0.0.1:${proxy.port}` }),
          ),
        ),
      )
      const secrets = [Redacted.make('whsec_1')] as const
      const body = Buffer.from('[]')
      yield* client.deliver({ url: 'https://127.0.0.1:9/', eventBatch: 'evb_01', body, secrets })
      expect(proxy.heads).toHaveLength(1)
    }),
  )

  it.live('times out when the proxy never answers', () =>
    Effect.gen(function* () {
      const proxy = yield* proxyOf(null)
      const deliver = yield* clientThrough(`http://127.0.0.1:${proxy.port}`)
      expect(yield* deliver('https://127.0.0.1:9/', 300)).toEqual(failure('timeout'))
    }),
  )
})
