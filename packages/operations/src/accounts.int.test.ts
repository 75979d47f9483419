/** Accounts, keys and certification over PostgreSQL: pages, roles and refusals. */
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import * as Accounts from './accounts.ts'
import type { Actor } from './actor.ts'
import * as Certification from './certification.ts'
import * as Keys from './keys.ts'
import { makeTestDatabase, readPages, type TestDatabase } from './testing/test-database.ts'

const OPERATOR: Actor = { id: 'https://id.example|olga', name: 'olga', roles: ['operator'], via: 'api' }
const SUPPORT: Actor = { id: 'https://id.example|sam', name: 'sam', roles: ['support'], via: 'api' }

let database: TestDatabase
beforeAll(async () => {
  database = await makeTestDatabase()
})
afterAll(() => database.remove())

describe('accounts', () => {
  it('are listed in pages, newest first, each once', async () => {
    const ids: Array<string> = []
    for (const name of ['first', 'second', 'third']) {
      ids.unshift((await database.run(OPERATOR, Accounts.create, { name })).id)
    }
    const listed = await readPages((page) => database.run(SUPPORT, Accounts.list, page))
    assert.deepStrictEqual(
      listed.map(({ id }) => id),
      ids,
    )
  })

  it('are changed by operators only', async () => {
    const { id } = await database.account('Shop')
    const input = { account: id, mode: 'live', changes: { api_rps: 7, weight: null } } as const
    assert.include(await database.refusal(SUPPORT, Accounts.set, input), {
      _tag: 'Forbidden',
      permission: 'accounts.change',
    })
    const { modes } = await database.run(OPERATOR, Accounts.set, input)
    assert.deepInclude(modes[0], { mode: 'live', overridden: ['api_rps'] })
    assert.strictEqual(modes[0]?.in_force.api_rps, 7)
    const [row] = await database.auditRows('accounts set')
    assert.deepInclude(row, { actor: 'olga', role: 'operator' })
    assert.deepStrictEqual(row?.arguments, { account: id, mode: 'live', api_rps: 7, weight: null })
  })

  it('have no spend limit in test mode, and no change without a setting', async () => {
    const { id } = await database.account('Shop')
    for (const changes of [{}, { spend_limit: '5.00' }]) {
      assert.include(await database.refusal(OPERATOR, Accounts.set, { account: id, mode: 'test', changes }), {
        code: 'input_invalid',
      })
    }
  })
})

describe('keys', () => {
  it('are listed in pages, newest first, each once', async () => {
    const { id: account } = await database.account('Shop')
    const ids: Array<string> = []
    for (const _ of [1, 2, 3]) {
      const issued = await database.run(OPERATOR, Keys.issue, {
        account,
        mode: 'test',
        allowed_addresses: null,
        expires_after_seconds: null,
      })
      ids.unshift(issued.id)
    }
    const listed = await readPages((page) =>
      database.run(SUPPORT, Keys.list, { account, mode: null, ended: false, ...page }),
    )
    assert.deepStrictEqual(
      listed.map(({ id }) => id),
      ids,
    )
  })

  it('of live mode need a certified account', async () => {
    const { id: account } = await database.account('Shop')
    const input = { account, mode: 'live', allowed_addresses: null, expires_after_seconds: 60 } as const
    assert.include(await database.refusal(OPERATOR, Keys.issue, input), { code: 'not_certified' })
    const { points } = await database.run(SUPPORT, Certification.check, { account })
    assert.isNotEmpty(points.filter(({ fulfilled }) => !fulfilled))
    const refusal = await database.refusal(OPERATOR, Certification.grant, { account, confirmed: [] })
    assert.include(refusal, { code: 'checklist_incomplete' })
    const [row] = await database.auditRows('certification grant')
    assert.deepInclude(row, { outcome: 'failed', detail: { code: 'checklist_incomplete' } })
  })
})
