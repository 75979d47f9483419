/**
 * Clients that send their bodies slowly, beside one that does not: the hub has no work with a body before
 * it has arrived, so nobody is refused because of it. Over sockets.
 * Source: AVL-11: only work that cannot be done in time is refused.
 */
import { connect, type Socket } from 'node:net'
import { eventually } from '@hub/testkit'
import { afterAll, afterEach, assert, beforeAll, describe, it } from 'vitest'
import {
  type Account,
  type Api,
  callUnlessLate,
  type Deployment,
  makeDeployment,
  type TestResponse,
} from '../testing/harness.ts'

let deployment: Deployment
let api: Api
let slow: Account
let other: Account
beforeAll(async () => {
  deployment = await makeDeployment()
  // On a busy machine Redis answers late, and without its answer a service message is refused.
  api = await deployment.start({ redisDeadlineMs: 10_000 })
  slow = await deployment.addAccount()
  other = await deployment.addAccount()
})
afterAll(async () => {
  await api.stop()
  await deployment.remove()
})

const sockets: Array<Socket> = []
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy()
})

let messages = 0
const message = (messageClass: 'otp' | 'service' = 'service') => ({
  to: `+7900${String(1_000_000 + ++messages)}`,
  class: messageClass,
  client_ref: `slow-body-${messages}`,
  ...(messageClass === 'otp'
    ? { template: 'otp_code', variables: { code: '1234' } }
    : { template: 'order_ready', variables: { order: '17' } }),
})
const batchOf = (size: number) => ({ messages: Array.from({ length: size }, () => message()) })

/**
 * Opens a connection that sends the head of a batch and the beginning of its body. The request before it,
 * in the same packet, shows when the hub has read it. Returns a function that waits for the next answer.
 */
const beginBatch = async (key: string, length: number, beginning: string) => {
  const headers = `Host: hub.test\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n`
  const socket = connect(api.port, '127.0.0.1')
  sockets.push(socket)
  let received = ''
  socket.on('error', () => {}).on('data', (data) => (received += data.toString('latin1')))
  socket.write(
    `GET /v1/account HTTP/1.1\r\n${headers}\r\n` +
      `POST /v1/messages/batch HTTP/1.1\r\n${headers}Content-Length: ${length}\r\n\r\n${beginning}`,
  )
  const statuses = () => [...received.matchAll(/HTTP\/1\.1 (\d+) /gu)].map(([, status]) => status)
  await eventually(() => statuses().length > 0)
  // 503: PostgreSQL was late, as on a busy machine. The process has read the second head nevertheless.
  assert.oneOf(statuses()[0], ['200', '503'])
  return {
    finish: async (rest: string) => {
      socket.write(rest)
      return eventually(() => statuses()[1])
    },
  }
}

const assertAccepted = ({ body, status }: TestResponse): void => {
  assert.strictEqual(status, 202, JSON.stringify(body))
  const { counts } = body as { readonly counts?: { readonly rejected: number } }
  assert.strictEqual(counts?.rejected ?? 0, 0)
}

/**
 * Requests at a time. A key that the process does not know is a login attempt. On a busy machine, 600 of
 * them arrive before the first one has ended, and the failed-login gate lets only 521 of an address wait.
 */
const AT_A_TIME = 50

/** Of the most messages that a batch may have, and of the largest size that the hub reads. */
const LENGTHS = [150_000, 4 * 1024 * 1024]

describe.each([110, 600])('%i slow bodies', (count) => {
  // Rules: AVL-11
  it.each(LENGTHS)(
    'of %i bytes refuse no other client, and one more is accepted at its end',
    async (length) => {
      const begin = async (key: string) => {
        const text = JSON.stringify(batchOf(1)).padEnd(length, ' ')
        const { finish } = await beginBatch(key, length, text.slice(0, 500))
        return () => finish(text.slice(500))
      }
      for (let opened = 0; opened < count; opened += AT_A_TIME) {
        const group = Array.from({ length: Math.min(AT_A_TIME, count - opened) }, (_, i) =>
          begin(i % 2 === 0 ? slow.keys.live : slow.keys.test),
        )
        await Promise.all(group)
      }
      for (const key of [other.keys.live, other.keys.test]) {
        const send = (path: string, body: object) => callUnlessLate(api.url, path, { key, body })
        assertAccepted(await send('/v1/messages', message('otp')))
        assertAccepted(await send('/v1/messages', message('service')))
        // Below and above the size from which bodies count against the budgets of memory.
        assertAccepted(await send('/v1/messages/batch', batchOf(20)))
        assertAccepted(await send('/v1/messages/batch', batchOf(200)))
      }
      await eventually(async () => {
        const finish = await begin(slow.keys.live)
        assert.strictEqual(await finish(), '202')
        return true
      })
    },
  )
})
