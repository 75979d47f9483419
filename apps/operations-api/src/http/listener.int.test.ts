/** The listener of operations-api beside clients and proxies that are slow, silent, or in the way. */
import { answered, listenerContract, openRaw } from '@hub/http-server/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startOperationsApi, type TestOperationsApi } from '../testing/harness.ts'

const portOf = ({ url }: TestOperationsApi): number => Number(new URL(url).port)

listenerContract({
  start: async (shutdownDelayMs) => {
    const api = await startOperationsApi({ shutdownDelayMs })
    return { port: portOf(api), stop: api.stop }
  },
  openPath: '/docs/errors',
})

let api: TestOperationsApi
beforeAll(async () => {
  api = await startOperationsApi()
})
afterAll(() => api?.stop())

describe('a person', () => {
  it('who sends 110 bodies slowly keeps nobody out, nor themselves', async () => {
    const viewer = await api.signIn('Vera', 'viewer')
    const other = await api.signIn('Olga', 'viewer')
    const open = []
    for (let i = 0; i < 110; i++) {
      const raw = await openRaw(portOf(api))
      open.push(raw.socket)
      raw.socket.write(
        `POST /v1/recipients/hash HTTP/1.1\r\nHost: hub\r\nCookie: ${viewer.cookie}\r\nX-CSRF-Token: ${viewer.csrf}\r\n` +
          `Content-Type: application/json\r\nContent-Length: 30\r\n\r\n{"`,
      )
    }
    for (const as of [other, viewer]) {
      for (let i = 0; i < 10; i++) expect((await api.call('/v1/me', { as })).status).toBe(200)
    }
    for (const socket of open) socket.destroy()
  })

  it('with more open streams than tabs gets 503 for the next one, and others get theirs', async () => {
    const viewer = await api.signIn('Vera', 'viewer')
    const other = await api.signIn('Olga', 'viewer')
    const stream = async (cookie: string) => {
      const raw = await openRaw(portOf(api))
      raw.socket.write(`GET /v1/overview/stream HTTP/1.1\r\nHost: hub\r\nCookie: ${cookie}\r\n\r\n`)
      await answered(raw)
      return raw
    }
    const streams = []
    const statuses: Array<string> = []
    for (let i = 0; i < 12; i++) {
      const raw = await stream(viewer.cookie)
      streams.push(raw.socket)
      statuses.push(raw.received().slice(9, 12))
    }
    const last = await stream(other.cookie)
    for (const socket of [...streams, last.socket]) socket.destroy()
    expect(statuses).toEqual([...Array.from({ length: 10 }, () => '200'), '503', '503'])
    expect(last.received()).toMatch(/^HTTP\/1\.1 200 /u)
  })
})
