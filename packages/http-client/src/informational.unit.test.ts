/**
 * Octets that arrive, and octets that undici reads. The responses are the examples of RFC 9112, 1 and
 * RFC 8297, 2, in the form of RFC 9112, 4; other codes have the same form.
 */
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { skippingInformational } from './index.ts'

const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n'
const HINTS =
  'HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload; as=style\r\nLink: </script.js>; rel=preload; as=script\r\n\r\n'
const BODY = 'Hello World! My content includes a trailing CRLF.\r\n'
const FINAL = `HTTP/1.1 200 OK\r\nDate: Mon, 27 Jul 2009 12:28:53 GMT\r\nContent-Length: 51\r\nContent-Type: text/plain\r\n\r\n${BODY}`

/** A connection whose octets the test sends, and that collects what its reader gets. */
const connected = () => {
  const stream = new Duplex({ read: () => {}, write: (_chunk, _encoding, done) => done() })
  let error: Error | null = null
  stream.on('error', (thrown) => (error = thrown))
  skippingInformational((_target, done) => done(null, stream as Socket))(
    { hostname: 'a', host: 'a', protocol: 'https:', port: '443' },
    () => {},
  )
  return {
    error: () => error,
    request: () => stream.write('POST / HTTP/1.1\r\nHost: a\r\n\r\n'),
    receive: (octets: string): string => {
      stream.push(Buffer.from(octets, 'latin1'))
      let text = ''
      for (;;) {
        const chunk = stream.read() as Buffer | null
        if (chunk === null) return text
        expect(chunk.length).toBeGreaterThan(0)
        text += chunk.toString('latin1')
      }
    },
  }
}

describe('of the octets of a response, the reader gets', () => {
  it.each([
    ['a final response', '', FINAL],
    ['a final response after 100', CONTINUE, FINAL],
    ['a final response after several', CONTINUE + HINTS + HINTS + CONTINUE, FINAL],
    [
      'a final response after 100 without a reason',
      'HTTP/1.1 100 \r\n\r\nHTTP/1.1 102\r\nA: b\r\n\r\n',
      FINAL,
    ],
    ['101', CONTINUE, 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\n\r\nab'],
    ['what is no HTTP', '', 'SSH-2.0-OpenSSH\r\n'],
    ['what is like a 1xx', '', 'HTTP/1.1 1000 Continue\r\n\r\n'],
  ])('%s, however they arrive', (_name, removed, kept) => {
    const all = removed + kept
    for (let at = 1; at <= all.length; at++) {
      const { receive, request } = connected()
      request()
      const text = receive(all.slice(0, at)) + (at < all.length ? receive(all.slice(at)) : '')
      expect(text, `split at ${at}`).toBe(kept)
    }
    const { receive, request } = connected()
    request()
    expect(all.split('').map(receive).join('')).toBe(kept)
  })

  it('a body with the form of an informational response', () => {
    const { receive, request } = connected()
    request()
    const head = 'HTTP/1.1 200 OK\r\nContent-Length: 25\r\n\r\n'
    expect(receive(CONTINUE + head) + receive(CONTINUE)).toBe(head + CONTINUE)
  })

  it('each response of a connection, and whatever comes without a request', () => {
    const { receive, request } = connected()
    expect(receive(CONTINUE)).toBe(CONTINUE)
    for (let i = 0; i < 3; i++) {
      request()
      expect(receive(HINTS + FINAL)).toBe(FINAL)
      expect(receive(HINTS)).toBe(HINTS)
    }
  })

  it('sixteen skipped responses for each request; the connection breaks at one more', () => {
    const { error, receive, request } = connected()
    for (let i = 0; i < 3; i++) {
      request()
      expect(receive(CONTINUE.repeat(16) + FINAL)).toBe(FINAL)
    }
    expect(error()).toBeNull()
    request()
    expect(receive(CONTINUE.repeat(17) + FINAL)).toBe('')
  })
})
