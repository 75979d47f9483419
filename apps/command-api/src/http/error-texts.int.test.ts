/** The errors that a developer meets first say how to fix the problem. Source: ERR-10 to ERR-18. */
import { assert, describe, it } from 'vitest'
import { type Account, type Api, call, startBeforeTests } from '../testing/harness.ts'

let api: Api
let account: Account

startBeforeTests((started) => ({ api, account } = started))

interface Shown {
  readonly code: string
  readonly message: string
  readonly param?: string
}

const errorOf = async (path: string, options: Parameters<typeof call>[2] = {}): Promise<Shown> => {
  const answer = await call(api.url, path, { key: account.keys.test, ...options })
  return (answer.body as { readonly error: Shown }).error
}
const send = (changes: object = {}) => ({
  to: '+79001239876',
  class: 'service',
  template: 'order_ready',
  variables: { order: '1' },
  ...changes,
})

describe('an error', () => {
  // Rules: ERR-10
  it('of a send says that there is no free text', async () => {
    const { template: _, variables: __, ...rest } = send()
    const error = await errorOf('/v1/messages', { body: { ...rest, text: 'Hello' } })
    assert.deepStrictEqual([error.code, error.param], ['invalid_parameter', 'template'])
    assert.match(error.message, /no free text/u)
  })
  // Rules: ERR-11
  it('of a bare array names the object around it', async () => {
    const error = await errorOf('/v1/messages/batch', { body: [send()] })
    assert.include(error.message, '{"messages": [...]}')
  })
  // Rules: ERR-12
  it('of a body that is not JSON names the position', async () => {
    const error = await errorOf('/v1/messages', { body: '{"to": "+79001239876",}' })
    assert.strictEqual(error.message, 'The body is not JSON: line 1, column 23.')
  })
  // Rules: ERR-13
  it('of a bad number names the rule, and not the number', async () => {
    for (const [to, rule] of [
      ['79001239876', /plus/u],
      ['+7 900 123-98-76', /other characters/u],
      ['+4915112345678', /Russian/u],
      ['+7900123987', /10 digits/u],
      ['', /empty/u],
    ] as const) {
      const error = await errorOf('/v1/messages', { body: send({ to }) })
      assert.deepStrictEqual([error.code, error.param], ['recipient_invalid', 'to'])
      assert.match(error.message, rule)
      assert.notMatch(error.message, /900/u)
    }
  })
  // Rules: ERR-14
  it('of an unknown template names the mode', async () => {
    for (const mode of ['live', 'test'] as const) {
      for (const path of ['/v1/messages', '/v1/messages/estimate']) {
        const error = await errorOf(path, { key: account.keys[mode], body: send({ template: 'nope' }) })
        assert.strictEqual(error.code, 'template_not_found')
        assert.include(error.message, `in ${mode} mode`)
      }
    }
  })
  // Rules: ERR-15
  it('of an idempotency key says whether it is too long or used', async () => {
    const keyed = (key: string, body: object) =>
      errorOf('/v1/messages', { body, headers: { 'idempotency-key': key } })
    assert.match((await keyed('x'.repeat(256), send())).message, /at most 255/u)
    await keyed('used', send({ to: 'x' }))
    const reused = await keyed('used', send({ to: 'y' }))
    assert.strictEqual(reused.code, 'idempotency_key_reused')
    assert.match(reused.message, /belongs to another request/u)
    assert.notMatch(reused.message, /too long/u)
  })
  // Rules: ERR-17, MSG-39
  it('of a bad cursor names the cursor', async () => {
    const unknown = 'starting_after=nope'
    for (const path of [
      `/v1/templates?${unknown}`,
      `/v1/senders?${unknown}`,
      `/v1/webhook_endpoints?${unknown}`,
      `/v1/events?${unknown}`,
      `/v1/messages?${unknown}`,
    ]) {
      const error = await errorOf(path)
      assert.deepStrictEqual([error.code, error.param], ['not_found', 'starting_after'], path)
    }
    const batch = await errorOf('/v1/messages?batch=bat_nope')
    assert.deepStrictEqual([batch.code, batch.param], ['not_found', 'batch'])
  })
  // Rules: ERR-18, TPL-21
  it('of a number that loses digits says to send a string', async () => {
    for (const number of ['9007199254740993', '12345678901234567890', '0.12345678901234567', '1e400']) {
      for (const [path, body, param] of [
        ['/v1/messages', JSON.stringify(send({ variables: { order: 0 } })), 'variables.order'],
        [
          '/v1/messages/estimate',
          JSON.stringify({ messages: [send({ variables: { order: 0 } })] }),
          'messages[0].variables.order',
        ],
      ] as const) {
        const answer = await call(api.url, path, {
          key: account.keys.test,
          body: body.replace('"order":0', `"order":${number}`),
        })
        const { data, error } = answer.body as { error?: Shown; data?: ReadonlyArray<{ error: Shown }> }
        const shown = error ?? data?.[0]?.error
        assert.deepStrictEqual([shown?.code, shown?.param], ['template_variable_invalid', param])
        assert.match(shown?.message ?? '', /as a string/u)
      }
    }
    // A registration is returned as sent, so its numbers must fit into a double.
    const error = await errorOf('/v1/senders', {
      body: '{"name":"SHOP","registration":{"inn":1e400}}',
    })
    assert.deepStrictEqual([error.code, error.param], ['invalid_parameter', 'registration'])
  })
  // Rules: HTTP-17
  it('of too many tiny values is given before they are parsed', async () => {
    const body = `{"messages":[${'{"a":1},'.repeat(500_000)}{}]}`
    const error = await errorOf('/v1/messages/batch', { body })
    assert.strictEqual(error.code, 'invalid_parameter')
    assert.match(error.message, /100000 values/u)
  })
})
