import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalId, ID_FORMATS } from './ids.ts'

describe('operator ids', () => {
  it('of any size are equal in answer and receipt, whichever is hexadecimal', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 2n ** 128n }), fc.nat(8), fc.boolean(), (id, zeros, upper) => {
        const hexadecimal = '0'.repeat(zeros) + (upper ? id.toString(16).toUpperCase() : id.toString(16))
        const decimal = '0'.repeat(zeros) + id.toString()
        const plain = id.toString()
        expect(canonicalId('hexadecimal_answer', 'answer', hexadecimal)).toBe(plain)
        expect(canonicalId('hexadecimal_answer', 'receipt', decimal)).toBe(plain)
        expect(canonicalId('decimal_answer', 'answer', decimal)).toBe(plain)
        expect(canonicalId('decimal_answer', 'receipt', hexadecimal)).toBe(plain)
        expect(canonicalId('decimal', 'receipt', decimal)).toBe(plain)
        expect(canonicalId('hexadecimal', 'receipt', hexadecimal)).toBe(plain)
      }),
    )
  })

  it.each(['0001', '018F6B2A-0000', 'e2c56db5-dffb-48d2-b060-d0f5a71096e0', '12:34/5'])(
    '%s does not change if ids are opaque',
    (id) => {
      expect(canonicalId('opaque', 'answer', id)).toBe(id)
      expect(canonicalId('opaque', 'receipt', ` ${id} `)).toBe(id)
    },
  )

  it('that are no numbers do not change in any format', () => {
    for (const format of ID_FORMATS) expect(canonicalId(format, 'answer', 'x-1')).toBe('x-1')
    expect(canonicalId('hexadecimal_answer', 'answer', '0xFF')).toBe('255')
  })

  it.each(['', '  ', 'a b', 'a\nb', 'é', '1'.repeat(256)])('%j is no id', (id) => {
    for (const format of ID_FORMATS) expect(canonicalId(format, 'answer', id)).toBeNull()
  })
})
