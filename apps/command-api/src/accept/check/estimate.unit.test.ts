import { assert, describe, it } from '@effect/vitest'
import { apiError, decodeEstimate, type JsonObject, toErrorBody } from '@hub/contract'
import { DEFAULT_SETTINGS, parseTemplate } from '@hub/domain'
import { Result } from 'effect'
import type { TemplateInUse } from '../../accounts/account.ts'
import { estimateBody, templatesOf } from './estimate.ts'

const template = (over: Partial<TemplateInUse> = {}): TemplateInUse => ({
  name: 'note',
  class: 'service',
  status: 'approved',
  sender: 'HUB',
  senderStatus: 'registered',
  parsed: Result.getOrThrow(parseTemplate('{{text}}')),
  ...over,
})
const send = (over: JsonObject = {}): JsonObject => ({
  to: '+79001234567',
  class: 'service',
  template: 'note',
  variables: { text: 'hello' },
  ...over,
})
const wanted = (body: JsonObject) => Result.getOrThrow(decodeEstimate(body, 10))
const estimate = (
  body: JsonObject,
  found: TemplateInUse | null = template(),
  mode: 'live' | 'test' = 'live',
) =>
  estimateBody(
    wanted(body),
    { owner: { mode }, settings: DEFAULT_SETTINGS, template: () => found },
    (error) => toErrorBody(error, 'req_x', 'https://docs').error,
  )

describe('an estimate', () => {
  // Rules: EST-1, EST-5
  it('has the price of its parts, in both modes', () => {
    for (const mode of ['live', 'test'] as const) {
      assert.deepStrictEqual(
        estimate(send({ variables: { text: 'x'.repeat(161) } }), template(), mode),
        Result.succeed({
          object: 'estimate',
          encoding: 'gsm7',
          characters: 161,
          parts: 2,
          price: { amount: '4.00', currency: 'RUB' },
        }),
      )
    }
  })
  // Rules: EST-3
  it('needs no registered sender, and no moderation in test mode', () => {
    for (const senderStatus of ['pending', 'declined'] as const) {
      assert.isTrue(Result.isSuccess(estimate(send(), template({ senderStatus }))))
    }
    const waiting = template({ status: 'pending_moderation' })
    assert.isTrue(Result.isSuccess(estimate(send(), waiting, 'test')))
    assert.deepStrictEqual(
      estimate(send(), waiting),
      Result.fail(apiError('template_not_approved', { param: 'template' })),
    )
  })
  // Rules: EST-2
  it('of a list has one element per send, in order, and the sums of the valid ones', () => {
    const body = Result.getOrThrow(
      estimate({ messages: [send({ to: 1 }), send(), send({ variables: {} }), send()] }),
    )
    assert.nestedPropertyVal(body, 'data[0].error.param', 'messages[0].to')
    assert.nestedPropertyVal(body, 'data[1].price.amount', '2.00')
    assert.nestedPropertyVal(body, 'data[2].error.param', 'messages[2].variables.text')
    assert.nestedPropertyVal(body, 'data[2].error.request_id', 'req_x')
    assert.nestedPropertyVal(body, 'data[3].index', 3)
    assert.deepNestedPropertyVal(body, 'totals', { parts: 2, price: { amount: '4.00', currency: 'RUB' } })
  })
  // Rules: EST-2
  it('without valid sends has sums of zero', () => {
    const body = Result.getOrThrow(estimate({ messages: [send()] }, null))
    assert.deepNestedPropertyVal(body, 'totals', { parts: 0, price: { amount: '0.00', currency: 'RUB' } })
  })
  it('needs each template once, and none for malformed sends', () => {
    assert.deepStrictEqual(templatesOf(wanted(send())), ['note'])
    assert.deepStrictEqual(
      templatesOf(
        wanted({
          messages: [send(), send({ template: 'other' }), send(), send({ to: 1, template: 'never' })],
        }),
      ),
      ['note', 'other'],
    )
  })
})
