/** Opt-outs and the audit trail over PostgreSQL: pages, roles, and who is recorded. */
import { randomBytes } from 'node:crypto'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import type { Actor } from './actor.ts'
import * as Audit from './audit.ts'
import * as OptOuts from './opt-outs.ts'
import { makeTestDatabase, readPages, type TestDatabase } from './testing/test-database.ts'

const SUPPORT: Actor = { id: 'https://id.example|sam', name: 'sam', roles: ['support'], via: 'api' }
const ADMIN: Actor = { id: 'https://id.example|ada', name: 'ada', roles: ['admin'], via: 'api' }

let database: TestDatabase
const recipients = [1, 2, 3].map(() => randomBytes(32).toString('hex'))

beforeAll(async () => {
  database = await makeTestDatabase()
  await database.run(SUPPORT, OptOuts.importList, { recipients, bad_lines: 0 })
})
afterAll(() => database.remove())

describe('opt-outs', () => {
  it('are listed in pages, each once, also if they have the same time', async () => {
    const listed = await readPages((page) =>
      database.run(SUPPORT, OptOuts.list, { source: 'import', since: null, ...page }),
    )
    assert.deepStrictEqual(
      listed.map(({ recipient }) => recipient),
      recipients.toSorted(),
    )
  })

  it('are counted once for a list, and not for each page', async () => {
    const read = (cursor: string | null) =>
      database.run(SUPPORT, OptOuts.list, { source: null, since: null, limit: 1, cursor })
    const first = await read(null)
    assert.strictEqual(first.total, recipients.length)
    const recipient = randomBytes(32).toString('hex')
    await database.run(SUPPORT, OptOuts.add, { recipient })
    assert.strictEqual((await read(first.next_cursor)).total, recipients.length)
    assert.strictEqual((await read(null)).total, recipients.length + 1)
  })

  // Rules: OPT-4
  it('are lifted once, and the record names who did it', async () => {
    const [recipient = ''] = recipients
    await database.run(SUPPORT, OptOuts.lift, { recipient })
    assert.include(await database.refusal(SUPPORT, OptOuts.lift, { recipient }), { code: 'not_opted_out' })
    const changes = await database.sql<{ change: string; actor: string }[]>`
      SELECT change, actor FROM command.opt_out_history
       WHERE recipient = decode(${recipient}, 'hex') ORDER BY id`
    assert.deepStrictEqual(
      changes.map(({ actor, change }) => [change, actor]),
      [
        ['opted_out', 'sam'],
        ['opted_in', 'sam'],
      ],
    )
  })
})

describe('the audit trail', () => {
  it('is listed in pages, newest first, for those who may read it', async () => {
    const page = { actor: 'sam', command: null }
    assert.include(await database.refusal(SUPPORT, Audit.list, { ...page, limit: 1, cursor: null }), {
      permission: 'audit.read',
    })
    const lines = await readPages((next) => database.run(ADMIN, Audit.list, { ...page, ...next }))
    assert.deepStrictEqual(
      lines.map(({ command, outcome, role }) => [command, outcome, role]),
      [
        ['opt-outs lift', 'failed', 'support'],
        ['opt-outs lift', 'done', 'support'],
        ['opt-outs add', 'done', 'support'],
        ['opt-outs import', 'done', 'support'],
      ],
    )
  })
})
