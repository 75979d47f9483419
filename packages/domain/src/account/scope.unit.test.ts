import { assert, describe, it } from 'vitest'
import { hasScope, keyScopes, scopeNames } from './scope.ts'

describe('the scopes of a key', () => {
  // Rules: AUTH-16
  it('are ordered and without repetitions, and all of them are no restriction', () => {
    assert.deepStrictEqual(keyScopes(['manage', 'send', 'send']), ['send', 'manage'])
    assert.isNull(keyScopes(['manage', 'read', 'send']))
    assert.isNull(keyScopes(null))
  })

  // Rules: AUTH-16, AUTH-18
  it('permit only themselves', () => {
    const permitted = (scopes: Parameters<typeof hasScope>[0]) =>
      (['send', 'read', 'manage'] as const).filter((scope) => hasScope(scopes, scope))
    assert.deepStrictEqual(permitted(['read']), ['read'])
    assert.deepStrictEqual(permitted(['send', 'manage']), ['send', 'manage'])
    assert.deepStrictEqual(permitted(null), ['send', 'read', 'manage'])
  })

  it('are shown by name, also if they are all', () => {
    assert.deepStrictEqual(scopeNames(null), ['send', 'read', 'manage'])
    assert.deepStrictEqual(scopeNames(['read']), ['read'])
  })
})
