import { describe, expect, it } from 'vitest'
import { countText, moneyText, percentText, rateText, wordsOf } from './number.ts'

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

  // Source: Unicode CLDR. Between groups stands a no-break space.
  it('follow the language', () => {
    expect(countText(1234567, 'ru')).toBe('1\u00a0234\u00a0567')
    expect(rateText(12.34, 'ru')).toBe('12,3')
    expect(percentText(0.125, 'ru')).toBe('12,5 %')
    expect(moneyText({ amount: '9007199254740993.10', currency: 'RUB' }, 'ru')).toBe(
      '9\u00a0007\u00a0199\u00a0254\u00a0740\u00a0993,10 RUB',
    )
  })

  it('show codes as words', () => {
    expect(wordsOf('ttl_expired_before_submit')).toBe('ttl expired before submit')
  })
})
