/** The headers of a deprecated operation. The contract has none today, so the test deprecates one. */
import { ROUTES } from '@hub/contract'
import { assert, describe, it } from 'vitest'
import { type Account, type Api, call, startBeforeTests } from '../testing/harness.ts'

let api: Api
let account: Account

startBeforeTests((started) => ({ api, account } = started), {
  routes: ROUTES.map((route) =>
    route.operation === 'account.read'
      ? { ...route, deprecation: { since: '2023-06-30', sunset: '2024-06-30' } }
      : route,
  ),
})

describe('a deprecated operation', () => {
  // Rules: VER-10
  it('says so in each of its answers', async () => {
    const key = account.keys.test
    for (const [status, options] of [
      [200, { key }],
      [200, { key, method: 'HEAD' }],
      [401, {}],
    ] as const) {
      const answer = await call(api.url, '/v1/account', options)
      assert.strictEqual(answer.status, status)
      // Source: RFC 9745, 2 and RFC 8594, 3, for the first second of these days.
      assert.strictEqual(answer.headers.get('deprecation'), '@1688083200')
      assert.strictEqual(answer.headers.get('sunset'), 'Sun, 30 Jun 2024 00:00:00 GMT')
    }
    const { headers, status } = await call(api.url, '/v1/account?page=2', { key })
    assert.deepStrictEqual([status, headers.get('deprecation')], [422, '@1688083200'])
  })

  // Rules: VER-10
  it('is not another operation, nor another method of its path', async () => {
    const key = account.keys.test
    for (const [status, path, options] of [
      [200, '/v1/templates', { key }],
      [200, '/v1/openapi.json', {}],
      [405, '/v1/account', { key, method: 'DELETE' }],
    ] as const) {
      const answer = await call(api.url, path, options)
      assert.strictEqual(answer.status, status)
      assert.isNull(answer.headers.get('deprecation'))
      assert.isNull(answer.headers.get('sunset'))
    }
  })
})
