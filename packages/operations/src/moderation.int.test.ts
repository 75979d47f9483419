/** Moderation over PostgreSQL: the pages of the queues, and the decisions. */
import { randomUUID } from 'node:crypto'
import { encodeId } from '@hub/domain'
import { CommandSenders, CommandTemplates, type Sql } from '@hub/store'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import type { Actor } from './actor.ts'
import * as Senders from './senders.ts'
import * as Templates from './templates.ts'
import { makeTestDatabase, readPages, type TestDatabase } from './testing/test-database.ts'
import type { UseCase } from './use-case.ts'

const MODERATOR: Actor = { id: 'https://id.example|mo', name: 'mo', roles: ['moderator'], via: 'api' }

let database: TestDatabase

beforeAll(async () => {
  database = await makeTestDatabase()
  const { sql } = database
  const { uuid } = await database.account('Online shop')
  const shop = { account: uuid, mode: 'live', name: 'SHOP', registration: '{"company": "Shop"}' } as const
  await CommandSenders.insert(sql, { ...shop, id: randomUUID(), status: 'pending' })
  for (const name of ['first', 'second', 'third']) {
    await CommandTemplates.insert(sql, {
      id: randomUUID(),
      account: uuid,
      mode: 'live',
      name,
      class: 'service',
      sender: 'SHOP',
      body: 'Order {{order}}',
      language: null,
      status: 'pending_moderation',
    })
  }
  // Rows of one transaction have the same time: then the id orders them.
  await sql`UPDATE command.templates SET created_at = '2026-11-21T10:00:00Z' WHERE name <> 'third'`
})

afterAll(() => database.remove())

const run = <Input, Output, E>(useCase: UseCase<Input, Output, E, Sql>, input: Input) =>
  database.run(MODERATOR, useCase, input)

const refusal = <Input, Output, E>(useCase: UseCase<Input, Output, E, Sql>, input: Input) =>
  database.refusal(MODERATOR, useCase, input)

describe('moderation', () => {
  it('shows a queue in pages, oldest first, each row once', async () => {
    const rows = await readPages((page) => run(Templates.queue, { account: null, ...page }))
    const names = rows.map(({ name }) => name)
    assert.sameMembers(names, ['first', 'second', 'third'])
    assert.strictEqual(names[2], 'third')
  })

  it('records a decision once, with the event to the account, and takes the row out of the queue', async () => {
    const page = { account: null, limit: 10, cursor: null }
    const [sender] = (await run(Senders.queue, page)).data
    assert.deepInclude(sender, { name: 'SHOP', registration: { company: 'Shop' }, status: 'pending' })
    const id = sender?.id ?? ''
    assert.include(await run(Senders.approve, { id }), { id, status: 'registered' })
    assert.deepStrictEqual((await run(Senders.queue, page)).data, [])
    assert.include(await refusal(Senders.approve, { id }), { code: 'already_decided' })
    const told = await database.sql<{ type: string }[]>`SELECT type FROM command.event_inbox`
    assert.deepStrictEqual(
      told.map(({ type }) => type),
      ['sender.registered'],
    )
  })

  it('shows a declined template with the reason, and finds it by its status', async () => {
    const [template] = (await run(Templates.queue, { account: null, limit: 1, cursor: null })).data
    const id = template?.id ?? ''
    assert.include(template?.preview, { text: 'Order 1001', parts: 1 })
    assert.isAtLeast(template?.waiting_seconds ?? -1, 0)
    await run(Templates.decline, { id, reason: 'It names no sender' })
    assert.include(await run(Templates.get, { id }), {
      status: 'declined',
      reason: 'It names no sender',
      sender_status: 'registered',
    })
    const declined = { account: null, mode: null, status: 'declined', limit: 10, cursor: null } as const
    assert.deepStrictEqual(
      (await run(Templates.list, declined)).data.map((row) => row.id),
      [id],
    )
  })

  it('says who decided and when, also to a person who decides the same again', async () => {
    const [template] = (await run(Templates.queue, { account: null, limit: 1, cursor: null })).data
    const id = template?.id ?? ''
    assert.isNull((await run(Templates.get, { id })).decision)
    const before = new Date().toISOString()
    await run(Templates.approve, { id })
    const { decision } = await run(Templates.get, { id })
    assert.strictEqual(decision?.by, 'mo')
    assert.isAtLeast(Date.parse(decision?.at ?? ''), Date.parse(before) - 60_000)
    const again = await refusal(Templates.approve, { id })
    assert.deepInclude(again, { code: 'already_decided', details: { ...decision } })
    // The last decision counts.
    await run(Templates.decline, { id, reason: 'The sender is unknown' })
    assert.notDeepEqual((await run(Templates.get, { id })).decision, decision)
    const [sender] = (
      await run(Senders.list, { account: null, mode: null, status: null, limit: 1, cursor: null })
    ).data
    assert.strictEqual((await run(Senders.get, { id: sender?.id ?? '' })).decision?.by, 'mo')
  })

  it('knows no template of another id', async () => {
    const id = encodeId('tpl', randomUUID())
    for (const useCase of [Templates.get, Templates.approve]) {
      assert.include(await refusal<{ readonly id: string }, unknown, unknown>(useCase, { id }), {
        code: 'template_not_found',
      })
    }
  })
})
