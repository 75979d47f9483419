/**
 * What every process with this listener promises to clients and proxies. The expectations are those of
 * RFC 9110 and RFC 9112; each test names the section. It speaks through raw sockets.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { eventually } from '@hub/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

/** A running process. */
interface Started {
  readonly port: number
  /** As at SIGTERM. */
  readonly stop: () => Promise<void>
}

export interface ListenerSubject {
  /** `shutdownDelayMs`: how long the process answers after the announcement of its end. */
  readonly start: (shutdownDelayMs: number) => Promise<Started>
  /** The path of a page without authentication. */
  readonly openPath: string
}

/** The number of complete answers. */
const answersIn = (text: string): number => {
  let count = 0
  let rest = text
  for (;;) {
    const end = rest.indexOf('\r\n\r\n')
    if (end < 0) return count
    const length = Number(/^content-length: *(\d+)/imu.exec(rest.slice(0, end))?.[1] ?? 0)
    if (rest.length < end + 4 + length) return count
    rest = rest.slice(end + 4 + length)
    count++
  }
}

/** A connection that collects what it receives. It keeps its side open when the server closes the other. */
export const openRaw = async (port: number, localAddress = '127.0.0.1') => {
  const socket = connect({ port, host: '127.0.0.1', localAddress, allowHalfOpen: true })
  let text = ''
  let ended = false
  const errors: Array<string> = []
  let wake = (): void => {}
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1')
    wake()
  })
  socket.on('end', () => {
    ended = true
    wake()
  })
  socket.on('close', () => wake())
  socket.on('error', (error: NodeJS.ErrnoException) => errors.push(error.code ?? error.message))
  await once(socket, 'connect')
  return {
    socket,
    received: () => text,
    /** Whether the server has closed its side. */
    ended: () => ended,
    errors,
    /** Waits until there are so many answers, or the connection has ended. */
    answersOrEnd: async (count: number): Promise<boolean> => {
      while (answersIn(text) < count && !ended && !socket.destroyed) {
        await new Promise<void>((resolve) => (wake = resolve))
      }
      return answersIn(text) >= count
    },
  }
}
type Raw = Awaited<ReturnType<typeof openRaw>>

export const answered = (raw: Raw, count = 1) => eventually(() => answersIn(raw.received()) >= count)
const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: hub\r\n\r\n`

const SILENT = 600
const KEPT = 64

/** Writes until the server has released the connection. A server that only ends its side never does. */
const released = (socket: Socket): Promise<true> =>
  eventually(() => {
    if (!socket.destroyed) socket.write('x')
    return socket.destroyed
  }).then(() => true)

export const listenerContract = ({ openPath, start }: ListenerSubject): void => {
  let process: Started
  const sockets: Array<Socket> = []
  const open = async (localAddress?: string): Promise<Raw> => {
    const raw = await openRaw(process.port, localAddress)
    sockets.push(raw.socket)
    return raw
  }
  /** Sends text on a new connection, and returns the first answer. */
  const exchange = async (text: string, localAddress?: string): Promise<string> => {
    const raw = await open(localAddress)
    raw.socket.write(text)
    await answered(raw)
    return raw.received()
  }
  beforeAll(async () => {
    process = await start(0)
  })
  afterAll(async () => {
    for (const socket of sockets) socket.destroy()
    await process?.stop()
  })

  describe('a request', () => {
    // Source: RFC 9112, 6.1 and 6.3 (request smuggling).
    it.each([
      'Content-Length: 5\r\nTransfer-Encoding: chunked',
      'Transfer-Encoding: chunked\r\nContent-Length: 5',
      'Transfer-Encoding: gzip\r\nContent-Length: 5',
      'Content-Length: 5\r\nTransfer-Encoding: identity',
      'Content-Length: 0\r\nTransfer-Encoding: chunked',
      'Content-Length: 5\r\nContent-Length: 6',
      'Content-Length: +5',
    ])('whose length is ambiguous gets 400, and its connection closes: %j', async (headers) => {
      const raw = await open()
      raw.socket.write(
        `POST ${openPath} HTTP/1.1\r\nHost: hub\r\n${headers}\r\n\r\n0\r\n\r\n${get(openPath)}`,
      )
      await eventually(raw.ended)
      expect(raw.received()).toMatch(/^HTTP\/1\.1 400 /u)
      expect(answersIn(raw.received())).toBe(1)
    })

    // Source: RFC 9112, 6.1, the last paragraph.
    it('of HTTP/1.0 with a Transfer-Encoding gets 400, and its connection closes', async () => {
      const raw = await open()
      raw.socket.write(
        `POST ${openPath} HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      )
      await eventually(raw.ended)
      expect(raw.received()).toMatch(/^HTTP\/1\.1 400 /u)
    })

    // Source: RFC 9112, 3.2.
    it.each(['Host: a\r\nHost: b\r\n', 'Host: a\r\nHost: a\r\n', ''])(
      'with two Host headers, or none, gets 400: %j',
      async (hosts) => {
        const answer = await exchange(`GET ${openPath} HTTP/1.1\r\n${hosts}\r\n`)
        expect(answer).toMatch(/^HTTP\/1\.1 400 /u)
      },
    )

    it.each([
      ['to be a proxy', 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n', 400],
      ['with a bad header', 'GET / HTTP/1.1\r\nbad header\r\n\r\n', 400],
      ['with long headers', `GET /${'a'.repeat(20_000)} HTTP/1.1\r\nHost: hub\r\n\r\n`, 431],
    ])(
      '%s is refused, and its connection is free, also if its client never closes it',
      async (_name, text, status) => {
        const raw = await open()
        raw.socket.write(text)
        await answered(raw)
        expect(raw.received()).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `, 'u'))
        expect(await released(raw.socket)).toBe(true)
      },
    )
  })

  describe('an answer before the body has arrived', () => {
    const LARGE = 6 * 1024 * 1024
    const post = (length: number, more = '') =>
      `POST ${openPath} HTTP/1.1\r\nHost: hub\r\n${more}Content-Length: ${length}\r\n\r\n`

    it.each(['', 'Connection: close\r\n'])(
      'reaches a client that sends its whole body first: %j',
      async (more) => {
        const raw = await open()
        // Reads nothing until everything is written.
        raw.socket.pause()
        raw.socket.write(post(LARGE, more))
        await new Promise<void>((resolve) => raw.socket.write('x'.repeat(LARGE), () => resolve()))
        raw.socket.resume()
        await answered(raw)
        expect(raw.errors).toEqual([])
      },
    )

    // Source: RFC 9112, 9.3: a server that keeps the connection reads the whole body first.
    it.each([5, 20_000])('leaves the connection usable, when %i bytes follow', async (length) => {
      const raw = await open()
      raw.socket.write(post(length))
      await answered(raw)
      raw.socket.write('x'.repeat(length) + get(openPath))
      await answered(raw, 2)
      expect(raw.received().slice(1)).toMatch(/HTTP\/1\.1 200 /u)
    })

    it('is bounded: a client that sends without an end is disconnected', async () => {
      const socket = connect(process.port, '127.0.0.1')
      sockets.push(socket)
      const closed = new Promise((resolve) => socket.once('close', resolve))
      socket.on('error', () => {}).resume()
      socket.write(post(10 ** 12))
      const megabyte = Buffer.alloc(1024 * 1024)
      let sent = 0
      const more = (): void => {
        while (sent < 200 && !socket.destroyed) {
          sent++
          if (!socket.write(megabyte)) return void socket.once('drain', more)
        }
      }
      more()
      await closed
      expect(sent).toBeLessThan(200)
    })
  })

  describe('a connection that a proxy opens in advance', () => {
    // Source: RFC 9110, 15.5.9: 408 is for a request that was not complete in time. A proxy takes an
    // answer on an unused connection for that of its next request.
    it('gets no 408, and serves its first request later; headers that stop get 408', async () => {
      const unused = await open()
      const slow = await open()
      slow.socket.write('GET / HTTP/1.1\r\nHost: h')
      await answered(slow)
      expect(slow.received()).toMatch(/^HTTP\/1\.1 408 /u)
      await eventually(slow.ended)
      // It is older than the slow one, so the time of its headers is over, too.
      expect([unused.received(), unused.ended()]).toEqual(['', false])
      unused.socket.write(get(openPath))
      await answered(unused)
      expect(unused.received()).toMatch(/^HTTP\/1\.1 200 /u)
      // The time of the next headers begins with their first byte.
      unused.socket.write('GET / HTTP/1.1\r\nHost: h')
      await answered(unused, 2)
      expect(unused.received().slice(1)).toMatch(/HTTP\/1\.1 408 /u)
    }, 60_000)
  })

  describe(`beside ${SILENT} silent connections of one address`, () => {
    it('another address is served, and the same address too, as behind a proxy', async () => {
      for (let i = 0; i < SILENT; i++) await open()
      for (const address of ['127.0.0.2', '127.0.0.1']) {
        for (let i = 0; i < 10; i++) {
          expect(await exchange(get(openPath), address)).toMatch(/^HTTP\/1\.1 200 /u)
        }
      }
    })
  })

  describe(`the end of the process with ${KEPT} kept connections`, () => {
    it('fails no request of a proxy that sends without a pause', async () => {
      const [ending, other] = [await start(3000), await start(0)]
      const failures: Array<string> = []
      let leaving = 0
      let isOver = false
      let count = 0

      /** One connection of a proxy. It leaves a server that says `Connection: close`. */
      const client = async (): Promise<void> => {
        let port = ending.port
        while (!isOver) {
          const raw = await openRaw(port)
          for (let sent = 1; ; sent++) {
            raw.socket.write(get(openPath))
            if (!(await raw.answersOrEnd(sent))) {
              failures.push(`no answer to request ${sent}: ${raw.errors.join()}`)
              break
            }
            count++
            const isLast = /\r\nconnection: close\r\n/iu.test(raw.received())
            if (isLast && port === ending.port) leaving++
            if (isLast || isOver) break
          }
          port = other.port
          raw.socket.destroy()
        }
      }
      const clients = Array.from({ length: KEPT }, client)
      await eventually(() => count > 5 * KEPT)
      await ending.stop()
      const before = count
      await eventually(() => count > before + KEPT)
      isOver = true
      await Promise.all(clients)
      await other.stop()
      expect(failures).toEqual([])
      // Each of them has heard of the end in an answer.
      expect(leaving).toBe(KEPT)
    }, 180_000)
  })
}
