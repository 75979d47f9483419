/**
 * Authentication and request rate over HTTP. Source: the pages access and limits of docs/contract.
 */
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { connect as connectTcp } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectTls, type DetailedPeerCertificate } from 'node:tls'
import { ANSWERED_WITHIN_MS, eventually, makeCertificateAuthority, testRedisUrl } from '@hub/testkit'
import { Agent, fetch as undiciFetch } from 'undici'
import { assert, describe, it } from 'vitest'
import {
  type Account,
  type Api,
  call,
  type Deployment,
  stallingProxy,
  startBeforeTests,
} from '../testing/harness.ts'

let deployment: Deployment
let api: Api
let account: Account

/** On a busy machine, Redis takes longer than its usual deadline, after which the gate is open. */
const REDIS_DEADLINE = { redisDeadlineMs: 10_000 }

// The address of the tests is a trusted proxy, so that they can act as many clients.
startBeforeTests((started) => ({ deployment, api, account } = started), {
  trustedProxies: ['127.0.0.0/8', '::1', '10.0.0.0/8'],
  ...REDIS_DEADLINE,
})

const from = (address: string) => ({ 'x-forwarded-for': address })
const ask = (
  address: string,
  options: { readonly key?: string; readonly authorization?: string; readonly url?: string } = {},
) =>
  call(options.url ?? api.url, '/v1/account', {
    ...(options.key === undefined ? {} : { key: options.key }),
    headers: {
      ...from(address),
      ...(options.authorization === undefined ? {} : { authorization: options.authorization }),
    },
  })
const wrongKey = () => `hub_test_${randomBytes(32).toString('hex').slice(0, 43)}`
const codeOf = (answer: { readonly body: unknown }) =>
  (answer.body as { readonly error?: { readonly code: string } }).error?.code
const failTimes = async (address: string, times: number) => {
  for (let i = 0; i < times; i++) {
    const answer = await ask(address, { key: wrongKey() })
    assert.deepStrictEqual([answer.status, codeOf(answer)], [401, 'invalid_api_key'])
    assert.isNull(answer.headers.get('x-ratelimit-limit'))
  }
}
const assertGated = (answer: Awaited<ReturnType<typeof ask>>) => {
  assert.deepStrictEqual([answer.status, codeOf(answer)], [429, 'rate_limited'])
  const wait = (answer.body as { readonly error: { readonly retry_after: number } }).error.retry_after
  assert.isTrue(Number.isInteger(wait) && wait >= 1 && wait <= 60)
  assert.strictEqual(answer.headers.get('retry-after'), String(wait))
  assert.isNull(answer.headers.get('x-ratelimit-limit'))
  const { message } = (answer.body as { readonly error: { readonly message: string } }).error
  assert.include(message, 'Failed logins')
}

describe('the failed-login gate', () => {
  // Rules: AUTH-8, AUTH-9, AUTH-10, ERR-4, ERR-16
  it('closes after 21 failures, also for the right key', async () => {
    await failTimes('192.0.2.1', 20)
    // Successes neither count nor reset.
    assert.strictEqual((await ask('192.0.2.1', { key: account.keys.test })).status, 200)
    await failTimes('192.0.2.1', 1)
    assertGated(await ask('192.0.2.1', { key: account.keys.test }))
    assertGated(await ask('192.0.2.1', { key: wrongKey() }))
    // Another client is not affected.
    assert.strictEqual((await ask('192.0.2.2', { key: account.keys.test })).status, 200)
  })
  // Rules: AUTH-8, AUTH-13
  it('admits 21 of 400 concurrent attempts, in all processes together', async () => {
    const second = await deployment.start({ trustedProxies: ['127.0.0.0/8'], ...REDIS_DEADLINE })
    try {
      const answers = await Promise.all(
        Array.from({ length: 400 }, (_, index) =>
          ask('192.0.2.50', { key: wrongKey(), url: index % 2 === 0 ? api.url : second.url }),
        ),
      )
      const count = (wanted: number) => answers.filter(({ status }) => status === wanted).length
      // On a busy machine PostgreSQL can be late: such an attempt gets 503, and counts as a failed one or not.
      assert.strictEqual(count(401) + count(429) + count(503), 400)
      assert.isAtMost(count(401), 21)
      assert.isAtLeast(count(401), 21 - count(503))
      assert.isAtMost(count(429), 379)
      // Another client is not affected.
      assert.strictEqual((await ask('192.0.2.51', { key: account.keys.test })).status, 200)
    } finally {
      await second.stop()
    }
  })
  it('refuses no valid request beside a burst of attempts, whether its key is known or new', async () => {
    const fresh = await Promise.all(Array.from({ length: 8 }, () => deployment.addAccount()))
    const known = Array.from({ length: 30 }, () => account.keys.test)
    const keys = [...fresh.map((one) => one.keys.test), ...known]
    const [wrong, valid] = await Promise.all([
      Promise.all(Array.from({ length: 20 }, () => ask('192.0.2.52', { key: wrongKey() }))),
      Promise.all(keys.map((key) => ask('192.0.2.52', { key }))),
    ])
    assert.deepStrictEqual([...new Set(wrong.map(({ status }) => status))], [401])
    assert.deepStrictEqual([...new Set(valid.map(({ status }) => status))], [200])
  })
  // Rules: AUTH-13
  it('counts the failures in all processes', async () => {
    const second = await deployment.start({ trustedProxies: ['127.0.0.0/8', '::1'], ...REDIS_DEADLINE })
    try {
      await failTimes('192.0.2.3', 21)
      assertGated(await ask('192.0.2.3', { key: account.keys.test, url: second.url }))
    } finally {
      await second.stop()
    }
  })
  // Rules: AUTH-11
  it('does not count requests without the header', async () => {
    for (let i = 0; i < 25; i++) {
      const answer = await ask('192.0.2.4')
      assert.deepStrictEqual([answer.status, codeOf(answer)], [401, 'invalid_api_key'])
    }
    await failTimes('192.0.2.4', 21)
    // Not a login, so the gate does not apply.
    assert.strictEqual((await ask('192.0.2.4')).status, 401)
  })
  // Rules: AUTH-11
  it('counts any Authorization that is not a known key', async () => {
    const schemes = ['Basic dXNlcjpwYXNz', 'Bearer', 'Bearer x', '', 'hub_test_x', 'Digest a=b']
    for (let i = 0; i < 21; i++) {
      const answer = await ask('192.0.2.5', { authorization: schemes[i % schemes.length] ?? '' })
      assert.strictEqual(answer.status, 401)
    }
    assertGated(await ask('192.0.2.5', { key: account.keys.test }))
  })
  // Rules: AUTH-12
  it('counts IPv6 by /64', async () => {
    for (let i = 0; i < 21; i++) await failTimes(`2001:db8:0:1::${i + 1}`, 1)
    assertGated(await ask('2001:db8:0:1:ffff::1', { key: account.keys.test }))
    assert.strictEqual((await ask('2001:db8:0:2::1', { key: account.keys.test })).status, 200)
  })
  // Rules: HTTP-9
  it('uses the last untrusted hop, and ignores hops that the client wrote', async () => {
    for (let i = 0; i < 21; i++) await failTimes(`203.0.113.${i}, 192.0.2.6, 10.0.0.1`, 1)
    assertGated(await ask('203.0.113.99, 192.0.2.6', { key: account.keys.test }))
    assert.strictEqual((await ask('192.0.2.6, 203.0.113.99', { key: account.keys.test })).status, 200)
  })
  // Rules: HTTP-25, HTTP-26
  it('is checked after the size and encoding of the body and before the key', async () => {
    await failTimes('192.0.2.7', 21)
    const post = (headers: Readonly<Record<string, string>>, body: string) =>
      call(api.url, '/v1/messages', {
        headers: { ...from('192.0.2.7'), authorization: 'x', ...headers },
        body,
      })
    assert.strictEqual((await post({ 'content-type': 'text/plain' }, 'x')).status, 415)
    assertGated(await post({}, 'not json'))
  })
})

describe('a key with allowed addresses', () => {
  const allow = async (addresses: ReadonlyArray<string> | null) => {
    const fresh = await deployment.addAccount()
    const hash = createHash('sha256').update(fresh.keys.live).digest()
    const list = addresses === null ? null : [...addresses]
    await deployment.sql(
      (q) => q`UPDATE command.api_keys SET allowed_addresses = ${list}::text[]::cidr[] WHERE hash = ${hash}`,
    )
    return fresh.keys.live
  }
  // Rules: AUTH-7
  it('works only from them, with IPv4 and IPv6', async () => {
    const key = await allow(['198.51.100.0/24', '203.0.113.7/32', '2001:db8:1::/48'])
    for (const address of ['198.51.100.1', '203.0.113.7', '2001:db8:1:ffff::1']) {
      assert.strictEqual((await ask(address, { key })).status, 200, address)
    }
    for (const address of ['198.51.101.1', '203.0.113.8', '2001:db8:2::1', '127.0.0.1']) {
      const answer = await ask(address, { key })
      assert.deepStrictEqual([answer.status, codeOf(answer)], [401, 'invalid_api_key'], address)
    }
  })
  // Rules: AUTH-7, AUTH-14
  it('is answered like an unknown key from other addresses, and the attempt counts', async () => {
    const key = await allow(['198.51.100.0/24'])
    const notAllowed = await ask('192.0.2.20', { key })
    const unknownKey = await ask('192.0.2.20', { key: wrongKey() })
    const strip = (answer: typeof notAllowed) => {
      const { error } = answer.body as { readonly error: Readonly<Record<string, unknown>> }
      const headers = [...answer.headers].filter(([name]) => !['date', 'request-id'].includes(name))
      return { status: answer.status, error: { ...error, request_id: '' }, headers }
    }
    assert.deepStrictEqual(strip(notAllowed), strip(unknownKey))
    for (let i = 0; i < 19; i++) await ask('192.0.2.20', { key })
    assertGated(await ask('192.0.2.20', { key }))
  })
  it('works from no address with an empty list', async () => {
    assert.strictEqual((await ask('198.51.100.1', { key: await allow([]) })).status, 401)
  })
  it('follows a changed list within seconds', async () => {
    const key = await allow(null)
    assert.strictEqual((await ask('198.51.100.1', { key })).status, 200)
    const hash = createHash('sha256').update(key).digest()
    await deployment.sql(
      (q) => q`UPDATE command.api_keys SET allowed_addresses = '{203.0.113.0/24}' WHERE hash = ${hash}`,
    )
    await eventually(async () => (await ask('198.51.100.1', { key })).status === 401)
    assert.strictEqual((await ask('203.0.113.1', { key })).status, 200)
  })
})

describe('the use of a key', () => {
  const rowOf = async (key: string) => {
    const hash = createHash('sha256').update(key).digest()
    const [row] = await deployment.sql<
      ReadonlyArray<{
        readonly id: string
        readonly last_used_at: Date | null
        readonly last_used_from: string | null
      }>
    >(
      (q) => q`
        SELECT id, last_used_at, host(last_used_from) AS last_used_from FROM command.api_keys WHERE hash = ${hash}`,
    )
    return row
  }
  // Rules: AUTH-6
  it('ends when the key expires, with the answer of an unknown key', async () => {
    const fresh = await deployment.addAccount()
    const key = fresh.keys.live
    assert.strictEqual((await ask('192.0.2.60', { key })).status, 200)
    const hash = createHash('sha256').update(key).digest()
    await deployment.sql((q) => q`UPDATE command.api_keys SET expires_at = now() WHERE hash = ${hash}`)
    const answer = await eventually(async () => {
      const found = await ask('192.0.2.60', { key })
      return found.status === 200 ? null : found
    })
    assert.deepStrictEqual([answer.status, codeOf(answer)], [401, 'invalid_api_key'])
    assert.strictEqual((await ask('192.0.2.60', { key: fresh.keys.test })).status, 200)
  })
  it('is visible as the time of the last use, also after the process has stopped', async () => {
    const fresh = await deployment.addAccount()
    assert.isNull((await rowOf(fresh.keys.test))?.last_used_at)
    const apart = await deployment.start()
    assert.strictEqual((await call(apart.url, '/v1/account', { key: fresh.keys.test })).status, 200)
    assert.strictEqual((await call(apart.url, '/v1/account', { key: wrongKey() })).status, 401)
    await apart.stop()
    assert.isNotNull((await rowOf(fresh.keys.test))?.last_used_at)
    assert.isNull((await rowOf(fresh.keys.live))?.last_used_at)
  })
  it('is visible with the client address, never one that a client claims', async () => {
    const { live: liveKey, test: testKey } = (await deployment.addAccount()).keys
    const trusting = await deployment.start({ trustedProxies: ['127.0.0.0/8', '::1', '10.0.0.0/8'] })
    // The last hop that is no trusted proxy is the client; what precedes it is its own claim.
    await ask('203.0.113.9, 192.0.2.62, 10.0.0.1', { key: testKey, url: trusting.url })
    await ask('2001:db8::62', { key: liveKey, url: trusting.url })
    await trusting.stop()
    assert.strictEqual((await rowOf(testKey))?.last_used_from, '192.0.2.62')
    assert.strictEqual((await rowOf(liveKey))?.last_used_from, '2001:db8::62')

    // The last use is recorded to the minute.
    const { id } = (await rowOf(testKey)) ?? {}
    await deployment.sql(
      (q) =>
        q`UPDATE command.api_keys SET last_used_at = now() - interval '2 minutes' WHERE id = ${id ?? null}`,
    )
    const direct = await deployment.start()
    await ask('192.0.2.63', { key: testKey, url: direct.url })
    await direct.stop()
    assert.match((await rowOf(testKey))?.last_used_from ?? '', /^(127\.0\.0\.1|::1)$/)
  })
  it('from an address that is not allowed leaves one audit entry for the address', async () => {
    const fresh = await deployment.addAccount()
    const key = fresh.keys.live
    const hash = createHash('sha256').update(key).digest()
    await deployment.sql(
      (q) => q`UPDATE command.api_keys SET allowed_addresses = '{198.51.100.0/24}' WHERE hash = ${hash}`,
    )
    const entries = () =>
      deployment.sql<
        ReadonlyArray<{ readonly arguments: { readonly address: string }; readonly outcome: string }>
      >(
        (q) => q`SELECT arguments, outcome FROM command.audit
                  WHERE command = 'api refuse-address' AND arguments ->> 'account' = ${fresh.id} ORDER BY place`,
      )
    for (let i = 0; i < 3; i++) assert.strictEqual((await ask('192.0.2.61', { key })).status, 401)
    assert.strictEqual((await ask('192.0.2.62', { key })).status, 401)
    assert.strictEqual((await ask('198.51.100.7', { key })).status, 200)
    assert.strictEqual((await ask('192.0.2.62', { key: wrongKey() })).status, 401)
    await eventually(async () => (await entries()).length === 4)
    assert.deepStrictEqual(
      (await entries()).map(({ arguments: { address }, outcome }) => `${address} ${outcome}`),
      ['192.0.2.61 begun', '192.0.2.61 failed', '192.0.2.62 begun', '192.0.2.62 failed'],
    )
    assert.notInclude(JSON.stringify(await entries()), key)
  })
})

describe('a rotated key', () => {
  // Rules: AUTH-5
  it('works at once, together with the old key until that is revoked', async () => {
    const fresh = await deployment.addAccount()
    const next = wrongKey()
    assert.strictEqual((await ask('192.0.2.30', { key: fresh.keys.test })).status, 200)
    await deployment.sql(
      (q) => q`INSERT INTO command.api_keys (id, account, mode, hash, last_four)
               VALUES (${randomUUID()}, ${fresh.uuid}, 'test', ${createHash('sha256').update(next).digest()}, 'xxxx')`,
    )
    assert.strictEqual((await ask('192.0.2.30', { key: next })).status, 200)
    assert.strictEqual((await ask('192.0.2.30', { key: fresh.keys.test })).status, 200)
  })
})

describe('the request rate', () => {
  const rateOf = ({ headers }: { readonly headers: Headers }) =>
    ['limit', 'remaining', 'reset'].map((name) => headers.get(`x-ratelimit-${name}`))

  // Rules: LIM-1, LIM-2
  it('is in the headers of a success', async () => {
    const fresh = await deployment.addAccount({ apiRps: null })
    const answer = await ask('192.0.2.40', { key: fresh.keys.test })
    const [limit, remaining, reset] = rateOf(answer)
    assert.deepStrictEqual([limit, remaining], ['100', '99'])
    assert.match(reset ?? '', /^\d+(?:\.\d)?$/u)
  })
  // Rules: LIM-1, LIM-2
  it('is in the headers of a refusal, and of errors after the rate check', async () => {
    const fresh = await deployment.addAccount({ apiRps: 2 })
    const key = fresh.keys.test
    const missing = await call(api.url, '/v1/messages/msg_x', { key })
    assert.deepStrictEqual([missing.status, rateOf(missing)[0]], [404, '2'])
    const answers = await Promise.all(Array.from({ length: 40 }, () => ask('192.0.2.41', { key })))
    const refused = answers.filter(({ status }) => status === 429)
    assert.isAtLeast(refused.length, 1)
    for (const answer of refused) {
      assert.strictEqual(codeOf(answer), 'rate_limited')
      assert.deepStrictEqual(rateOf(answer).slice(0, 2), ['2', '0'])
      assert.strictEqual(answer.headers.get('retry-after'), '1')
    }
    // The other key of the account has its own rate.
    assert.strictEqual((await ask('192.0.2.41', { key: fresh.keys.live })).status, 200)
    await eventually(async () => (await ask('192.0.2.41', { key })).status === 200)
  })
  // Rules: LIM-2, LIM-3
  it('is checked before the body, and missing where an earlier check refused the request', async () => {
    const fresh = await deployment.addAccount({ apiRps: 2 })
    const post = (body: string, headers: Readonly<Record<string, string>> = {}) =>
      call(api.url, '/v1/messages', { key: fresh.keys.test, body, headers })
    const bad = await post('not json')
    assert.deepStrictEqual([bad.status, rateOf(bad)[0]], [422, '2'])
    const unread = await post('x', { 'content-type': 'text/plain' })
    assert.deepStrictEqual([unread.status, rateOf(unread)[0]], [415, null])
    const lost = await call(api.url, '/v1/nope', { key: fresh.keys.test })
    assert.deepStrictEqual([lost.status, rateOf(lost)[0]], [404, null])
  })
})

describe('without Redis', () => {
  // Rules: AVL-17
  it('requests are accepted, without rate headers', async () => {
    // No server listens on this port.
    const apart = await deployment.start({ redisUrl: 'redis://127.0.0.1:1' })
    try {
      for (let i = 0; i < 25; i++) {
        assert.strictEqual((await call(apart.url, '/v1/account', { key: wrongKey() })).status, 401)
      }
      const answer = await call(apart.url, '/v1/account', { key: account.keys.test })
      assert.deepStrictEqual([answer.status, answer.headers.get('x-ratelimit-limit')], [200, null])
    } finally {
      await apart.stop()
    }
  })

  // Rules: AVL-4, AVL-17
  it('requests are answered in time while it hangs, and limits return with it', async () => {
    const proxy = await stallingProxy()
    const real = new URL(testRedisUrl())
    proxy.forwardTo({ host: real.hostname, port: Number(real.port) }, 1000)
    const through = Object.assign(new URL(testRedisUrl()), { port: String(proxy.port) }).toString()
    const apart = await deployment.start({ redisUrl: through })
    const read = async () => {
      const began = performance.now()
      const answer = await call(apart.url, '/v1/account', { key: account.keys.test })
      return { ...answer, tookMs: performance.now() - began }
    }
    try {
      assert.isNotNull((await read()).headers.get('x-ratelimit-limit'))
      proxy.stall(true)
      for (const answer of await Promise.all(Array.from({ length: 20 }, read))) {
        assert.deepStrictEqual([answer.status, answer.headers.get('x-ratelimit-limit')], [200, null])
        assert.isBelow(answer.tookMs, ANSWERED_WITHIN_MS)
      }
      proxy.stall(false)
      await eventually(async () => (await read()).headers.get('x-ratelimit-limit') !== null, { everyMs: 100 })
    } finally {
      proxy.stall(false)
      await apart.stop()
      proxy.close()
    }
  })
})

describe('with TLS', () => {
  const serialOf = (port: number, ca: string) =>
    new Promise<string>((resolve, reject) => {
      const socket = connectTls({ host: '127.0.0.1', port, ca, ALPNProtocols: ['h2', 'http/1.1'] }, () => {
        const { serialNumber } = socket.getPeerCertificate() as DetailedPeerCertificate
        if (socket.alpnProtocol === 'http/1.1') resolve(serialNumber)
        else reject(new Error(`ALPN selected ${socket.alpnProtocol}, expected http/1.1`))
        socket.destroy()
      })
      socket.once('error', reject)
    })

  it('serves HTTP/1.1, uses a replaced certificate, and survives invalid input', async () => {
    const authority = await makeCertificateAuthority()
    const folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'tls-'))
    const tls = { certFile: join(folder, 'tls.crt'), keyFile: join(folder, 'tls.key') }
    const replace = async () => {
      const { cert, key } = await authority.issue(['127.0.0.1'])
      writeFileSync(tls.certFile, cert)
      writeFileSync(tls.keyFile, key)
    }
    await replace()
    const secure = await deployment.start({ tls })
    const agent = new Agent({ connect: { ca: authority.pem } })
    try {
      const answer = await undiciFetch(`${secure.url}/v1/account`, {
        headers: { authorization: `Bearer ${account.keys.test}` },
        dispatcher: agent,
      })
      assert.strictEqual(answer.status, 200)

      // Plain HTTP and random bytes close only their own connection.
      for (const input of ['GET / HTTP/1.1\r\n\r\n', '\u0000\u0001\u0002nonsense\r\n\r\n']) {
        await new Promise<void>((resolve) => {
          const socket = connectTcp(secure.port, '127.0.0.1', () => socket.write(input))
          socket.on('error', () => undefined)
          socket.once('close', () => resolve())
          socket.resume()
        })
      }

      const before = await serialOf(secure.port, authority.pem)
      await replace()
      await eventually(async () => (await serialOf(secure.port, authority.pem)) !== before, { everyMs: 250 })
    } finally {
      await agent.destroy()
      await secure.stop()
    }
  })
})
