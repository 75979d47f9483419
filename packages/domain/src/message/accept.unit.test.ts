import { Result } from 'effect'
import { describe, expect, it } from 'vitest'
import { parseTemplate, render } from '../template/template.ts'
import { accept, type Acceptance, chargeOf, priceOf, republish } from './accept.ts'
import { DEFAULT_LIFETIMES, expiresAt, reportDeadline } from './lifetimes.ts'
import { factIdOf } from './step.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const rendered = Result.getOrThrow(
  Result.flatMap(parseTemplate('Заказ {{order}} готов'), (template) =>
    render(template, { order: 'я'.repeat(70) }),
  ),
)
const acceptance: Acceptance = {
  messageId: 'msg_01h455vb4pex5vsknk084sn02q',
  at: 1_800_000_000_000,
  account: 'acc_01h455vb4pex5vsknk084sn02q',
  mode: 'live',
  class: 'service',
  recipient: 'a'.repeat(64),
  scenario: null,
  template: 'order_ready',
  sender: 'HUB',
  clientRef: 'order-17',
  batch: null,
  rendered,
  pricePerPart: { amount: '2.00', currency: 'RUB' },
  lifetimes: DEFAULT_LIFETIMES,
  payloadKey: 'k1',
  ciphertext: Uint8Array.of(1, 2, 3),
  request: 'req_01h455vb4pex5vsknk084sn02q',
  apiKey: 'key_01h455vb4pex5vsknk084sn02q',
  numberRange: '912',
}

describe('acceptance', () => {
  // Rules: LIM-14, MSG-30
  it('records account, recipient, price, end of the lifetime, and the request', () => {
    expect(accept(acceptance)).toEqual({
      type: 'MessageAccepted',
      messageId: acceptance.messageId,
      at: acceptance.at,
      account: acceptance.account,
      mode: 'live',
      class: 'service',
      recipient: acceptance.recipient,
      template: 'order_ready',
      sender: 'HUB',
      clientRef: 'order-17',
      batch: null,
      parts: 2,
      price: { amount: '4.00', currency: 'RUB' },
      variables: ['order'],
      expiresAt: acceptance.at + 24 * HOUR,
      payloadKey: 'k1',
      ciphertext: Uint8Array.of(1, 2, 3),
      republished: false,
      request: acceptance.request,
      apiKey: acceptance.apiKey,
      numberRange: '912',
    })
  })

  it('contains no text and no variable value', () => {
    expect(JSON.stringify(accept(acceptance))).not.toMatch(/[а-я]/)
  })

  // Rules: LIM-19, EST-5
  it('is free in test mode, although an estimate shows the price', () => {
    expect(accept({ ...acceptance, mode: 'test' }).price).toEqual({ amount: '0.00', currency: 'RUB' })
    expect(chargeOf('test', acceptance.pricePerPart, 2).amount).toBe('0.00')
    expect(priceOf(acceptance.pricePerPart, 2).amount).toBe('4.00')
  })

  it('gives the same fact when published again', () => {
    const fact = accept(acceptance)
    expect(republish(fact)).toEqual({ ...fact, republished: true })
    expect(factIdOf(republish(fact))).toBe(factIdOf(fact))
  })
})

describe('lifetimes', () => {
  const acceptedAt = 1_000
  // Rules: MSG-30, SBX-10
  it.each([
    ['otp', null, 5 * MINUTE],
    ['service', null, 24 * HOUR],
    ['otp', 'delivered', 5 * MINUTE],
    ['service', 'silent', 24 * HOUR],
    ['otp', 'always_throttled', 10_000],
    ['service', 'always_throttled', 10_000],
  ] as const)('before submit: %s, sandbox %s', (messageClass, scenario, lifetime) => {
    expect(expiresAt(DEFAULT_LIFETIMES, { class: messageClass, acceptedAt, scenario })).toBe(
      acceptedAt + lifetime,
    )
  })

  // Rules: MSG-6
  it.each([
    ['otp', null, 30_000, 30_000],
    ['otp', null, 10 * MINUTE, 5 * MINUTE],
    ['service', 'always_throttled', 30_000, 10_000],
  ] as const)('before submit, shortened by the send: %s, sandbox %s, %d ms', (...row) => {
    const [messageClass, scenario, ttlMs, lifetime] = row
    expect(expiresAt(DEFAULT_LIFETIMES, { class: messageClass, acceptedAt, scenario, ttlMs })).toBe(
      acceptedAt + lifetime,
    )
  })

  const sentAt = 2_000
  // Rules: MSG-31, SBX-7
  it.each([
    ['otp', null, 15 * MINUTE],
    ['service', null, 26 * HOUR],
    ['service', 'delivered', 26 * HOUR],
    ['otp', 'silent', 10_000],
    ['service', 'silent_then_delivered', 10_000],
  ] as const)('for a report: %s, sandbox %s', (messageClass, scenario, lifetime) => {
    expect(reportDeadline(DEFAULT_LIFETIMES, { class: messageClass, sentAt, scenario })).toBe(
      sentAt + lifetime,
    )
  })
})
