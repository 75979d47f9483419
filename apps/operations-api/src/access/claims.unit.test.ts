import { describe, expect, it } from 'vitest'
import { Result } from 'effect'
import { accountsIn, nameOf, programOf, roleMapFrom, rolesOf, subjectOf } from './claims.ts'

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

describe('the accounts of a member', () => {
  const account = 'acc_01m7yt89qhe54swwc8wkxj6n8e'

  it('are the ids in the claim', () => {
    expect(accountsIn({ accounts: account }, 'accounts')).toEqual([account])
    expect(accountsIn({ hub: { accounts: [account, 'Shop', 7, null] } }, 'hub.accounts')).toEqual([account])
  })

  it('are none without the setting or the claim', () => {
    expect(accountsIn({ accounts: account }, null)).toEqual([])
    expect(accountsIn({}, 'accounts')).toEqual([])
  })
})

describe('the name of a person', () => {
  it('is the text of the claim', () => {
    expect(nameOf({ preferred_username: 'anna', sub: '1' }, 'preferred_username')).toBe('anna')
    expect(nameOf({ preferred_username: ' ', sub: 'u-1' }, 'preferred_username')).toBeNull()
    expect(nameOf({ preferred_username: 7 }, 'preferred_username')).toBeNull()
  })

  it('contains no phone number, also with a bearer token, which has no session', () => {
    expect(nameOf({ phone_number: '+79001234567' }, 'phone_number')).toBe('+***')
  })

  it('has no control characters, and a bounded length', () => {
    expect(nameOf({ name: 'a\u0000n\u202Ena\n' }, 'name')).toBe('anna')
    expect(nameOf({ name: 'a'.repeat(1000) }, 'name')).toHaveLength(100)
  })
})

describe('the name of a program', () => {
  // RFC 9068, section 2.2: without a resource owner, `sub` is an identifier of the client.
  it('is its client id, which is its subject', () => {
    expect(programOf({ sub: 'nightly-job', client_id: 'nightly-job' })).toBe('nightly-job')
    expect(programOf({ sub: 'nightly-job', azp: 'nightly-job' })).toBe('nightly-job')
  })

  it('is none in the token of a person, who uses a client', () => {
    expect(programOf({ sub: '248289761001', client_id: 'console', azp: 'console' })).toBeNull()
    expect(programOf({ sub: '248289761001' })).toBeNull()
    expect(programOf({})).toBeNull()
  })
})

describe('the subject', () => {
  // OpenID Connect Core 1.0, section 2: at most 255 ASCII characters.
  it.each([undefined, null, 7, '', 'a'.repeat(256), 'a\u0000', 'ann\u00e4'])('cannot be %j', (sub) => {
    expect(subjectOf({ sub })).toBeNull()
  })

  it('is the text of `sub`', () => {
    for (const sub of ['248289761001', 'a'.repeat(255), 'auth0|64 b']) expect(subjectOf({ sub })).toBe(sub)
  })
})
