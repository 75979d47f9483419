/** Malicious receivers and name servers, with real sockets on the loopback address. */
import { describe, expect, it } from '@effect/vitest'
import { makeCertificateAuthority, tlsReceiver } from '@hub/testkit'
import { Effect, Redacted } from 'effect'
import { TLSSocket } from 'node:tls'
import { dnsServer } from './dns-server.testing.ts'
import { AddressPolicy, makeAddressPolicy, makeWebhookClient } from './index.ts'
import { askNameServers } from './address-policy.ts'
import { tcpServer } from './tcp-server.testing.ts'

const authority = await makeCertificateAuthority()
const NAMES = ['127.0.0.1', 'rebinding.test', 'mixed.test', 'mapped.test', 'silent.test', 'good.test']
const certificate = await authority.issue(NAMES)

/** Short, to keep the tests short: the default is ten seconds. */
const DEADLINE_MS = 400

/** The real client and resolver, with a given name server. 127.0.0.1 counts as public. */
const clientOver = Effect.fnUntraced(function* (nameServer?: string) {
  const policy = makeAddressPolicy({
    allowedHosts: new Set(['127.0.0.1']),
    ...(nameServer === undefined ? {} : { resolveName: askNameServers([nameServer]) }),
  })
  const client = yield* makeWebhookClient(authority.pem).pipe(Effect.provideService(AddressPolicy, policy))
  const deliver = (url: string, deadlineMs = DEADLINE_MS) =>
    client.deliver(
      {
        url,
        eventBatch: 'evb_01',
        body: Buffer.from('[{"id":"evt_1"}]'),
        secrets: [Redacted.make('whsec_1')],
      },
      { deadlineMs },
    )
  return { client, deliver, policy }
})

const failure = (reason: string) => expect.objectContaining({ succeeded: false, reason, responseCode: null })

describe('a name server', () => {
  it.live(
    'that answers differently the second time leads nowhere else: one answer, checked and connected to',
    () =>
      Effect.gen(function* () {
        const honest = yield* tlsReceiver(certificate, { name: 'rebinding.test' })
        const dns = yield* dnsServer((_name, family, asked) =>
          family === 6 ? [] : [asked <= 2 ? '127.0.0.1' : '127.0.0.2'],
        )
        const { deliver, policy } = yield* clientOver(dns.address)
        yield* policy.checkUrl(honest.url())
        const before = dns.asked('rebinding.test')
        expect(yield* deliver(honest.url(), 5000)).toMatchObject({ succeeded: true })
        // One A and one AAAA query: the name is not resolved again between check and connection.
        expect(dns.asked('rebinding.test') - before).toBe(2)
      }),
  )

  // Rules: SUB-15
  it.live(
    'that has turned to an address inside is seen with the next connection, and no socket goes there',
    () =>
      Effect.gen(function* () {
        const inside = yield* tlsReceiver(certificate, { host: '127.0.0.2', name: 'rebinding.test' })
        const dns = yield* dnsServer((_name, family, asked) =>
          family === 6 ? [] : [asked === 1 ? '127.0.0.1' : '127.0.0.2'],
        )
        const { deliver, policy } = yield* clientOver(dns.address)
        yield* policy.checkUrl(inside.url())
        expect(yield* deliver(inside.url(), 5000)).toEqual(failure('address_not_public'))
        expect(inside.connections()).toBe(0)
      }),
  )

  it.live.each([
    ['mixed.test', (family: 4 | 6) => (family === 4 ? ['127.0.0.1', '10.0.0.1'] : [])],
    ['mixed.test', (family: 4 | 6) => (family === 4 ? ['127.0.0.1'] : ['fd00:0:0:0:0:0:0:1'])],
    ['mapped.test', (family: 4 | 6) => (family === 4 ? [] : ['0:0:0:0:0:ffff:7f00:2'])],
  ] as const)('that hides a private answer is refused whole: %s', ([name, answers]) =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, { name })
      const dns = yield* dnsServer((_name, family) => answers(family))
      const { deliver, policy } = yield* clientOver(dns.address)
      const refused = yield* Effect.flip(policy.checkUrl(receiver.url('/hook?token=s3cret')))
      expect(refused.rule).toBe('not_public')
      expect(JSON.stringify(refused)).not.toMatch(/10\.0|127\.|fd00|ffff|s3cret|\.test/u)
      expect(yield* deliver(receiver.url(), 5000)).toEqual(failure('address_not_public'))
      expect(receiver.connections()).toBe(0)
    }),
  )

  it.live('that never answers delays an attempt until its deadline only', () =>
    Effect.gen(function* () {
      const dns = yield* dnsServer(() => null)
      const { deliver } = yield* clientOver(dns.address)
      expect(yield* deliver('https://silent.test/')).toEqual(failure('timeout'))
    }),
  )

  it.live('of an honest receiver is queried by the real resolver', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, { name: 'good.test' })
      const dns = yield* dnsServer((_name, family) => (family === 4 ? ['127.0.0.1'] : []))
      const { deliver } = yield* clientOver(dns.address)
      expect(yield* deliver(receiver.url(), 5000)).toMatchObject({ succeeded: true })
      expect(receiver.received.length).toBe(1)
    }),
  )
})

describe('a receiver that', () => {
  it.live('sends its headers byte by byte: timeout', () =>
    Effect.gen(function* () {
      const closed = Promise.withResolvers<void>()
      const receiver = yield* tlsReceiver(certificate, {
        respond: (_received, response) => {
          const { socket } = response
          let sent = 0
          const timer = setInterval(
            () => socket?.write('HTTP/1.1 200 OK\r\nX-Slow: '.charAt(sent++) || 'x'),
            20,
          )
          socket?.once('close', () => {
            clearInterval(timer)
            closed.resolve()
          })
        },
      })
      const { deliver } = yield* clientOver()
      expect(yield* deliver(receiver.url())).toEqual(failure('timeout'))
      yield* Effect.promise(() => closed.promise)
    }),
  )

  // Rules: DEL-14
  it.live('sends informational responses (1xx) without end: connection_reset after sixteen of them', () =>
    Effect.gen(function* () {
      let sent = 0
      const closed = Promise.withResolvers<void>()
      const receiver = yield* tlsReceiver(certificate, {
        respond: (_received, response) => {
          const more = () => {
            if (response.socket?.destroyed !== false) return
            sent += 1
            response.writeProcessing(() => setImmediate(more))
          }
          response.once('close', () => closed.resolve())
          more()
        },
      })
      const { deliver } = yield* clientOver()
      // Far above the time that sixteen responses take. Without the limit it would be a timeout.
      expect(yield* deliver(receiver.url(), 20_000)).toEqual(failure('connection_reset'))
      yield* Effect.promise(() => closed.promise)
      expect(sent).toBeGreaterThan(16)
    }),
  )

  // Rules: DEL-14
  it.live('sends sixteen informational responses (1xx) before the final one: success', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, {
        respond: (_received, response) => {
          const next = (left: number) => {
            if (left === 0) response.writeHead(204).end()
            else response.writeProcessing(() => next(left - 1))
          }
          next(16)
        },
      })
      const { deliver } = yield* clientOver()
      expect(yield* deliver(receiver.url(), 20_000)).toMatchObject({ succeeded: true, responseCode: 204 })
    }),
  )

  // RFC 9110, 15.2: a client must be able to parse informational responses, also unexpected ones. The
  // octets with 103 are the example of RFC 8297, 2; the others are its form with other codes.
  const FINAL = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
  it.live.each([
    ['100', 'HTTP/1.1 100 Continue\r\n\r\n'],
    ['100 without a reason, with headers', 'HTTP/1.1 100 \r\nConnection: close\r\nContent-Length: 0\r\n\r\n'],
    ['100 twice, and 102', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(2) + 'HTTP/1.1 102 Processing\r\n\r\n'],
    [
      '103',
      'HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload; as=style\r\nLink: </script.js>; rel=preload; as=script\r\n\r\n',
    ],
    ['an unknown 1xx', 'HTTP/1.1 199 Custom\r\n\r\n'],
  ])('answers %s, and then 200: success, on a connection that stays open', ([_name, interim]) =>
    Effect.gen(function* () {
      let connections = 0
      const port = yield* tcpServer((socket) => {
        connections += 1
        const secure = new TLSSocket(socket, { isServer: true, key: certificate.key, cert: certificate.cert })
        // The last octet of the body.
        secure
          .on('error', () => {})
          .on('data', (chunk) => chunk.at(-1) === 93 && secure.write(interim + FINAL))
      })
      const { deliver } = yield* clientOver()
      for (let i = 0; i < 3; i++) {
        const result = yield* deliver(`https://127.0.0.1:${port}/`, 20_000)
        expect(result).toMatchObject({ succeeded: true, responseCode: 200 })
        // The result is known at the status line. The body is read in the same turn of the event loop.
        yield* Effect.promise(() => new Promise(setImmediate))
      }
      expect(connections).toBe(1)
    }),
  )

  it.live('answers 100, 102 and 103 as Node writes them, octet by octet, and then 204: success', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, {
        respond: (_received, response) => {
          const { socket } = response
          const written: Array<Buffer> = []
          const write = socket?.write.bind(socket)
          if (socket === null || write === undefined) return
          socket.write = (chunk: string | Uint8Array) => written.push(Buffer.from(chunk)) > 0
          response.writeContinue()
          response.writeProcessing()
          response.writeEarlyHints({ link: '</style.css>; rel=preload; as=style' })
          socket.write = write
          const octets = Buffer.concat(written)
          const next = (at: number) => {
            if (at === octets.length) response.writeHead(204).end()
            else write(octets.subarray(at, at + 1), () => setImmediate(next, at + 1))
          }
          next(0)
        },
      })
      const { deliver } = yield* clientOver()
      expect(yield* deliver(receiver.url(), 20_000)).toMatchObject({ succeeded: true, responseCode: 204 })
    }),
  )

  it.live('answers 100 and nothing else: timeout', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, {
        respond: (_received, response) => response.writeContinue(),
      })
      const { deliver } = yield* clientOver()
      expect(yield* deliver(receiver.url())).toEqual(failure('timeout'))
    }),
  )

  it.live.each([
    ['an informational response without end', 'HTTP/1.1 103 Early Hints\r\n', 'Link: </a>\r\n'],
    ['empty lines without end', '', '\r\n'],
  ] as const)('sends %s: connection_reset, with bounded memory', ([_name, first, repeated]) =>
    Effect.gen(function* () {
      const closed = Promise.withResolvers<void>()
      const receiver = yield* tlsReceiver(certificate, {
        respond: (_received, { socket }) => {
          socket?.on('error', () => {}).once('close', () => closed.resolve())
          socket?.write(first)
          const more = () => {
            while (socket?.destroyed === false && socket.write(repeated.repeat(100)));
          }
          socket?.on('drain', more)
          more()
        },
      })
      const { deliver } = yield* clientOver()
      expect(yield* deliver(receiver.url(), 20_000)).toEqual(failure('connection_reset'))
      yield* Effect.promise(() => closed.promise)
    }),
  )

  // RFC 9110, 7.8: a server must not switch to a protocol that the client did not name.
  it.live('switches to another protocol: connection_reset', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, {
        respond: (_received, { socket }) =>
          void socket?.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n'),
      })
      const { deliver } = yield* clientOver()
      expect(yield* deliver(receiver.url(), 20_000)).toEqual(failure('connection_reset'))
    }),
  )

  it.live('sends endless headers: connection_reset, with bounded memory', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, {
        respond: (_received, response) => {
          const { socket } = response
          socket?.on('error', () => {})
          socket?.write('HTTP/1.1 200 OK\r\n')
          const more = () => {
            while (socket?.destroyed === false && socket.write(`X-Endless: ${'x'.repeat(8000)}\r\n`));
          }
          socket?.on('drain', more)
          more()
        },
      })
      const { deliver } = yield* clientOver()
      expect(yield* deliver(receiver.url(), 5000)).toEqual(failure('connection_reset'))
    }),
  )

  it.live('closes the connection in the middle of its headers: connection_reset', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, {
        respond: (_received, response) => {
          response.socket?.write('HTTP/1.1 200 O', () => response.socket?.destroy())
        },
      })
      const { deliver } = yield* clientOver()
      expect(yield* deliver(receiver.url(), 5000)).toEqual(failure('connection_reset'))
    }),
  )

  it.live('resets the connection before TLS is established: connection_reset', () =>
    Effect.gen(function* () {
      const port = yield* tcpServer((socket) => socket.once('data', () => socket.resetAndDestroy()))
      const { deliver } = yield* clientOver()
      expect(yield* deliver(`https://127.0.0.1:${port}/`, 5000)).toEqual(failure('connection_reset'))
    }),
  )

  it.live('does not speak TLS: tls_error', () =>
    Effect.gen(function* () {
      const port = yield* tcpServer((socket) => {
        socket.once('data', () => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'))
      })
      const { deliver } = yield* clientOver()
      expect(yield* deliver(`https://127.0.0.1:${port}/`, 5000)).toEqual(failure('tls_error'))
    }),
  )

  // Rules: DEL-11
  it.live('never sends its body: success by its status', () =>
    Effect.gen(function* () {
      const closed = Promise.withResolvers<void>()
      const receiver = yield* tlsReceiver(certificate, {
        respond: (_received, response) => {
          response.writeHead(200, { 'content-length': '1000' }).flushHeaders()
          response.once('close', closed.resolve)
        },
      })
      const { deliver } = yield* clientOver()
      expect(yield* deliver(receiver.url(), 5000)).toMatchObject({ succeeded: true, responseCode: 200 })
      // The client does not wait for the body.
      yield* Effect.promise(() => closed.promise)
    }),
  )
})
