import { expect, it } from 'vitest'
import { makeReferences } from './references.ts'

const recipientOf = (n: number) => n.toString(16).padStart(8, '0').padEnd(64, '0')

it('a recipient gets another reference with each long message, however many others get one meanwhile', () => {
  const next = makeReferences()
  const recipient = recipientOf(0xabcd_0001)
  const references = Array.from({ length: 256 }, (_, i) => {
    // Between two of this recipient, the hub has 255 long messages to others. The references have 8 bits
    // (3GPP TS 23.040, 9.2.3.24.1), so a common counter would return to the same one.
    for (let other = 0; other < 255; other++) next(recipientOf(other * 0x1_0000 + i))
    return next(recipient)
  })
  expect(new Set(references).size).toBe(256)
  expect(references.every((one) => Number.isInteger(one) && one >= 0 && one <= 255)).toBe(true)
})

it('a process does not begin where another one began', () => {
  const recipients = Array.from({ length: 100 }, (_, i) => recipientOf(i * 0x1_0001))
  // The same 100 numbers by chance: once in 256^100 runs.
  expect(recipients.map(makeReferences())).not.toEqual(recipients.map(makeReferences()))
})
