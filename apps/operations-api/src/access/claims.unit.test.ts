import { describe, expect, it } from 'vitest'
import { Result } from 'effect'
import { nameOf, roleMapFrom, rolesOf } from './claims.ts'

const map = Result.getOrThrow(
  roleMapFrom('{"sms-support": "support", "sms-admins": ["admin", "moderator"], "everybody": ["viewer"]}'),
)

describe('HUB_OIDC_ROLES', () => {
  it.each([
    ['{', 'is not JSON'],
    ['[]', 'is no JSON object'],
    ['"support"', 'is no JSON object'],
    ['{}', 'gives nobody a role'],
    ['{"a": "root"}', /is no role/u],
    ['{"a": []}', /is no role/u],
    ['{"a": ["support", 1]}', /is no role/u],
  ])('is refused as %s', (text, problem) => {
    const read = roleMapFrom(text)
    expect(Result.isFailure(read) ? read.failure : '').toMatch(problem)
  })
})

describe('the roles of a person', () => {
  it('are those of all values of the claim, the weakest first', () => {
    expect(rolesOf({ groups: ['sms-admins', 'sms-support', 'sales'] }, 'groups', map)).toEqual([
      'support',
      'moderator',
      'admin',
    ])
  })

  it('come from a claim with one text, from a claim inside of another one, or from a name with dots', () => {
    expect(rolesOf({ groups: 'everybody' }, 'groups', map)).toEqual(['viewer'])
    const nested = { realm_access: { roles: ['sms-support'] } }
    expect(rolesOf(nested, 'realm_access.roles', map)).toEqual(['support'])
    expect(rolesOf({ 'https://example.com/roles': ['everybody'] }, 'https://example.com/roles', map)).toEqual(
      ['viewer'],
    )
  })

  it.each([
    {},
    { groups: null },
    { groups: 7 },
    { groups: [['sms-admins']] },
    { groups: { 'sms-admins': true } },
  ])('are none with the claims %o', (claims) => {
    expect(rolesOf(claims, 'groups', map)).toEqual([])
  })

  it('are none if the value is the name of a role, and not in the map', () => {
    expect(rolesOf({ groups: ['admin', 'toString', '__proto__'] }, 'groups', map)).toEqual([])
  })
})

describe('the name of a person', () => {
  it('is the first claim that has a text', () => {
    expect(nameOf({ preferred_username: 'anna', sub: '1' }, ['preferred_username', 'sub'])).toBe('anna')
    expect(nameOf({ preferred_username: ' ', sub: 'u-1' }, ['preferred_username', 'sub'])).toBe('u-1')
    expect(nameOf({ sub: 7 }, ['preferred_username', 'sub'])).toBeNull()
  })

  it('contains no phone number, also with a bearer token, which has no session', () => {
    expect(nameOf({ phone_number: '+79001234567' }, ['phone_number'])).toBe('+***')
  })

  it('has no control characters, and a bounded length', () => {
    expect(nameOf({ sub: 'a\u0000n\u202Ena\n' }, ['sub'])).toBe('anna')
    expect(nameOf({ sub: 'a'.repeat(1000) }, ['sub'])).toHaveLength(100)
  })
})
