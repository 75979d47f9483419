import { expect, it } from 'vitest'
import { confirmationRefusal } from './second-person.ts'

const OPEN = { isConfirmed: false, isExpired: false, requestedBy: 'Anna' }

it.each([
  [OPEN, 'Boris', null],
  [OPEN, 'Anna', 'same_person'],
  [{ ...OPEN, isExpired: true }, 'Anna', 'expired'],
  [{ ...OPEN, isConfirmed: true, isExpired: true }, 'Boris', 'already_confirmed'],
] as const)('the request %j is confirmed by %s: %s', (request, person, expected) => {
  expect(confirmationRefusal(request, person)).toBe(expected)
})
