/**
 * The lock on an idempotency key when the client's connection breaks at any moment: it ends with
 * the processing of its request. Source: IDEM-13, IDEM-16.
 */
import { once } from 'node:events'
import net from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { eventually } from '@hub/testkit'
import { assert, describe, it } from 'vitest'
import { type Account, type Api, call, type Deployment, startBeforeTests } from '../testing/harness.ts'

let deployment: Deployment
let api: Api
let account: Account
startBeforeTests((started) => {
  ;({ account, api, deployment } = started)
})

/** Enough that some resets meet each step of a request, whatever the speed of the machine. */
const ATTEMPTS = 120
/** Resets happen 1 to 6 ms after the connection is open, in steps of a quarter. */
const resetAfterMs = (attempt: number): number => 1 + (attempt % 20) / 4
/** Much less than the 60 s after which an abandoned lock expires. */
const FREE_WITHIN_MS = 15_000

const bodyOf = (attempt: number) =>
  JSON.stringify({
    to: `+7900600${String(attempt).padStart(4, '0')}`,
    class: 'service',
    template: 'order_ready',
    variables: { order: String(attempt) },
  })

/** Sends a request, and resets its connection (RST) after `ms`. */
const resetRequest = async (key: string, body: string, ms: number): Promise<void> => {
  const { hostname, port } = new URL(api.url)
  const socket = net.connect({ host: hostname, port: Number(port), noDelay: true })
  socket.on('error', () => {})
  await once(socket, 'connect')
  socket.write(
    `POST /v1/messages HTTP/1.1\r\nHost: hub.test\r\nAuthorization: Bearer ${account.keys.test}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n` +
      `Idempotency-Key: ${key}\r\n\r\n${body}`,
  )
  await delay(ms)
  socket.resetAndDestroy()
}

describe('a connection that is reset while its request runs', () => {
  // Rules: IDEM-13, IDEM-16
  it('leaves its idempotency key free, and its repeat reports the one message', async () => {
    const keys = Array.from({ length: ATTEMPTS }, (_, i) => `reset-${i}`)
    for (const [i, key] of keys.entries()) await resetRequest(key, bodyOf(i), resetAfterMs(i))
    for (const [i, key] of keys.entries()) {
      const answer = await eventually(
        async () => {
          const repeat = await call(api.url, '/v1/messages', {
            key: account.keys.test,
            body: bodyOf(i),
            headers: { 'idempotency-key': key },
          })
          // While the server still processes the first request.
          if (repeat.status === 409) return null
          return repeat
        },
        { withinMs: FREE_WITHIN_MS },
      )
      assert.strictEqual(answer.status, 202, key)
    }
    const rows = await deployment.sql<{ messages: number; recipients: number }[]>(
      (q) => q`SELECT count(*)::integer AS messages, count(DISTINCT recipient)::integer AS recipients
                 FROM command.acceptances WHERE account = ${account.uuid}`,
    )
    assert.deepStrictEqual(rows[0], { messages: ATTEMPTS, recipients: ATTEMPTS })
    const locked = await deployment.sql<{ key: string }[]>(
      (q) => q`SELECT key FROM command.idempotency_keys
                WHERE account = ${account.uuid} AND status IS NULL AND lease_until > now()`,
    )
    assert.deepStrictEqual(locked, [])
  })
})
