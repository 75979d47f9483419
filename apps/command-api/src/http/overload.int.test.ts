/**
 * What clients get from an overloaded process, and what a refusal leaves behind: nothing. Most tests
 * set the work in progress themselves, so they do not depend on the speed of the machine.
 * Source: AVL-7 to AVL-12.
 */
import { connect } from 'node:net'
import { eventually } from '@hub/testkit'
import { Result } from 'effect'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import type { Work } from '../accept/admission/admission.ts'
import {
  type Account,
  type Api,
  call,
  type Deployment,
  facts,
  isLate,
  makeDeployment,
  type TestResponse,
} from '../testing/harness.ts'

/** The rate of a process that measures nothing. It admits 750 ms of single sends: 75 of them. */
const RATE = 100
const UNMEASURED = { initialRate: RATE, sampleEvery: null }
/** On a busy machine Redis answers late, and without its answer a service message is refused. */
const REDIS_DEADLINE = { redisDeadlineMs: 10_000 }

let deployment: Deployment
let api: Api
let heavy: Account
let light: Account
beforeAll(async () => {
  deployment = await makeDeployment()
  api = await deployment.start({ ...REDIS_DEADLINE, admission: UNMEASURED })
  heavy = await deployment.addAccount()
  light = await deployment.addAccount()
})
afterAll(async () => {
  await api.stop()
  await deployment.remove()
})

let numbers = 0
const message = (messageClass: 'otp' | 'service', clientRef: string) => ({
  to: `+7900800${String(++numbers).padStart(4, '0')}`,
  class: messageClass,
  client_ref: clientRef,
  ...(messageClass === 'otp'
    ? { template: 'otp_code', variables: { code: '1234' } }
    : { template: 'order_ready', variables: { order: '17' } }),
})
const send = (
  account: Account,
  body: object,
  options: { readonly path?: string; readonly headers?: Readonly<Record<string, string>> } = {},
) => call(api.url, options.path ?? '/v1/messages', { key: account.keys.test, body, ...options })
const sendBatch = (account: Account, messages: ReadonlyArray<object>) =>
  send(account, { messages }, { path: '/v1/messages/batch' })

const codeOf = ({ body }: TestResponse): string | undefined =>
  (body as { readonly error?: { readonly code: string } }).error?.code
const assertRefused = (answer: TestResponse): void => {
  assert.deepStrictEqual([answer.status, codeOf(answer)], [503, 'overloaded'])
  const { error } = answer.body as {
    readonly error: { readonly retry_after: number; readonly request_id: string }
  }
  assert.isTrue(Number.isInteger(error.retry_after) && error.retry_after >= 1 && error.retry_after <= 10)
  assert.strictEqual(answer.headers.get('retry-after'), String(error.retry_after))
  assert.strictEqual(answer.headers.get('request-id'), error.request_id)
}

/** Runs `body` while the process has this work in progress. */
const during = async (work: Work, body: () => Promise<void>): Promise<void> => {
  // The process is idle, so it admits any work.
  const ticket = Result.getOrThrow(api.admission.admit(work))
  try {
    await body()
  } finally {
    ticket.end()
  }
}

/** The head of a send with a body of 100 bytes. */
const headOf = (account: Account): ReadonlyArray<string> => [
  'POST /v1/messages HTTP/1.1',
  'Host: hub.test',
  `Authorization: Bearer ${account.keys.test}`,
  'Content-Type: application/json',
  'Content-Length: 100',
]

/** The references in the ledger. */
const recorded = async (prefix: string): Promise<ReadonlyArray<string>> =>
  (
    await deployment.sql<ReadonlyArray<{ client_ref: string }>>(
      (q) =>
        q`SELECT client_ref FROM command.acceptances WHERE client_ref LIKE ${`${prefix}%`} ORDER BY client_ref`,
    )
  ).map(({ client_ref }) => client_ref)

describe('an overloaded process', () => {
  // Rules: AVL-7, AVL-9
  it('admits codes while it refuses service messages and batches', async () => {
    // So that the process knows the key: it refuses requests with an unknown key elsewhere.
    assert.strictEqual((await send(light, message('service', 'known'))).status, 202)
    await during({ kind: 'service', account: `${heavy.uuid} test`, sends: 80 }, async () => {
      for (let i = 0; i < 3; i++) {
        assertRefused(await send(light, message('service', `refused-${i}`)))
        assert.strictEqual((await send(light, message('otp', `code-${i}`))).status, 202)
        assertRefused(await sendBatch(light, [message('service', `refused-batch-${i}`)]))
      }
    })
    assert.strictEqual((await send(light, message('service', 'after'))).status, 202)
    assert.strictEqual((await sendBatch(light, [message('service', 'after-batch')])).status, 202)
    assert.deepStrictEqual(await recorded('refused-'), [])
    assert.deepStrictEqual(await recorded('code-'), ['code-0', 'code-1', 'code-2'])
  })

  // Rules: AVL-9
  it('refuses batches before single sends', async () => {
    await during({ kind: 'service', account: `${heavy.uuid} test`, sends: 65 }, async () => {
      assertRefused(await sendBatch(light, [message('service', 'first-batch')]))
      assert.strictEqual((await send(light, message('service', 'first-single'))).status, 202)
    })
  })

  // Rules: AVL-10
  it('refuses the account that uses more than its share, and no other', async () => {
    await during({ kind: 'service', account: `${heavy.uuid} test`, sends: 65 }, async () => {
      for (let i = 0; i < 5; i++) {
        assertRefused(await send(heavy, message('service', `heavy-${i}`)))
        assert.strictEqual((await send(light, message('service', `light-${i}`))).status, 202)
      }
    })
    assert.deepStrictEqual(await recorded('heavy-'), [])
  })

  // Rules: AVL-7
  it('refuses before the body has arrived if the body cannot change anything', async () => {
    await send(light, message('service', 'known-again'))
    await during({ kind: 'otp', account: `${light.uuid} test`, sends: 70 }, async () => {
      const answer = await new Promise<string>((resolve, reject) => {
        const socket = connect(api.port, '127.0.0.1', () =>
          socket.write(`${headOf(light).join('\r\n')}\r\n\r\n`),
        )
        socket.once('data', (data) => {
          resolve(data.toString())
          socket.destroy()
        })
        socket.once('error', reject)
      })
      assert.match(answer, /^HTTP\/1\.1 503 /u)
      assert.include(answer, '"code":"overloaded"')
    })
  })

  it('survives clients that disconnect before their body has arrived', async () => {
    await send(light, message('service', 'known-before'))
    await during({ kind: 'service', account: `${heavy.uuid} test`, sends: 80 }, async () => {
      for (let i = 0; i < 5; i++) {
        await new Promise<void>((resolve) => {
          const socket = connect(api.port, '127.0.0.1', () =>
            socket.write(`${headOf(light).join('\r\n')}\r\n\r\n{"to"`, () => socket.resetAndDestroy()),
          )
          socket.once('close', () => resolve())
        })
      }
      assertRefused(await send(light, message('service', 'refused-still')))
    })
  })

  // Rules: AVL-7
  it('refuses also what it cannot refuse at the first look: an unknown key, and a body without length', async () => {
    const unknown = await deployment.addAccount()
    await during({ kind: 'service', account: `${heavy.uuid} test`, sends: 80 }, async () => {
      assertRefused(await send(unknown, message('service', 'unknown-key')))
      assertRefused(await sendBatch(await deployment.addAccount(), [message('service', 'unknown-batch')]))
      const chunked = await fetch(`${api.url}/v1/messages`, {
        method: 'POST',
        headers: { authorization: `Bearer ${light.keys.test}`, 'content-type': 'application/json' },
        body: new Blob([JSON.stringify(message('service', 'chunked'))]).stream(),
        duplex: 'half',
      } as RequestInit)
      assert.strictEqual(chunked.status, 503)
      assert.include(await chunked.text(), '"code":"overloaded"')
    })
    assert.deepStrictEqual(await recorded('unknown-'), [])
    assert.deepStrictEqual(await recorded('chunked'), [])
  })

  // Rules: AVL-12
  it('answers everything else as before', async () => {
    await send(light, message('service', 'known-still'))
    await during({ kind: 'otp', account: `${light.uuid} test`, sends: 1000 }, async () => {
      const post = (path: string, body: unknown, headers = {}) =>
        call(api.url, path, { key: light.keys.test, body, headers })
      assert.strictEqual((await call(api.url, '/v1/account', { key: light.keys.test })).status, 200)
      const { client_ref: _, ...estimated } = message('service', '')
      assert.strictEqual((await post('/v1/messages/estimate', estimated)).status, 200)
      assert.strictEqual((await post('/v1/messages', 'x', { 'content-type': 'text/plain' })).status, 415)
      const key = `hub_test_${'x'.repeat(43)}`
      assert.strictEqual((await call(api.url, '/v1/messages', { key, body: {} })).status, 401)
    })
  })

  // Rules: AVL-8
  it('leaves nothing behind: no token of the rate, no idempotency key, no reservation', async () => {
    const limited = await deployment.addAccount({ apiRps: 10 })
    const key = limited.keys.test
    const headers = { 'idempotency-key': 'k-1' }
    // Test mode has one number with a flood window.
    const body = { ...message('service', 'left'), to: '+79000000009' }
    const remaining = async () => {
      const answer = await call(api.url, '/v1/account', { key })
      return Number(answer.headers.get('x-ratelimit-remaining'))
    }
    const full = await remaining()
    await during({ kind: 'service', account: `${heavy.uuid} test`, sends: 80 }, async () => {
      await eventually(async () => (await remaining()) === full, { everyMs: 300 })
      for (let i = 0; i < 20; i++) {
        const answer = await send(limited, body, { headers })
        assertRefused(answer)
        assert.isNull(answer.headers.get('x-ratelimit-remaining'))
      }
      // Twenty tokens would be two seconds of this rate.
      assert.isAtLeast(await remaining(), full - 1)
    })
    const [row] = await deployment.sql<[{ count: number }]>(
      (q) =>
        q`SELECT count(*)::integer AS count FROM command.idempotency_keys WHERE account = ${limited.uuid}`,
    )
    assert.strictEqual(row.count, 0)
    const repeat = await send(limited, body, { headers })
    assert.deepStrictEqual([repeat.status, repeat.headers.get('idempotent-replayed')], [202, null])
  })
})

describe('a burst far above the capacity', () => {
  // Rules: AVL-7, AVL-8
  it('gets 202 or overloaded, and exactly the accepted messages are in the ledger and in the lanes', async () => {
    const apart = await deployment.start({ ...REDIS_DEADLINE, admission: { initialRate: 20 } })
    const lanes = await Promise.all(
      [deployment.topics.acceptedOtp, deployment.topics.acceptedService].map(deployment.tail),
    )
    const account = await deployment.addAccount()
    try {
      // The first send of a process opens its connections, which takes long on a busy machine.
      for (const messageClass of ['otp', 'service'] as const) {
        const body = message(messageClass, `first-${messageClass}`)
        await eventually(async () => {
          const answer = await call(apart.url, '/v1/messages', { key: account.keys.test, body })
          return answer.status === 202
        })
      }
      const answers = await Promise.all(
        Array.from({ length: 300 }, async (_, i) => {
          const clientRef = `burst-${String(i).padStart(3, '0')}`
          const body = message(i % 10 === 0 ? 'otp' : 'service', clientRef)
          return {
            clientRef,
            answer: await call(apart.url, '/v1/messages', { key: account.keys.test, body }),
          }
        }),
      )
      const accepted = answers.filter(({ answer }) => answer.status === 202).map(({ clientRef }) => clientRef)
      // On a busy machine a server can be late. The client of such a send cannot know whether it is accepted.
      const late = new Set(answers.filter(({ answer }) => isLate(answer)).map(({ clientRef }) => clientRef))
      const refused = answers.filter(({ answer }) => answer.status !== 202 && !isLate(answer))
      for (const { answer } of refused) assertRefused(answer)
      assert.isNotEmpty([...accepted, ...late])
      assert.isNotEmpty(refused)
      const known = (refs: ReadonlyArray<string>) => refs.filter((ref) => !late.has(ref))
      assert.deepStrictEqual(known(await recorded('burst-')), accepted.toSorted())
      const published = () =>
        lanes
          .flatMap(facts)
          .flatMap(({ clientRef }) => (clientRef?.startsWith('burst-') === true ? [clientRef] : []))
          .toSorted()
      await eventually(() => known(published()).length >= accepted.length)
      assert.deepStrictEqual(known(published()), accepted.toSorted())
      // The load has ended, so a refused message is accepted now.
      const [again] = refused
      const repeat = await eventually(async () => {
        const body = message('service', again!.clientRef)
        const answer = await call(apart.url, '/v1/messages', { key: account.keys.test, body })
        return answer.status === 202 ? answer : null
      })
      assert.notProperty(repeat.body, 'duplicate')
    } finally {
      await apart.stop()
    }
  })
})
