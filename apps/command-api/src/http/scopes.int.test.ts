/** Scopes of API keys over HTTP. Source: AUTH-16 to AUTH-19. */
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { description } from '@hub/contract'
import { SCOPES, type Scope } from '@hub/domain'
import { CommandApiKeys } from '@hub/store'
import { assert, beforeAll, describe, it } from 'vitest'
import { type Account, type Api, call, type Deployment, startBeforeTests } from '../testing/harness.ts'

let deployment: Deployment
let api: Api
let account: Account
const keys = new Map<string, string>()

startBeforeTests((started) => ({ deployment, api, account } = started), {
  trustedProxies: ['127.0.0.0/8', '::1'],
})

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

const issue = async (scopes: ReadonlyArray<Scope> | null): Promise<string> => {
  const key = `hub_test_${randomBytes(32).toString('hex').slice(0, 43)}`
  await deployment.sql((q) =>
    CommandApiKeys.insert(q, {
      id: randomUUID(),
      account: account.uuid,
      mode: 'test',
      digest: sha256(key),
      ending: key.slice(-4),
      allowed: null,
      scopes,
    }),
  )
  return key
}
beforeAll(async () => {
  for (const scope of SCOPES) keys.set(scope, await issue([scope]))
})

interface Failed {
  readonly error?: { readonly code: string; readonly message: string; readonly param?: string }
}

/** The scope of an operation by the sentences of AUTH-17. */
const scopeOf = (method: string, path: string): Scope =>
  method === 'GET' ? 'read' : method === 'POST' && /^\/v1\/messages(?:$|\/)/u.test(path) ? 'send' : 'manage'

/** The operations of the API description that need a key. */
const operations = Object.entries(
  description()['paths'] as Readonly<Record<string, Readonly<Record<string, { security?: unknown[] }>>>>,
).flatMap(([path, methods]) =>
  Object.entries(methods)
    .filter(([, { security = [] }]) => security.length > 0)
    .map(([method]) => ({ method: method.toUpperCase(), path })),
)
const cases = operations.flatMap((operation) => SCOPES.map((scope) => ({ ...operation, scope })))

const request = (
  key: string,
  { method, path }: { readonly method: string; readonly path: string },
  headers: Readonly<Record<string, string>> = {},
) =>
  call(api.url, path.replaceAll(/\{\w+\}/gu, 'nothing'), {
    key,
    method,
    headers,
    ...(method === 'POST' || method === 'PATCH' ? { body: {} } : {}),
  })

const SEND = { method: 'POST', path: '/v1/messages' }

describe('an operation', () => {
  it('of the description is tried with each scope', () => {
    assert.isAtLeast(operations.length, 28)
  })

  // Rules: AUTH-17, AUTH-18
  it.each(cases)('$method $path with the scope $scope alone', async ({ method, path, scope }) => {
    const answer = await request(keys.get(scope)!, { method, path })
    const { error } = answer.body as Failed
    const needed = scopeOf(method, path)
    if (scope === needed) {
      assert.notInclude([401, 403], answer.status)
      assert.isBelow(answer.status, 500)
      return
    }
    assert.deepStrictEqual([answer.status, error?.code, error?.param], [403, 'insufficient_scope', undefined])
    assert.include(error?.message, `"${needed}"`)
    // The header of RFC 6750, 3.1.
    assert.strictEqual(
      answer.headers.get('www-authenticate'),
      `Bearer realm="hub", error="insufficient_scope", scope="${needed}"`,
    )
  })

  // Rules: AUTH-16
  it('is permitted to a key without a restriction, and to one with several scopes', async () => {
    const both = await issue(['send', 'read'])
    for (const { method, path } of operations) {
      const { status } = await request(await issue(null), { method, path })
      assert.notInclude([401, 403], status, `${method} ${path}`)
      const isRefused = (await request(both, { method, path })).status === 403
      assert.strictEqual(isRefused, scopeOf(method, path) === 'manage', `${method} ${path}`)
    }
  })
})

describe('a refusal for a scope', () => {
  // Rules: AUTH-18, HTTP-26, LIM-2
  it('counts for the request rate, and comes before the body and the resource', async () => {
    for (const operation of [SEND, { method: 'GET', path: '/v1/messages/{id}' }]) {
      const answer = await request(keys.get('manage')!, operation)
      assert.strictEqual(answer.status, 403)
      assert.isNotNull(answer.headers.get('x-ratelimit-limit'))
    }
    const unread = await call(api.url, '/v1/messages', { key: keys.get('read')!, body: 'not json' })
    assert.strictEqual(unread.status, 403)
  })

  // Rules: AUTH-19
  it('is no failed login', async () => {
    const from = { 'x-forwarded-for': '192.0.2.90' }
    for (let i = 0; i < 25; i++) {
      assert.strictEqual((await request(keys.get('read')!, SEND, from)).status, 403)
    }
    assert.notInclude([401, 403, 429], (await request(keys.get('send')!, SEND, from)).status)
  })

  // Rules: AUTH-18, IDEM-6
  it('is not stored under the Idempotency-Key', async () => {
    const operation = { method: 'POST', path: '/v1/templates/{id}/render' }
    const headers = { 'idempotency-key': randomUUID() }
    assert.strictEqual((await request(keys.get('read')!, operation, headers)).status, 403)
    const repeated = await request(keys.get('manage')!, operation, headers)
    assert.deepStrictEqual([repeated.status, repeated.headers.get('idempotent-replayed')], [404, null])
  })
})

describe('a process of an earlier version', () => {
  /** The condition of its look-up. */
  const found = async (key: string): Promise<number> =>
    (
      await deployment.sql<ReadonlyArray<object>>(
        (q) => q`SELECT id FROM command.api_keys
                  WHERE hash = decode(${sha256(key)}, 'hex')
                    AND (revoked_at IS NULL OR revoked_at > now()) AND (expires_at IS NULL OR expires_at > now())`,
      )
    ).length

  // Rules: AUTH-3
  it('finds a key without scopes, and none with scopes', async () => {
    assert.strictEqual(await found(await issue(null)), 1)
    for (const key of [...keys.values(), await issue(['send', 'read'])]) {
      assert.strictEqual(await found(key), 0)
    }
  })
})
