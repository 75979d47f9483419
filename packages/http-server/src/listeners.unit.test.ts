/** New connections to a process whose event loop is busy. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createNetServer, type Server } from 'node:net'
import { Worker } from 'node:worker_threads'
import { assert, describe, it } from 'vitest'
import { listenWithMany } from './listeners.ts'

const HOST = '127.0.0.1'
/** Connections that arrive while the event loop is busy. */
const CONNECTIONS = 64

/** Opens connections in a thread of its own, and sets the flag when all are open. */
const CLIENT = `
  const { parentPort, workerData } = require('node:worker_threads')
  const { connect } = require('node:net')
  const flag = new Int32Array(workerData.flag)
  let open = 0
  for (let i = 0; i < workerData.connections; i++) {
    connect(workerData.port, '${HOST}', () => {
      if (++open < workerData.connections) return
      Atomics.store(flag, 0, 1)
      Atomics.notify(flag, 0)
    }).on('error', () => {})
  }
  parentPort.once('message', () => process.exit())
`

const portOf = (server: Server): number => (server.address() as AddressInfo).port
const listen = async (server: Server, port = 0): Promise<void> => {
  const options = await listenWithMany(server, { port, host: HOST, backlog: 1024 })
  const listening = once(server, 'listening')
  server.listen(options)
  await listening
}

describe.runIf(process.platform === 'linux')('a server with many listening sockets', () => {
  it('takes many connections in one turn of the event loop', async () => {
    const server = createServer()
    await listen(server)
    let taken = 0
    server.on('connection', () => taken++)
    const flag = new SharedArrayBuffer(4)
    const worker = new Worker(CLIENT, {
      eval: true,
      workerData: { port: portOf(server), connections: CONNECTIONS, flag },
    })
    await once(worker, 'online')
    // The event loop is busy until the kernel has all connections.
    Atomics.wait(new Int32Array(flag), 0, 0)
    await new Promise<void>((resolve) => setImmediate(resolve))
    await new Promise<void>((resolve) => setImmediate(resolve))
    // With one listening socket, it would be one in each of the two turns.
    assert.isAtLeast(taken, 8)
    worker.postMessage('end')
    await once(worker, 'exit')
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })

  it('answers on all of them, and closes when all requests are answered', async () => {
    const answers: Array<() => void> = []
    const server = createServer((_request, response) => {
      response.setHeader('connection', 'close')
      answers.push(() => response.end('answer'))
    })
    await listen(server)
    const url = `http://${HOST}:${portOf(server)}/`
    const asked = Array.from({ length: 40 }, async () => (await fetch(url)).text())
    while (answers.length < asked.length) await new Promise((resolve) => setImmediate(resolve))
    let isClosed = false
    const closing = new Promise<void>((resolve) => {
      server.close(() => {
        isClosed = true
        resolve()
      })
    })
    await new Promise((resolve) => setImmediate(resolve))
    assert.isFalse(isClosed)
    for (const answer of answers) answer()
    assert.deepStrictEqual(new Set(await Promise.all(asked)), new Set(['answer']))
    await closing
    const refused = await fetch(url).then(
      () => false,
      () => true,
    )
    assert.isTrue(refused)
  })

  it('does not share its port with another process', async () => {
    const first = createServer()
    await listen(first)
    const second = createServer()
    const failed = listen(second, portOf(first)).then(
      () => null,
      (error: NodeJS.ErrnoException) => error.code,
    )
    assert.strictEqual(await failed, 'EADDRINUSE')
    const other = createNetServer()
    const code = new Promise((resolve) =>
      other.once('error', (error: NodeJS.ErrnoException) => resolve(error.code)),
    )
    other.listen({ port: portOf(first), host: HOST })
    assert.strictEqual(await code, 'EADDRINUSE')
    await new Promise((resolve) => first.close(resolve))
  })
})
