import { encodeId, ID_PREFIXES, type IdPrefix } from '@hub/domain'
import fc from 'fast-check'
import { assert, describe, it } from 'vitest'
import { recognize } from './recognize.ts'

const UUID = '0199c4de-6f0a-7d1e-9a65-3f1f5f7a2b11'
const PREFIXES = Object.keys(ID_PREFIXES) as ReadonlyArray<IdPrefix>

describe('the recognizer of searches', () => {
  it.each([
    ['+79001234567', null],
    [' +7 900 123-45-67 ', null],
    ['8 (900) 123-45-67', null],
    ['+7\u00a0900\u00a0123\u201345\u201367', null],
    ['79001234567', '79001234567'],
    [' 89001234567', '89001234567'],
    ['9001234567', '9001234567'],
  ])('recognizes the phone number %s', (typed, text) => {
    assert.deepStrictEqual(recognize(typed), { kind: 'number', number: '+79001234567', text })
  })

  it.each(['+7900123456', '+790012345678', '+49 171 1234567', '12345', '+7900123456x', '8 (499) 123-45-67'])(
    'takes %s for another text, because the hub has no messages to such numbers',
    (typed) => {
      assert.deepStrictEqual(recognize(typed), { kind: 'text', text: typed })
    },
  )

  it('recognizes the ids of all kinds, in upper case too', () => {
    for (const prefix of PREFIXES) {
      const id = encodeId(prefix, UUID)
      const expected = { kind: 'id', prefix, id, uuid: UUID } as const
      assert.deepStrictEqual(recognize(id), expected)
      assert.deepStrictEqual(recognize(` ${id.toUpperCase()}\n`), expected)
    }
  })

  it('recognizes a text that begins like an id and is none', () => {
    for (const prefix of PREFIXES) {
      const id = encodeId(prefix, UUID)
      for (const wrong of [id.slice(0, -1), `${id}0`, `${prefix}_`, `${id.slice(0, -1)}u`]) {
        assert.deepStrictEqual(recognize(wrong), { kind: 'malformed_id', prefix })
      }
    }
  })

  it('recognizes a recipient hash', () => {
    const hash = 'ab'.repeat(32)
    assert.deepStrictEqual(recognize(hash), { kind: 'recipient', hash })
  })

  it('takes any other text for a client_ref or an id at an operator', () => {
    const other = fc.string().filter((text) => !/^\s*[+\da-zA-Z]/u.test(text))
    fc.assert(
      fc.property(other, (text) => {
        assert.deepStrictEqual(recognize(text), { kind: 'text', text: text.trim() })
      }),
    )
    assert.deepStrictEqual(recognize('order_7'), { kind: 'text', text: 'order_7' })
  })
})
