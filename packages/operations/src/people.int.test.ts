/** Opt-outs and erasures of recipients over PostgreSQL. */
import { CommandOptOuts, uuidOf } from '@hub/store'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import type { Actor } from './actor.ts'
import * as Erasures from './erasures.ts'
import { check } from './opt-out-history.ts'
import { readNewest } from './tables/audit.ts'
import { makeTestHub, NUMBER, type TestHub } from './testing/test-hub.ts'

const ANNA: Actor = { id: 'https://id.example|anna', name: 'anna', roles: ['operator'], via: 'api' }
const BORIS: Actor = { id: 'https://id.example|boris', name: 'boris', roles: ['operator'], via: 'api' }
const SUPPORT: Actor = { id: 'https://id.example|sam', name: 'sam', roles: ['support'], via: 'api' }
const REASON = 'Letter of 21 November'

let one: TestHub
let two: TestHub
beforeAll(async () => {
  ;[one, two] = await Promise.all([makeTestHub(), makeTestHub({ HUB_ERASURE_PERSONS: '2' })])
})
afterAll(() => Promise.all([one?.remove(), two?.remove()]))

const numbersStored = async (hub: TestHub, message: string): Promise<number> =>
  (await hub.sql`SELECT 1 FROM read.personal_data WHERE message_id = ${uuidOf('msg', message)}`).length

describe('the check of an opt-out', () => {
  it('shows each change with its word or its author', async () => {
    const hash = one.hashOf(NUMBER)
    await CommandOptOuts.insert(one.sql, [hash], 'operator', 'sam')
    await CommandOptOuts.insertChanges(one.sql, [
      { change: 'opted_out', recipient: hash, at: Date.now(), word: 'STOP' },
    ])
    const shown = await one.run(check, { recipient: NUMBER }, SUPPORT)
    assert.isTrue(shown.opted_out)
    assert.deepStrictEqual(
      shown.history.map(({ actor, change, source, word }) => [change, source, word, actor]),
      [
        ['opted_out', 'operator', null, 'sam'],
        ['opted_out', 'inbound', 'STOP', null],
      ],
    )
    const [row] = await readNewest(one.sql, {
      actor: 'sam',
      command: 'opt-outs check',
      before: null,
      limit: 1,
    })
    assert.deepInclude(row, { arguments: { by: 'number' }, detail: { recipient: hash, opted_out: true } })
    assert.strictEqual(await one.refusal(check, { recipient: 'nobody' }, SUPPORT), 'recipient_invalid')
  })
})

describe('an erasure', () => {
  it('needs one person by default, and has a receipt', async () => {
    const { uuid } = await one.account('Online shop')
    const message = await one.message({ account: uuid })
    const outcome = await one.run(Erasures.request, { recipient: NUMBER, reason: REASON }, ANNA)
    assert.isNull(outcome.request)
    assert.strictEqual(outcome.receipt?.removed.numbers_and_texts, 1)
    assert.strictEqual(await numbersStored(one, message), 0)
    const { data } = await one.run(Erasures.receipts, { recipient: outcome.receipt?.id ?? '' }, ANNA)
    assert.deepStrictEqual(
      data.map(({ id }) => id),
      [outcome.receipt?.id],
    )
    const [row] = await readNewest(one.sql, {
      actor: 'anna',
      command: 'recipients erase',
      before: null,
      limit: 1,
    })
    assert.deepInclude(row, { reason: REASON, arguments: { by: 'number' } })
    assert.deepInclude(row?.detail, { recipient: one.hashOf(NUMBER), receipt: outcome.receipt?.id })
  })

  it('of two persons erases nothing before another person confirms it', async () => {
    const { uuid } = await two.account('Online shop')
    const message = await two.message({ account: uuid })
    const asked = await two.run(Erasures.request, { recipient: NUMBER, reason: REASON }, ANNA)
    assert.isNull(asked.receipt)
    assert.deepInclude(asked.request, { status: 'waiting', requested_by: 'anna', reason: REASON })
    const id = asked.request?.id ?? ''
    const again = await two.run(Erasures.request, { recipient: NUMBER, reason: REASON }, BORIS)
    assert.strictEqual(again.request?.id, id)
    assert.strictEqual(await two.refusal(Erasures.confirm, { id }, ANNA), 'same_person')
    assert.strictEqual(await two.refusal(Erasures.confirm, { id }, SUPPORT), 'erasures.confirm')
    assert.strictEqual(await numbersStored(two, message), 1)
    const page = await two.run(Erasures.requests, { open: true, limit: 10, cursor: null }, ANNA)
    assert.deepStrictEqual(
      page.data.map((request) => request.id),
      [id],
    )
    const done = await two.run(Erasures.confirm, { id }, BORIS)
    assert.deepInclude(done.request, {
      status: 'confirmed',
      confirmed_by: 'boris',
      receipt: done.receipt?.id ?? null,
    })
    assert.strictEqual(done.receipt?.removed.numbers_and_texts, 1)
    assert.strictEqual(await numbersStored(two, message), 0)
    assert.strictEqual(await two.refusal(Erasures.confirm, { id }, BORIS), 'already_confirmed')
    const open = await two.run(Erasures.requests, { open: true, limit: 10, cursor: null }, ANNA)
    assert.deepStrictEqual(open.data, [])
  })

  it('of two persons cannot be confirmed after a week, and can be requested again', async () => {
    const number = '+79000000044'
    const asked = await two.run(Erasures.request, { recipient: number, reason: REASON }, ANNA)
    const id = asked.request?.id ?? ''
    await two.sql`UPDATE command.erasure_requests SET expires_at = now() - interval '1 second' WHERE id = ${id}`
    assert.strictEqual(await two.refusal(Erasures.confirm, { id }, BORIS), 'erasure_request_expired')
    const again = await two.run(Erasures.request, { recipient: number, reason: REASON }, BORIS)
    assert.notStrictEqual(again.request?.id, id)
    assert.strictEqual(again.request?.requested_by, 'boris')
  })

  it('of two persons cannot be confirmed by the same person in the database either', async () => {
    const asked = await two.run(Erasures.request, { recipient: '+79000000045', reason: REASON }, ANNA)
    const update = two.sql`
      UPDATE command.erasure_requests SET confirmed_by = 'boris', confirmed_by_id = requested_by_id, confirmed_at = now() WHERE id = ${asked.request?.id ?? ''}`
    const error = await update.then(
      () => null,
      (failure: Error) => failure.message,
    )
    assert.include(error ?? '', 'erasure_requests_two_identities')
  })
})
