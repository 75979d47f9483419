import { describe, expect, it } from 'vitest'
import { countText, moneyText, percentText, wordsOf } from './number.ts'

describe('numbers', () => {
  it('are grouped by thousands', () => {
    expect(countText(1234567)).toBe('1,234,567')
    expect(percentText(0.125)).toBe('12.5 %')
    expect(percentText(0)).toBe('0 %')
  })

  it('show amounts exactly as the API sends them', () => {
    expect(moneyText({ amount: '9007199254740993.10', currency: 'RUB' })).toBe('9,007,199,254,740,993.10 RUB')
    expect(moneyText({ amount: '0.00', currency: 'RUB' })).toBe('0.00 RUB')
  })

  it('show codes as words', () => {
    expect(wordsOf('ttl_expired_before_submit')).toBe('ttl expired before submit')
  })
})
