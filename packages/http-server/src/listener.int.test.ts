/** The listener alone: its limits, its timeouts, and its end while requests are on their way. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import * as NodeHttpServerRequest from '@effect/platform-node/NodeHttpServerRequest'
import { eventually } from '@hub/testkit'
import { Duration, Effect, Layer, Logger, ManagedRuntime, Metric } from 'effect'
import { HttpServer, HttpServerRequest, HttpServerResponse } from 'effect/http'
import { afterEach, describe, expect, it } from 'vitest'
import type { ConnectionLimits } from './connections.ts'
import { answered, listenerContract, openRaw } from './testing/listener.contract.ts'
import { makeListener, SERVER_OPTIONS } from './listener.ts'
import { framingFault } from './framing.ts'
import { readBody } from './body.ts'
import { serve, Serving } from './serving.ts'

const incomingOf = (request: HttpServerRequest.HttpServerRequest) =>
  NodeHttpServerRequest.toIncomingMessage(request) as IncomingMessage

const PAGE = Effect.map(HttpServerRequest.HttpServerRequest, (request) =>
  HttpServerResponse.text('page', { status: framingFault(incomingOf(request))?.status ?? 200 }),
)

/** An app that leaves the whole answer to a function of Node. */
const answerOf = (app: RequestListener) =>
  Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
    Effect.callback<HttpServerResponse.HttpServerResponse>((resume) => {
      const response = NodeHttpServerRequest.toServerResponse(request) as ServerResponse
      response.once('close', () => resume(Effect.succeed(HttpServerResponse.empty())))
      app(incomingOf(request), response as Parameters<RequestListener>[1])
    }),
  )

const start = async ({
  app,
  limits = { all: 500, perAddress: 250 },
  shutdownDelayMs = 0,
}: {
  readonly app?: RequestListener
  readonly limits?: ConnectionLimits
  readonly shutdownDelayMs?: number
}) => {
  const server = createServer(SERVER_OPTIONS)
  const listener = makeListener(server, { limits, refusal: () => ({ headers: {}, body: 'refused' }) })
  const shutdownDelay = Duration.millis(shutdownDelayMs)
  const layer = listener.layer({
    host: '127.0.0.1',
    port: 0,
    drainWithin: Duration.seconds(20),
    shutdownDelay,
  })
  const announce = Layer.effectDiscard(
    Effect.addFinalizer(() => Effect.andThen(Effect.sync(listener.drain), Effect.sleep(shutdownDelay))),
  )
  const serving = Layer.effectDiscard(serve(app === undefined ? PAGE : answerOf(app)))
  const runtime = ManagedRuntime.make(
    announce.pipe(
      Layer.provideMerge(serving),
      Layer.provideMerge(layer),
      Layer.provide(Serving.layer),
      Layer.provide(Logger.layer([])),
    ),
  )
  await runtime.runPromise(Effect.service(HttpServer.HttpServer))
  return { server, port: (server.address() as AddressInfo).port, stop: () => runtime.dispose() }
}

listenerContract({ start: (shutdownDelayMs) => start({ shutdownDelayMs }), openPath: '/' })

const closers: Array<() => unknown> = []
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
})
const started = async (options: Parameters<typeof start>[0] = {}) => {
  const process = await start(options)
  closers.push(process.stop)
  const open = async (localAddress?: string) => {
    const raw = await openRaw(process.port, localAddress)
    closers.unshift(() => raw.socket.destroy())
    return raw
  }
  return { ...process, open }
}
const GET = 'GET / HTTP/1.1\r\nHost: hub\r\n\r\n'

/** The connections that were closed so far because of a limit, by `limit closed`. */
const closedAtLimit = async (): Promise<Readonly<Record<string, number>>> => {
  const metrics = await Effect.runPromise(Metric.snapshot)
  return Object.fromEntries(
    metrics.flatMap(({ attributes, id, state }) =>
      id === 'hub_http_connections_closed_total' && 'count' in state
        ? [[`${attributes?.['limit']} ${attributes?.['closed']}`, Number(state.count)]]
        : [],
    ),
  )
}

describe('at the limit of connections', () => {
  it.each([
    ['all', { all: 2, perAddress: 2 }],
    ['address', { all: 10, perAddress: 2 }],
  ] as const)('(%s) each connection that is closed is counted', async (limit, limits) => {
    const waiting: Array<() => void> = []
    const { open } = await started({
      app: (_request, response) => waiting.push(() => response.end('late')),
      limits,
    })
    const from = limit === 'all' ? '127.0.0.2' : '127.0.0.1'
    const before = await closedAtLimit()
    const idle = await open()
    const busy = [await open(), await open(from)]
    await eventually(idle.ended)
    for (const { socket } of busy) socket.write(GET)
    await eventually(() => waiting.length === 2)
    const refused = [await open(from), await open(from)]
    for (const raw of refused) expect(await raw.answersOrEnd(1)).toBe(false)
    const other = limit === 'all' ? 'address' : 'all'
    expect(await closedAtLimit()).toEqual({
      ...before,
      [`${limit} waiting`]: before[`${limit} waiting`]! + 1,
      [`${limit} new`]: before[`${limit} new`]! + 2,
      [`${other} waiting`]: before[`${other} waiting`],
      [`${other} new`]: before[`${other} new`],
    })
    for (const answer of waiting) answer()
    for (const raw of busy) await answered(raw)
  })

  it('a new connection takes the place of the one that has waited longest', async () => {
    const { open } = await started({ limits: { all: 10, perAddress: 3 } })
    const idle = await open()
    const used = await open()
    const silent = await open()
    used.socket.write(GET)
    await answered(used)
    const next = await open()
    next.socket.write(GET)
    await answered(next)
    await eventually(idle.ended)
    expect([used.ended(), silent.ended()]).toEqual([false, false])
  })

  it('a connection with a request in progress stays, and the new one is closed', async () => {
    const waiting: Array<() => void> = []
    const { open } = await started({
      app: (_request, response) => waiting.push(() => response.end('late')),
      limits: { all: 10, perAddress: 2 },
    })
    const busy = [await open(), await open()]
    for (const { socket } of busy) socket.write(GET)
    await eventually(() => waiting.length === 2)
    const refused = await open()
    expect(await refused.answersOrEnd(1)).toBe(false)
    const elsewhere = await open('127.0.0.2')
    elsewhere.socket.write(GET)
    await eventually(() => waiting.length === 3)
    for (const answer of waiting) answer()
    for (const raw of [...busy, elsewhere]) await answered(raw)
  })

  it.each([
    ['a body', 'POST / HTTP/1.1\r\nHost: hub\r\nContent-Length: 9\r\n\r\nabc'],
    ['its headers', 'GET / HTTP/1.1\r\nHo'],
  ])('a connection that sends %s slowly makes room', async (_name, text) => {
    const { open } = await started({
      app: (request, response) => void request.resume().once('end', () => response.end('read')),
      limits: { all: 2, perAddress: 2 },
    })
    const slow = [await open(), await open()]
    for (const { socket } of slow) socket.write(text)
    const next = await open('127.0.0.2')
    next.socket.write(GET)
    await answered(next)
  })

  it('a connection whose client does not read its answer makes room', async () => {
    const large = 'x'.repeat(50_000_000)
    let finished = 0
    const { open } = await started({
      app: (request, response) => {
        if (request.url === '/') response.end('small')
        else response.once('prefinish', () => finished++).end(large)
      },
      limits: { all: 2, perAddress: 2 },
    })
    for (let i = 0; i < 2; i++) {
      const { socket } = await open()
      socket.pause()
      socket.write('GET /large HTTP/1.1\r\nHost: hub\r\n\r\n')
    }
    await eventually(() => finished === 2)
    const next = await open()
    next.socket.write(GET)
    await answered(next)
  })

  it('a proxy has no limit of its own', async () => {
    const { open } = await started({
      limits: { all: 10, perAddress: 2, isProxy: (address) => address === '127.0.0.1' },
    })
    const all = [await open(), await open(), await open()]
    for (const raw of all) {
      raw.socket.write(GET)
      await answered(raw)
    }
  })

  it('a closed connection counts no longer', async () => {
    const { open, server } = await started({ limits: { all: 10, perAddress: 1 } })
    let closed = 0
    // `server.getConnections` does not count the connections of further listening sockets.
    server.on('connection', (socket: Socket) => socket.once('close', () => closed++))
    const before = await closedAtLimit()
    for (let i = 1; i <= 5; i++) {
      const raw = await open()
      raw.socket.write(GET)
      await answered(raw)
      raw.socket.destroy()
      await eventually(() => closed === i)
    }
    // None has taken the place of another one.
    expect(await closedAtLimit()).toEqual(before)
  })
})

describe('a body', () => {
  /** Answers with the body, or with what keeps it from being read. Refuses a part that begins with `!`. */
  const echo: RequestListener = (request, response) => {
    if (request.headers['x-refused'] !== undefined) {
      response.writeHead(413, { connection: 'close' }).end()
      return
    }
    const body = readBody(request, {
      maxBytes: 10,
      failure: (code) => code,
      take: (before, received) => (received - before === 1 ? `refused ${before}` : null),
    })
    const text = Effect.match(body, {
      onSuccess: (bytes) => Buffer.from(bytes).toString(),
      onFailure: (failure) => failure,
    })
    void Effect.runPromise(text).then((answer) => response.end(answer))
  }
  const begin = async (...headers: ReadonlyArray<string>) => {
    const { open } = await started({ app: echo })
    const raw = await open()
    raw.socket.write(`POST / HTTP/1.1\r\nHost: hub\r\n${headers.join('\r\n')}\r\n\r\n`)
    return raw
  }
  const bodyOf = (answer: string): string | undefined => answer.split('\r\n\r\n').at(-1)

  it.each([
    ['whole', 'Content-Length: 10', ['01234', '56789'], '0123456789'],
    ['in chunks', 'Transfer-Encoding: chunked', ['3\r\nabc\r\n', '2\r\nde\r\n0\r\n\r\n'], 'abcde'],
    ['as nothing', 'Transfer-Encoding: chunked', ['0\r\n\r\n'], ''],
    ['as too large', 'Transfer-Encoding: chunked', ['b\r\n0123456789a\r\n'], 'payload_too_large'],
    ['as refused', 'Transfer-Encoding: chunked', ['2\r\nab\r\n1\r\nc\r\n'], 'refused 2'],
  ] as const)('is read %s', async (_name, header, parts, expected) => {
    const raw = await begin(header)
    for (const part of parts) raw.socket.write(part)
    await answered(raw)
    expect(bodyOf(raw.received())).toBe(expected)
  })

  // Source: RFC 9110, 10.1.1: a server that reads the body sends 100 (Continue) first.
  it('that its client holds back is asked for', async () => {
    const raw = await begin('Content-Length: 4', 'Expect: 100-continue')
    await eventually(() => raw.received() === 'HTTP/1.1 100 Continue\r\n\r\n')
    raw.socket.write('held')
    await eventually(() => bodyOf(raw.received()) === 'held')
    expect(raw.received()).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /u)
  })

  // Source: RFC 9110, 10.1.1: with a final status in place of 100 (Continue), the client sends no body.
  it('that its client holds back is not asked for if the answer does not need it', async () => {
    const raw = await begin('Content-Length: 4', 'Expect: 100-continue', 'X-Refused: yes')
    await eventually(raw.ended)
    expect(raw.received()).toMatch(/^HTTP\/1\.1 413 /u)
  })
})

describe('an unused connection', () => {
  it('closes without an answer when it was idle for too long', async () => {
    const { open, server } = await started()
    server.timeout = 300
    const unused = await open()
    await eventually(unused.ended)
    expect([unused.received(), unused.errors]).toEqual(['', []])
  })
})

/** Sends a request on each connection when it is told so, and reports the answers. */
const PROXY = `
  const { parentPort, workerData } = require('node:worker_threads')
  const { connect } = require('node:net')
  const flag = new Int32Array(workerData.flag)
  const sockets = []
  const outcomes = []
  const done = (outcome) => {
    outcomes.push(outcome)
    if (outcomes.length === workerData.connections) parentPort.postMessage(outcomes)
  }
  const request = 'GET / HTTP/1.1\\r\\nHost: hub\\r\\n\\r\\n'
  let kept = 0
  for (let i = 0; i < workerData.connections; i++) {
    const socket = connect(workerData.port, '127.0.0.1')
    let text = ''
    socket.on('data', (chunk) => {
      text += chunk
      if (text.split('HTTP/1.1 200').length === 3) { done('answered'); socket.removeAllListeners('close') }
      else if (++kept === workerData.connections) parentPort.postMessage('kept')
    })
    socket.on('error', (error) => {})
    socket.once('close', () => done('failed'))
    socket.write(request)
    sockets.push(socket)
  }
  parentPort.once('message', () => {
    let written = 0
    for (const socket of sockets) socket.write(request, () => {
      if (++written < workerData.connections) return
      Atomics.store(flag, 0, 1)
      Atomics.notify(flag, 0)
    })
  })
`

/** Opens connections and sends a request on each. Reports the answers. */
const NEW_CONNECTIONS = `
  const { parentPort, workerData } = require('node:worker_threads')
  const { connect } = require('node:net')
  const flag = new Int32Array(workerData.flag)
  const outcomes = []
  const done = (outcome) => {
    if (outcomes.push(outcome) === workerData.connections) parentPort.postMessage(outcomes)
  }
  let written = 0
  for (let i = 0; i < workerData.connections; i++) {
    const socket = connect(workerData.port, '127.0.0.1')
    let outcome = 'failed'
    socket.on('data', (chunk) => { if (String(chunk).startsWith('HTTP/1.1 200')) outcome = 'answered'; socket.end() })
    socket.on('error', () => {})
    socket.once('close', () => done(outcome))
    socket.write('GET / HTTP/1.1\\r\\nHost: hub\\r\\n\\r\\n', () => {
      if (++written < workerData.connections) return
      Atomics.store(flag, 0, 1)
      Atomics.notify(flag, 0)
    })
  }
`

describe('the end of the process', () => {
  it('answers requests that have arrived on idle connections, but are not read yet', async () => {
    const { port, server } = await started()
    const flag = new SharedArrayBuffer(4)
    const worker = new Worker(PROXY, { eval: true, workerData: { port, connections: 64, flag } })
    closers.unshift(() => worker.terminate())
    await once(worker, 'message')
    const outcomes = once(worker, 'message')
    worker.postMessage('send')
    // The event loop is busy until the kernel has all requests.
    Atomics.wait(new Int32Array(flag), 0, 0)
    server.close()
    expect(new Set((await outcomes)[0])).toEqual(new Set(['answered']))
  })

  it('answers requests on connections that the process has not accepted yet', async () => {
    const { port, server } = await started()
    const flag = new SharedArrayBuffer(4)
    const worker = new Worker(NEW_CONNECTIONS, { eval: true, workerData: { port, connections: 64, flag } })
    closers.unshift(() => worker.terminate())
    const outcomes = once(worker, 'message')
    // The event loop is busy until the kernel has all connections with their requests.
    Atomics.wait(new Int32Array(flag), 0, 0)
    server.close()
    expect(new Set((await outcomes)[0])).toEqual(new Set(['answered']))
  })

  // A proxy takes the connection that it used last, so others are idle for long, until it has more to
  // send at once. RFC 9112, 9.6: a client can send a request while the server closes the connection.
  it('keeps idle connections while the client uses others, and closes them when it uses none', async () => {
    const { open, server } = await started({ shutdownDelayMs: 1000 })
    const all = await Promise.all(Array.from({ length: 40 }, () => open()))
    for (const raw of all) raw.socket.write(GET)
    for (const raw of all) await answered(raw)
    server.close()
    const [left, ...used] = all
    for (const raw of used) {
      // In total, the last one is idle for four times as long as a connection at the end of a pause.
      await delay(100)
      raw.socket.write(GET)
      expect(await raw.answersOrEnd(2)).toBe(true)
      raw.socket.end()
    }
    await eventually(left!.ended)
    left!.socket.end()
  })

  it('answers the first request of a connection that was opened before', async () => {
    const { open, server } = await started()
    const raw = await open()
    server.close()
    // Two turns of the event loop: in the second one, idle connections that were used close.
    for (let i = 0; i < 4; i++) await new Promise<void>((resolve) => setImmediate(resolve))
    raw.socket.write(GET)
    await answered(raw)
    raw.socket.end()
  })

  it('answers requests that a client has sent in advance, and announces the end in the last answer', async () => {
    const { open, stop } = await started({
      app: (_request, response) => setImmediate(() => response.end('page')),
      shutdownDelayMs: 200,
    })
    const raw = await open()
    raw.socket.write(GET)
    await answered(raw)
    const stopped = stop()
    // Source: RFC 9112, 9.3.2 (pipelining).
    raw.socket.write(GET + GET)
    await eventually(raw.ended)
    expect(raw.received().match(/HTTP\/1\.1 200 /gu)).toHaveLength(3)
    expect(raw.received().match(/connection: close/giu)).toHaveLength(1)
    raw.socket.end()
    await stopped
  })
})
