import { describe, expect, it } from 'vitest'
import { expiryReason } from './expiry.ts'

const ENABLED = 'retry_window_expired'
const DISABLED = 'retry_window_expired_while_disabled'

// Rules: DEL-23
describe('the reason of an expiry', () => {
  it('is the state when the window ended, while the subscription is still disabled', () => {
    expect(expiryReason({ disabledAt: 100, last: null }, 99)).toBe(ENABLED)
    expect(expiryReason({ disabledAt: 100, last: null }, 100)).toBe(DISABLED)
    expect(expiryReason({ disabledAt: 100, last: null }, 900)).toBe(DISABLED)
  })

  it('is the state when the window ended, also when the subscription was enabled since', () => {
    const periods = { disabledAt: null, last: { from: 100, until: 200 } }
    expect(expiryReason(periods, 99)).toBe(ENABLED)
    expect(expiryReason(periods, 100)).toBe(DISABLED)
    expect(expiryReason(periods, 199)).toBe(DISABLED)
    expect(expiryReason(periods, 200)).toBe(ENABLED)
  })

  it('of a subscription that was never disabled is that of an enabled one', () => {
    expect(expiryReason({ disabledAt: null, last: null }, 5)).toBe(ENABLED)
  })
})
