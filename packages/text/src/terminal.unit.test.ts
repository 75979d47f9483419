import { describe, expect, it } from 'vitest'
import { onOneLine, printable } from './terminal.ts'

/** By their code points: ECMA-48 (C0, DEL, C1), UAX #9 (table 4 and the marks), UAX #14 (BK), and zero width. */
const UNSAFE = [
  ...Array.from({ length: 32 }, (_, code) => code),
  ...Array.from({ length: 33 }, (_, index) => 0x7f + index),
  0x061c,
  0x200e,
  0x200f,
  0x202a,
  0x202b,
  0x202c,
  0x202d,
  0x202e,
  0x2066,
  0x2067,
  0x2068,
  0x2069,
  0x2028,
  0x2029,
  0x200b,
  0x2060,
  0xfeff,
]

describe('text for a terminal', () => {
  it('shows each unsafe character as its code', () => {
    for (const code of UNSAFE) {
      const text = `a${String.fromCharCode(code)}b`
      const shown = `a\\u${code.toString(16).padStart(4, '0')}b`
      expect(onOneLine(text)).toBe(shown)
      expect(printable(text)).toBe(code === 0x0a || code === 0x09 ? text : shown)
    }
  })

  it('keeps every other character', () => {
    const text = 'Заказ №1 «готов», 价格 ¥ שלום مرحبا 👩‍👩‍👧 é'
    expect(printable(text)).toBe(text)
    expect(onOneLine(text)).toBe(text)
  })

  it('keeps a JSON document and its values', () => {
    const value = { text: String.fromCharCode(...UNSAFE) }
    expect(JSON.parse(printable(JSON.stringify(value, null, 2)))).toEqual(value)
  })
})
