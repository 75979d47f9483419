import { assert, describe, it } from 'vitest'
import { ROLES } from './actor.ts'
import { allowingRole, PERMISSION_NAMES, rolesWith } from './permission.ts'

describe('permissions', () => {
  it('are all part of the role admin', () => {
    assert.isNotEmpty(PERMISSION_NAMES)
    for (const permission of PERMISSION_NAMES) {
      assert.strictEqual(allowingRole({ roles: ['admin'] }, permission), 'admin', permission)
    }
  })

  it('let a viewer read what concerns no person, and change nothing but own views', () => {
    const ofViewers = PERMISSION_NAMES.filter((permission) => rolesWith(permission).includes('viewer'))
    assert.deepStrictEqual(
      ofViewers.filter((permission) => !permission.endsWith('.read')),
      ['views.change'],
    )
    for (const personal of ['messages.reveal', 'opt_outs.read', 'audit.read'] as const) {
      assert.isNull(allowingRole({ roles: ['viewer'] }, personal), personal)
    }
  })

  it('name the weakest role that allows an operation', () => {
    const everyone = { roles: ROLES.toReversed() }
    assert.strictEqual(allowingRole(everyone, 'messages.read'), 'member')
    assert.strictEqual(allowingRole(everyone, 'hub.read'), 'viewer')
    assert.strictEqual(allowingRole(everyone, 'moderation.decide'), 'moderator')
    assert.strictEqual(allowingRole({ roles: ['admin', 'operator'] }, 'keys.change'), 'operator')
  })

  it('belong to nobody without a role', () => {
    for (const permission of PERMISSION_NAMES) assert.isNull(allowingRole({ roles: [] }, permission))
  })
})
