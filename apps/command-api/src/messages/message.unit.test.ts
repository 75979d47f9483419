import { assert, describe, it } from '@effect/vitest'
import { AcceptedMessage, Message } from '@hub/contract'
import { Schema } from 'effect'
import { acceptedBody, messageBody, type MessageView } from './message.ts'

const view: MessageView = {
  id: 'msg_06e9c2v5k4r8x1m7n3p0q2s6tw',
  mode: 'live',
  class: 'service',
  toMasked: '+7900***4567',
  status: 'sent',
  reason: null,
  createdAt: 0,
  updatedAt: 1000,
  clientRef: 'a',
  batch: null,
  template: 'order_ready',
  sender: 'HUB',
  attempts: 1,
  parts: 2,
  price: { amount: '4.00', currency: 'RUB' },
  variables: ['order'],
  history: [
    { status: 'accepted', reason: null, at: 0 },
    { status: 'sent', reason: null, at: 1000 },
  ],
}
const content = { text: 'Order 17', variables: { order: '17' } }

describe('the API representation of a message', () => {
  // Rules: MSG-15
  it('matches the schemas of the contract', () => {
    Schema.decodeUnknownSync(AcceptedMessage)(acceptedBody(view, true))
    Schema.decodeUnknownSync(Message)(messageBody(view, content))
  })
  // Rules: MSG-9, MSG-15
  it('contains text and variables only in reads', () => {
    assert.notProperty(acceptedBody(view, false), 'text')
    assert.notProperty(acceptedBody(view, false), 'duplicate')
    assert.deepInclude(messageBody(view, content), content)
    assert.deepInclude(messageBody(view, null), { text: null, variables: null })
  })
  // Rules: MSG-21
  it('never contains the text of a code, and masks its variables', () => {
    assert.deepInclude(messageBody({ ...view, class: 'otp' }, content), {
      text: null,
      variables: { order: '***' },
    })
    assert.deepInclude(messageBody({ ...view, class: 'otp', variables: null }, null), {
      text: null,
      variables: null,
    })
  })
  // Rules: MSG-19, LIM-15
  it('has a price of zero when the message was not billed', () => {
    const priceOf = (status: MessageView['status'], reason: MessageView['reason']) =>
      acceptedBody({ ...view, status, reason }, false).price.amount
    assert.strictEqual(priceOf('rejected', 'spam_filter_content'), '0.00')
    assert.strictEqual(priceOf('expired', 'ttl_expired_before_submit'), '0.00')
    assert.strictEqual(priceOf('expired', 'dlr_timeout'), '4.00')
    assert.strictEqual(priceOf('undelivered', 'delivery_failed'), '4.00')
  })
  // Rules: MSG-24
  it('is final exactly in the final statuses', () => {
    const finals = (['accepted', 'sent', 'delivered', 'undelivered', 'rejected', 'expired'] as const).filter(
      (status) => acceptedBody({ ...view, status }, false).final,
    )
    assert.deepStrictEqual(finals, ['delivered', 'undelivered', 'rejected', 'expired'])
  })
})
