import { describe, expect, it } from 'vitest'
import { base62 } from './secrets.ts'

describe('base62', () => {
  it('has 43 characters for any 32 bytes', () => {
    expect(base62(new Uint8Array(32))).toBe('0'.repeat(43))
    expect(base62(new Uint8Array(32).fill(255))).toMatch(/^[0-9A-Za-z]{43}$/u)
  })

  it('counts as numbers do', () => {
    const number = (value: number): Uint8Array => {
      const bytes = new Uint8Array(32)
      bytes[31] = value
      return bytes
    }
    expect(base62(number(61))).toBe(`${'0'.repeat(42)}z`)
    expect(base62(number(62))).toBe(`${'0'.repeat(41)}10`)
  })
})
