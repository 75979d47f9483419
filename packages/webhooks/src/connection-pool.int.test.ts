/** The connections of the client, as real TLS receivers see them. */
import { connect, type Socket } from 'node:net'
import { describe, expect, it } from '@effect/vitest'
import { eventually, makeCertificateAuthority, tlsReceiver } from '@hub/testkit'
import { Effect, Fiber, Redacted } from 'effect'
import { AddressPolicy, makeAddressPolicy, makeWebhookClient } from './index.ts'
import { tcpServer } from './tcp-server.testing.ts'

const authority = await makeCertificateAuthority()
const certificate = await authority.issue(['127.0.0.1'])

const makeClient = Effect.gen(function* () {
  const policy = makeAddressPolicy({ allowedHosts: new Set(['127.0.0.1']) })
  const client = yield* makeWebhookClient(authority.pem).pipe(Effect.provideService(AddressPolicy, policy))
  const delivery = {
    eventBatch: 'evb_01',
    body: Buffer.from('[]'),
    secrets: [Redacted.make('whsec_1')],
  } as const
  /** Ends in another turn of the event loop, where the fan-out begins the next attempt. */
  const deliver = (url: string, deadlineMs = 5000) =>
    Effect.tap(client.deliver({ url, ...delivery }, { deadlineMs }), nextTurn)
  return { deliver, openSockets: client.openSockets }
})

const nextTurn = Effect.callback<void>((resume) => void setImmediate(() => resume(Effect.void)))

const succeeded = expect.objectContaining({ succeeded: true })

const noneOpen = (openSockets: () => number) =>
  Effect.promise(() => eventually(() => openSockets() === 0, { everyMs: 5 }))

/** A TCP proxy that holds the first connection (`lost`) and forwards the others. */
const proxyWithoutFirst = Effect.fnUntraced(function* (port: number) {
  const lost = Promise.withResolvers<Socket>()
  let connections = 0
  const way = yield* tcpServer((socket) => {
    connections += 1
    if (connections === 1) lost.resolve(socket)
    else forward(socket, port)
  })
  return { url: `https://127.0.0.1:${way}/`, lost: Effect.promise(() => lost.promise) }
})

const forward = (socket: Socket, port: number): void => {
  const onwards = connect(port, '127.0.0.1')
  onwards.on('error', () => socket.destroy())
  // Without this, a reset by the client would leave the connection to the receiver open.
  socket.on('close', () => onwards.destroy())
  socket.pipe(onwards).pipe(socket)
}

describe('a receiver', () => {
  it.live('gets no more connections than attempts in flight', () =>
    Effect.gen(function* () {
      const { deliver, openSockets } = yield* makeClient
      const receiver = yield* tlsReceiver(certificate)
      const one = Effect.gen(function* () {
        for (let i = 0; i < 25; i++) expect(yield* deliver(receiver.url())).toEqual(succeeded)
      })
      yield* Effect.all(
        Array.from({ length: 8 }, () => one),
        { concurrency: 'unbounded' },
      )
      expect(receiver.received).toHaveLength(200)
      expect(receiver.connections()).toBe(8)
      expect(openSockets()).toBe(8)
    }),
  )

  it.live('gets the next request on the connection that was used last', () =>
    Effect.gen(function* () {
      const { deliver } = yield* makeClient
      const ports: Array<number | undefined> = []
      const receiver = yield* tlsReceiver(certificate, {
        respond: (_received, response, request) => {
          ports.push(request.socket.remotePort)
          response.writeHead(200).end()
        },
      })
      yield* Effect.all([deliver(receiver.url()), deliver(receiver.url())], { concurrency: 2 })
      const last = ports.at(-1)
      ports.length = 0
      for (let i = 0; i < 5; i++) yield* deliver(receiver.url())
      expect(ports).toEqual([last, last, last, last, last])
    }),
  )

  it.live('that announces to close gets a new connection for each delivery, and none stays open', () =>
    Effect.gen(function* () {
      const { deliver, openSockets } = yield* makeClient
      const receiver = yield* tlsReceiver(certificate, {
        respond: (_received, response) => response.writeHead(200, { connection: 'close' }).end(),
      })
      for (let i = 0; i < 5; i++) expect(yield* deliver(receiver.url())).toEqual(succeeded)
      expect(receiver.connections()).toBe(5)
      yield* noneOpen(openSockets)
    }),
  )

  it.live('that closes a free connection without notice gets a new one', () =>
    Effect.gen(function* () {
      const { deliver, openSockets } = yield* makeClient
      const sockets: Array<Socket> = []
      const receiver = yield* tlsReceiver(certificate, {
        respond: (_received, response, request) => {
          sockets.push(request.socket)
          response.writeHead(200).end()
        },
      })
      for (let i = 0; i < 3; i++) {
        expect(yield* deliver(receiver.url())).toEqual(succeeded)
        for (const socket of sockets) socket.destroy()
        yield* noneOpen(openSockets)
      }
      expect(receiver.connections()).toBe(3)
    }),
  )

  it.live('with one connection that is never established gets requests on others meanwhile', () =>
    Effect.gen(function* () {
      const { deliver } = yield* makeClient
      const receiver = yield* tlsReceiver(certificate)
      const { lost, url } = yield* proxyWithoutFirst(receiver.port)
      const first = yield* Effect.forkChild(deliver(url))
      const socket = yield* lost
      expect(yield* deliver(url)).toEqual(succeeded)
      expect(yield* deliver(url)).toEqual(succeeded)
      expect(receiver.connections()).toBe(1)
      socket.destroy()
      expect(yield* Fiber.join(first)).toMatchObject({ succeeded: false, reason: 'connection_reset' })
    }),
  )
})

describe('an attempt that is aborted while it connects', () => {
  it.live('sends no request after the connection is established, and leaves no connection open', () =>
    Effect.gen(function* () {
      const { deliver, openSockets } = yield* makeClient
      const receiver = yield* tlsReceiver(certificate)
      const { lost, url } = yield* proxyWithoutFirst(receiver.port)
      expect(yield* deliver(url, 100)).toMatchObject({ reason: 'timeout' })
      expect(openSockets()).toBe(1)
      // Now the connection can be established.
      forward(yield* lost, receiver.port)
      yield* noneOpen(openSockets)
      expect(receiver.connections()).toBe(1)
      expect(receiver.received).toEqual([])
    }),
  )
})

describe('a client that is closed', () => {
  it.live('closes its connections, and attempts in flight and later ones are not made', () =>
    Effect.gen(function* () {
      const receiver = yield* tlsReceiver(certificate, { respond: () => {} })
      const { attempt, deliver, openSockets } = yield* Effect.scoped(
        Effect.gen(function* () {
          const client = yield* makeClient
          const attempt = yield* Effect.forkDetach(client.deliver(receiver.url()))
          yield* receiver.until((received) => received.length === 1)
          return { ...client, attempt }
        }),
      )
      expect(yield* Effect.flip(Fiber.join(attempt))).toMatchObject({ _tag: 'AttemptNotMade' })
      expect(yield* Effect.flip(deliver(receiver.url()))).toMatchObject({ _tag: 'AttemptNotMade' })
      yield* noneOpen(openSockets)
      expect(receiver.connections()).toBe(1)
    }),
  )
})
