import { expect, it } from 'vitest'
import { MAX_SEQUENCE, nextSequence } from './sequence.ts'

it('sequence numbers start again at 1 and skip outstanding requests', () => {
  // SMPP 3.4, 3.2 and 5.1.4: from 0x00000001 to 0x7FFFFFFF.
  expect(MAX_SEQUENCE).toBe(0x7fff_ffff)
  expect(nextSequence(0, () => false)).toBe(1)
  expect(nextSequence(MAX_SEQUENCE, () => false)).toBe(1)
  expect(nextSequence(MAX_SEQUENCE - 1, (n) => n === MAX_SEQUENCE || n <= 2)).toBe(3)
})
