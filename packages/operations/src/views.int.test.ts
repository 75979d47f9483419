/** Saved views over PostgreSQL: who sees, changes and shares them, and what happens to their filters. */
import { randomUUID } from 'node:crypto'
import { encodeId } from '@hub/domain'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import type { Actor, Role } from './actor.ts'
import * as Audit from './audit.ts'
import { makeTestHub, type TestHub } from './testing/test-hub.ts'
import * as Views from './views.ts'

let hub: TestHub
beforeAll(async () => {
  hub = await makeTestHub()
})
afterAll(() => hub.remove())

const person = (name: string, role: Role): Actor => ({
  id: `https://id.example|${name}`,
  name,
  roles: [role],
  via: 'api',
})
const [vera, ira, sam, oleg] = [
  person('vera', 'viewer'),
  person('ira', 'viewer'),
  person('sam', 'support'),
  person('oleg', 'operator'),
]

const FAILED = { list: 'messages', filters: { status: 'undelivered', mode: 'live' }, shared: false } as const

const namesFor = async (actor: Actor, list: 'messages' | 'audit' | null = null) =>
  (await hub.run(Views.list, { list }, actor)).data.map(({ name }) => name)

const linesOf = async (command: string) =>
  (await hub.run(Audit.list, { actor: null, command, limit: 100, cursor: null })).data

describe('a private view', () => {
  it('is seen, changed and deleted only by its owner', async () => {
    const view = await hub.run(Views.save, { ...FAILED, name: 'Failed' }, vera)
    assert.deepInclude(view, { name: 'Failed', list: 'messages', shared: false, owner: 'vera' })
    assert.deepStrictEqual(view.filters, FAILED.filters)
    assert.deepStrictEqual(await namesFor(vera), ['Failed'])
    for (const other of [ira, oleg]) {
      assert.deepStrictEqual(await namesFor(other), [])
      assert.strictEqual(await hub.refusal(Views.get, { id: view.id }, other), 'view_not_found')
      const renamed = { id: view.id, name: 'Mine', shared: null }
      assert.strictEqual(await hub.refusal(Views.change, renamed, other), 'view_not_found')
      assert.strictEqual(await hub.refusal(Views.remove, { id: view.id }, other), 'view_not_found')
    }
    const renamed = await hub.run(Views.change, { id: view.id, name: 'All failed', shared: null }, vera)
    assert.deepInclude(renamed, { name: 'All failed', shared: false })
    await hub.run(Views.remove, { id: view.id }, vera)
    assert.deepStrictEqual(await namesFor(vera), [])
    assert.strictEqual(await hub.refusal(Views.get, { id: view.id }, vera), 'view_not_found')
  })

  it('has a name of its own, which the views of others do not take', async () => {
    const first = await hub.run(Views.save, { ...FAILED, name: 'Same' }, vera)
    await hub.run(Views.save, { ...FAILED, name: 'Same' }, ira)
    assert.strictEqual(await hub.refusal(Views.save, { ...FAILED, name: 'SAME' }, vera), 'view_name_taken')
    const other = await hub.run(Views.save, { ...FAILED, name: 'Other' }, vera)
    const taken = { id: other.id, name: 'same', shared: null }
    assert.strictEqual(await hub.refusal(Views.change, taken, vera), 'view_name_taken')
    for (const { id } of [first, other]) await hub.run(Views.remove, { id }, vera)
  })

  it('is in the audit trail without its name and its filters', async () => {
    await hub.run(Views.save, { ...FAILED, name: 'Nobody knows' }, vera)
    const [line] = await linesOf('views save')
    assert.deepStrictEqual(line?.arguments, { shared: false, list: 'messages' })
    assert.notInclude(JSON.stringify(await linesOf('views')), 'Nobody knows')
  })
})

describe('a shared view', () => {
  it('is seen by all, and changed by those who may share', async () => {
    assert.strictEqual(
      await hub.refusal(Views.save, { ...FAILED, name: 'For all', shared: true }, vera),
      'views.share',
    )
    const view = await hub.run(Views.save, { ...FAILED, name: 'For all', shared: true }, sam)
    assert.include(await namesFor(ira), 'For all')
    assert.deepInclude(await hub.run(Views.get, { id: view.id }, ira), { name: 'For all', problem: null })
    assert.strictEqual(await hub.refusal(Views.remove, { id: view.id }, ira), 'views.share')
    await hub.run(Views.change, { id: view.id, name: 'Renamed', shared: null }, oleg)
    assert.include(await namesFor(ira), 'Renamed')
    const [renamed] = await linesOf('views change')
    assert.deepInclude(renamed, { actor: 'oleg', outcome: 'done' })
    assert.deepInclude(renamed?.detail, { name: 'Renamed', filters: ['mode=live', 'status=undelivered'] })
    await hub.run(Views.remove, { id: view.id }, oleg)
    const [deleted] = await linesOf('views delete')
    assert.deepInclude(deleted?.detail, { name: 'Renamed', list: 'messages' })
    assert.strictEqual(await hub.refusal(Views.get, { id: view.id }, sam), 'view_not_found')
  })

  it('becomes private to its owner when it is not shared any more', async () => {
    const view = await hub.run(Views.save, { ...FAILED, name: 'For a while', shared: true }, sam)
    await hub.run(Views.change, { id: view.id, name: null, shared: false }, oleg)
    assert.notInclude(await namesFor(oleg), 'For a while')
    assert.include(await namesFor(sam), 'For a while')
  })

  it('of a list that the role does not permit is not shown, and says so', async () => {
    const trail = {
      list: 'audit',
      name: 'Retries',
      filters: { command: 'dead-letters' },
      shared: true,
    } as const
    const view = await hub.run(Views.save, trail, oleg)
    assert.include(await namesFor(oleg, 'audit'), 'Retries')
    assert.notInclude(await namesFor(oleg, 'messages'), 'Retries')
    assert.notInclude(await namesFor(ira), 'Retries')
    assert.strictEqual(await hub.refusal(Views.get, { id: view.id }, ira), 'audit.read')
    assert.strictEqual(await hub.refusal(Views.save, { ...trail, name: 'More' }, sam), 'audit.read')
  })
})

describe('the filters of a view', () => {
  it('must be those of its list', async () => {
    const refusal = (filters: Readonly<Record<string, string>>) =>
      hub.refusal(Views.save, { ...FAILED, name: 'Wrong', filters }, vera)
    for (const filters of [
      { colour: 'red' },
      { status: 'lost' },
      { limit: '10' },
      { cursor: 'abc' },
      { created_after: 'yesterday' },
      { constructor: 'x' },
    ]) {
      assert.strictEqual(await refusal(filters), 'input_invalid', JSON.stringify(filters))
    }
    const attempts = { webhook_endpoint: encodeId('we', randomUUID()), response_code: '503' }
    const view = await hub.run(
      Views.save,
      { list: 'attempts', name: 'Failures', filters: attempts, shared: false },
      vera,
    )
    assert.deepStrictEqual(view.filters, attempts)
  })

  it('that are not valid any more are named', async () => {
    const account = await hub.account('Gone')
    const view = await hub.run(
      Views.save,
      { ...FAILED, name: 'Of an account', filters: { account: account.id } },
      vera,
    )
    const problem = async () => (await hub.run(Views.get, { id: view.id }, vera)).problem
    assert.isNull(await problem())
    await hub.sql`DELETE FROM command.accounts WHERE id = ${account.uuid}`
    assert.deepStrictEqual(await problem(), { code: 'account_deleted', filter: 'account' })
    const store = (filters: object) =>
      hub.sql`UPDATE command.saved_views SET filters = ${JSON.stringify(filters)}::text::jsonb WHERE id = ${view.id}`
    await store({ colour: 'red' })
    assert.deepStrictEqual(await problem(), { code: 'filter_unknown', filter: 'colour' })
    await store({ status: 'lost' })
    assert.deepStrictEqual(await problem(), { code: 'filter_invalid', filter: 'status' })
    await store({ webhook_endpoint: encodeId('we', randomUUID()) })
    await hub.sql`UPDATE command.saved_views SET list = 'attempts' WHERE id = ${view.id}`
    assert.deepStrictEqual(await problem(), { code: 'subscription_deleted', filter: 'webhook_endpoint' })
    await hub.sql`UPDATE command.saved_views SET list = 'of another version' WHERE id = ${view.id}`
    assert.notInclude(await namesFor(vera), 'Of an account')
    assert.strictEqual(await hub.refusal(Views.get, { id: view.id }, vera), 'view_outdated')
  })

  it('have a limited number of views', async () => {
    await hub.sql`INSERT INTO command.saved_views (id, name, list, filters, shared, owner_id, owner)
      SELECT gen_random_uuid(), 'view ' || n, 'messages', '{}', false, ${ira.id}, 'ira' FROM generate_series(1, 200) AS n`
    assert.strictEqual(await hub.refusal(Views.save, { ...FAILED, name: 'One more' }, ira), 'too_many_views')
  })
})
