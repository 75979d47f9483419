import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  addMoney,
  characterCount,
  fromTimestamp,
  hasControlCharacters,
  minorUnits,
  moneyOf,
  multiplyMoney,
  toTimestamp,
  zeroMoney,
} from './vocabulary.ts'

describe('money', () => {
  const units = fc.bigInt({ min: -(10n ** 14n), max: 10n ** 14n })

  it('is a decimal with two digits', () => {
    expect(moneyOf(1250n, 'RUB')).toEqual({ amount: '12.50', currency: 'RUB' })
    expect(moneyOf(5n, 'RUB').amount).toBe('0.05')
    expect(moneyOf(-5n, 'RUB').amount).toBe('-0.05')
    expect(zeroMoney('RUB')).toEqual(moneyOf(0n, 'RUB'))
  })

  it('is exact, whatever the amount', () => {
    fc.assert(
      fc.property(units, units, fc.nat({ max: 1000 }), (a, b, times) => {
        expect(minorUnits(moneyOf(a, 'RUB'))).toBe(a)
        expect(minorUnits(addMoney(moneyOf(a, 'RUB'), moneyOf(b, 'RUB')))).toBe(a + b)
        expect(minorUnits(multiplyMoney(moneyOf(a, 'RUB'), times))).toBe(a * BigInt(times))
      }),
    )
    expect(multiplyMoney({ amount: '2.10', currency: 'RUB' }, 3).amount).toBe('6.30')
  })

  it('of two currencies is not added, and what is no amount is not counted', () => {
    expect(() => addMoney(zeroMoney('RUB'), zeroMoney('EUR'))).toThrow(RangeError)
    for (const amount of ['', '1', '1.5', '1.505', '1,50', ' 1.50', '1e2', '.50', '1.50\n']) {
      expect(() => minorUnits({ amount, currency: 'RUB' })).toThrow(RangeError)
    }
  })
})

describe('timestamps', () => {
  it('have milliseconds and a Z, and read back as they were written', () => {
    expect(toTimestamp(0)).toBe('1970-01-01T00:00:00.000Z')
    fc.assert(
      fc.property(fc.nat({ max: 4_102_444_800_000 }), (ms) => {
        expect(fromTimestamp(toTimestamp(ms))).toBe(ms)
      }),
    )
  })

  it.each([
    '2026-11-21',
    '2026-11-21T10:00:00Z',
    '2026-11-21T10:00:00.000',
    '2026-11-21T10:00:00.000+03:00',
    '2026-02-30T10:00:00.000Z',
    '2026-13-01T10:00:00.000Z',
    '2026-11-21T24:00:00.000Z',
    '2026-11-21t10:00:00.000z',
    '2026-11-21T10:00:00.000Z\n',
    '',
  ])('are nothing else: %j', (text) => {
    expect(fromTimestamp(text)).toBeNull()
  })
})

describe('characters', () => {
  it('are counted as code points', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(characterCount(text)).toBe(Array.from(text).length)
      }),
    )
    expect(characterCount('😀\ud800')).toBe(2)
  })

  it('are controls in both blocks of Unicode, but for the line feed', () => {
    expect(hasControlCharacters('one\ntwo — три\u2028😀')).toBe(false)
    for (const control of ['\0', '\t', '\r', '\f', '\u001b', '\u007f', '\u0085', '\u009f']) {
      expect(hasControlCharacters(`a${control}b`)).toBe(true)
    }
  })
})
