import { expect, it } from 'vitest'
import { confirmationRefusal } from './second-person.ts'

// OpenID Connect Core 1.0, section 5.7: only `iss` and `sub` together identify a person. A display name does not.
const ANNA = { id: 'https://id.example|248289761001', name: 'Anna' }
const RENAMED = { ...ANNA, name: 'Boris' }
const NAMESAKE = { id: 'https://id.example|90125', name: 'Anna' }
const BORIS = { id: 'https://id.example|90126', name: 'Boris' }
const ANNA_AT_THE_COMMAND_LINE = { id: 'hubctl|Anna', name: 'Anna' }
const OPEN = { isConfirmed: false, isExpired: false, requestedBy: ANNA }

it.each([
  [OPEN, BORIS, null],
  [OPEN, NAMESAKE, null],
  [OPEN, ANNA, 'same_person'],
  [OPEN, RENAMED, 'same_person'],
  [OPEN, ANNA_AT_THE_COMMAND_LINE, 'same_person'],
  [{ ...OPEN, requestedBy: ANNA_AT_THE_COMMAND_LINE }, NAMESAKE, 'same_person'],
  [{ ...OPEN, requestedBy: { id: null, name: 'Anna' } }, BORIS, 'unidentified'],
  [{ ...OPEN, isExpired: true }, ANNA, 'expired'],
  [{ ...OPEN, isConfirmed: true, isExpired: true }, BORIS, 'already_confirmed'],
] as const)('the request %j is confirmed by %j: %s', (request, person, expected) => {
  expect(confirmationRefusal(request, person)).toBe(expected)
})
