/** The commands for opt-outs, erasures, hub limits and webhooks, over PostgreSQL and Redis. */
import { randomUUID } from 'node:crypto'
import { decodeId, encodeId } from '@hub/domain'
import { decodeOutboxRow, topicNames } from '@hub/kafka'
import { Result } from 'effect'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import { makeTestHub, type TestHub } from '../testing/test-hub.ts'

let hub: TestHub

beforeAll(async () => {
  hub = await makeTestHub()
})
afterAll(() => hub.remove())

const NUMBER = '+79001234567'

describe('an erasure by two persons', () => {
  it('is requested by one, listed, and confirmed by another', async () => {
    const careful = await makeTestHub({ HUB_ERASURE_PERSONS: '2' })
    try {
      const asked = await careful.succeed<{ readonly id: string; readonly status: string }>([
        'recipients',
        'erase',
        NUMBER,
        '--reason',
        'Letter of today',
        '--yes',
      ])
      assert.strictEqual(asked.status, 'waiting')
      const { data } = await careful.succeed<{ readonly data: ReadonlyArray<{ readonly id: string }> }>([
        'recipients',
        'requests',
      ])
      assert.deepStrictEqual(
        data.map(({ id }) => id),
        [asked.id],
      )
      const confirm = ['recipients', 'confirm', asked.id, '--yes', '--json']
      assert.strictEqual(await careful.refusal(confirm.slice(0, -1)), 'same_person')
      const confirmed = await careful.runAs('boris', confirm)
      assert.strictEqual(confirmed.code, 0, confirmed.err)
      assert.include(confirmed.json<object>(), { object: 'erasure', recipient: careful.hashOf(NUMBER) })
    } finally {
      await careful.remove()
    }
  })
})

describe('opt-outs', () => {
  const isOptedOut = async (number: string) =>
    (await hub.succeed<{ readonly opted_out: boolean }>(['opt-outs', 'check', number])).opted_out

  it('are added and removed by the hash of the number', async () => {
    assert.isFalse(await isOptedOut(NUMBER))
    assert.include(await hub.succeed<object>(['opt-outs', 'add', NUMBER]), { added: true })
    assert.include(await hub.succeed<object>(['opt-outs', 'add', '-'], `${NUMBER}\n`), { added: false })
    assert.isTrue(await isOptedOut(NUMBER))
    const { data } = await hub.succeed<{ readonly data: ReadonlyArray<object> }>(['opt-outs', 'list'])
    assert.lengthOf(data, 1)
    assert.include(data[0], { recipient: hub.hashOf(NUMBER), source: 'operator' })
    assert.strictEqual(await hub.refusal(['opt-outs', 'lift', NUMBER]), 'confirmation_required')
    await hub.succeed(['opt-outs', 'lift', NUMBER, '--yes'])
    assert.isFalse(await isOptedOut(NUMBER))
    const { history } = await hub.succeed<{
      readonly history: ReadonlyArray<{ change: string; source: string; word: string | null; actor: string }>
    }>(['opt-outs', 'check', NUMBER])
    assert.deepStrictEqual(
      history.map(({ change, source, word }) => ({ change, source, word })),
      [
        { change: 'opted_out', source: 'operator', word: null },
        { change: 'opted_in', source: 'operator', word: null },
      ],
    )
    for (const { actor } of history) assert.isNotEmpty(actor)
    assert.strictEqual(await hub.refusal(['opt-outs', 'lift', NUMBER, '--yes']), 'not_opted_out')
    assert.strictEqual(await hub.refusal(['opt-outs', 'add', '89001234567']), 'usage')
  })

  it('are imported from a list, completely or not at all', async () => {
    const list = `number;since\n"+79001110001";2025\n+79001110002;2024\n\n+79001110002;2026\n`
    const wrong = `${list}79001110003;2026\n`
    assert.strictEqual(await hub.refusal(['opt-outs', 'import', '-', '--yes'], wrong), 'usage')
    assert.isFalse(await isOptedOut('+79001110001'))
    const counts = (text: string, ...words: ReadonlyArray<string>) =>
      hub.succeed<object>(['opt-outs', 'import', '-', '--yes', ...words], text)
    assert.include(await counts(list), { numbers: 2, added: 2, known: 0, bad_lines: 0 })
    assert.include(await counts(wrong, '--skip-bad-lines'), { numbers: 2, added: 0, known: 2, bad_lines: 1 })
    assert.isTrue(await isOptedOut('+79001110001'))
    assert.strictEqual(await hub.refusal(['opt-outs', 'import', '-'], list), 'confirmation_required')
    assert.strictEqual(await hub.refusal(['opt-outs', 'import', '/nonexistent', '--yes']), 'file_unreadable')
  })
})

describe('recipients', () => {
  it('are erased with a receipt without the phone number', async () => {
    const other = '+79007654321'
    for (const number of [NUMBER, other]) {
      await hub.sql`INSERT INTO read.personal_data (message_id, recipient, created_at, sealed)
        VALUES (${randomUUID()}, decode(${hub.hashOf(number)}, 'hex'), now() - interval '1 day', 'x'::bytea)`
    }
    assert.strictEqual(await hub.refusal(['recipients', 'erase', NUMBER]), 'confirmation_required')
    const receipt = await hub.succeed<Readonly<Record<string, unknown>>>([
      'recipients',
      'erase',
      NUMBER,
      '--yes',
    ])
    assert.include(receipt, { recipient: hub.hashOf(NUMBER), status: 'cleared' })
    assert.deepStrictEqual(receipt['removed'], {
      numbers_and_texts: 1,
      ledger_rows: 0,
      keys_of_replies: 0,
    })
    const left = await hub.sql`SELECT encode(recipient, 'hex') AS recipient FROM read.personal_data`
    assert.deepStrictEqual(
      left.map((row) => row['recipient'] as string),
      [hub.hashOf(other)],
    )
    const { data } = await hub.succeed<{ readonly data: ReadonlyArray<object> }>(
      ['recipients', 'receipts', '-'],
      NUMBER,
    )
    assert.deepStrictEqual(data, [receipt])

    // Only the hash or the receipt may be left of the number.
    const id = String(receipt['id'])
    for (const again of [hub.hashOf(NUMBER), id]) {
      assert.include(await hub.succeed<object>(['recipients', 'erase', again, '--yes']), { id })
    }
    const fromReceipt = await hub.succeed<object>(
      ['recipients', 'erase', '-', '--yes'],
      JSON.stringify(receipt),
    )
    assert.include(fromReceipt, { id, recipient: hub.hashOf(NUMBER), recorded_at: null })
    assert.strictEqual(await hub.refusal(['recipients', 'erase', randomUUID(), '--yes']), 'unknown_receipt')
    assert.strictEqual(await hub.refusal(['recipients', 'erase', 'somebody', '--yes']), 'usage')
  })
})

describe('hub', () => {
  it('has a daily limit', async () => {
    const before = await hub.succeed<object>(['hub', 'show'])
    assert.include(before, { daily_limit: null, stopped: false, accepted_today: 0 })
    assert.include(await hub.succeed<object>(['hub', 'limit', '2000000']), { daily_limit: 2_000_000 })
    assert.strictEqual(await hub.refusal(['hub', 'limit', '0']), 'confirmation_required')
    assert.strictEqual(await hub.refusal(['hub', 'limit', 'much']), 'usage')
    assert.include(await hub.succeed<object>(['hub', 'limit', 'none']), { daily_limit: null })
  })

  it('shows by how much a day is above its limit', async () => {
    await hub.succeed(['hub', 'limit', '3', '--yes'])
    try {
      assert.include(await hub.succeed<object>(['hub', 'show']), { accepted_today: 0, above_limit: 0 })
      // A batch that began below the limit.
      await hub.countAccepted(3)
      assert.include(await hub.succeed<object>(['hub', 'show']), { accepted_today: 3, above_limit: 0 })
      assert.notInclude((await hub.run(['hub', 'show'])).out, 'above')
      await hub.countAccepted(2)
      assert.include(await hub.succeed<object>(['hub', 'show']), {
        daily_limit: 3,
        accepted_today: 5,
        above_limit: 2,
      })
      assert.match((await hub.run(['hub', 'show'])).out, /^accepted \d{4}-\d\d-\d\d +5, 2 above the limit$/mu)
    } finally {
      await hub.succeed(['hub', 'limit', 'none'])
    }
    assert.include(await hub.succeed<object>(['hub', 'show']), { accepted_today: 5, above_limit: 0 })
  })

  it('can be stopped for some time, and resumed', async () => {
    assert.strictEqual(await hub.refusal(['hub', 'stop', '--for', '30m']), 'confirmation_required')
    assert.strictEqual(await hub.refusal(['hub', 'stop', '--for', '30 minutes']), 'usage')
    const stopped = await hub.succeed<{ readonly stopped: boolean; readonly stopped_until: string }>([
      'hub',
      'stop',
      '--for',
      '30m',
      '--yes',
    ])
    assert.include(stopped, { stopped: true })
    assert.isAbove(Date.parse(stopped.stopped_until), Date.now() + 25 * 60_000)
    assert.include(await hub.succeed<object>(['hub', 'resume']), { stopped: false, stopped_until: null })
    assert.strictEqual(await hub.refusal(['hub', 'resume']), 'not_stopped')
  })
})

describe('webhooks', () => {
  let subscriptionId: string
  beforeAll(async () => {
    const account = await hub.succeed<{ readonly id: string }>(['accounts', 'create', 'Shop'])
    const uuid = randomUUID()
    subscriptionId = encodeId('we', uuid)
    await hub.sql`
      INSERT INTO webhooks.endpoints (id, account, mode, url, secret, status, consecutive_failures, disabled_at, disabled_reason)
      VALUES (${uuid}, ${decodeId('acc', account.id)}, 'test', 'https://example.com/hook', 'x'::bytea,
              'disabled_by_failures', 20, now(), 'timeout')`
  })

  // Rules: DEL-27
  it('are enabled once, with one record for the fan-out and one event', async () => {
    const disabled = () =>
      hub.succeed<{ readonly data: ReadonlyArray<{ readonly id: string }> }>([
        'webhooks',
        'list',
        '--status',
        'disabled_by_failures',
      ])
    assert.deepStrictEqual(
      (await disabled()).data.map(({ id }) => id),
      [subscriptionId],
    )
    assert.include(await hub.succeed<object>(['webhooks', 'enable', subscriptionId]), { changed: true })
    assert.include(await hub.succeed<object>(['webhooks', 'enable', subscriptionId]), { changed: false })
    assert.lengthOf((await disabled()).data, 0)
    const rows = await hub.sql`SELECT records FROM command.outbox`
    assert.lengthOf(rows, 1)
    const events = await hub.sql`SELECT type, object ->> 'id' AS id FROM command.event_inbox`
    assert.deepStrictEqual([...events], [{ type: 'webhook.endpoint_enabled', id: subscriptionId }])
    const records = Result.getOrThrow(decodeOutboxRow(rows[0]?.['records'] as Buffer))
    assert.strictEqual(records[0]?.topic, topicNames('').webhooks)
    assert.strictEqual(
      await hub.refusal(['webhooks', 'enable', 'we_00000000000000000000000000']),
      'subscription_not_found',
    )
  })

  it('can get the events of a period again', async () => {
    const words = [
      'webhooks',
      'redeliver',
      subscriptionId,
      '--from',
      '2026-11-20T08:00Z',
      '--until',
      '2026-11-20',
    ]
    assert.strictEqual(await hub.refusal([...words, '--yes']), 'period_empty')
    const period = ['--from', '2026-11-20', '--until', '2026-11-20T12:00Z']
    assert.strictEqual(
      await hub.refusal(['webhooks', 'redeliver', subscriptionId, ...period]),
      'confirmation_required',
    )
    const asked = await hub.succeed<{ readonly id: string; readonly from: string; readonly until: string }>([
      'webhooks',
      'redeliver',
      subscriptionId,
      ...period,
      '--yes',
    ])
    assert.include(asked, { from: '2026-11-20T00:00:00.000Z', until: '2026-11-20T12:00:00.000Z' })
    assert.include(await hub.succeed<object>(['webhooks', 'redelivery', asked.id]), {
      events: 0,
      pending: 0,
    })
    assert.strictEqual(await hub.refusal(['webhooks', 'redelivery', randomUUID()]), 'redelivery_not_found')
    const event = ['webhooks', 'redeliver-event', subscriptionId, 'evt_01m7yt89qhe54swwc8wkxj6n8e']
    assert.strictEqual(await hub.refusal(event), 'confirmation_required')
    assert.strictEqual(await hub.refusal([...event, '--yes']), 'event_not_found')
  })
})

describe('the audit trail', () => {
  it('records each command that changes something or reads data of a person, without phone numbers', async () => {
    const trail = await hub.run(['audit', 'list', '--limit', '1000', '--json'])
    const commands = new Set(
      trail
        .json<{ readonly data: ReadonlyArray<{ readonly command: string }> }>()
        .data.map(({ command }) => command),
    )
    assert.deepStrictEqual([...commands].sort(), [
      'accounts create',
      'hub limit',
      'hub resume',
      'hub stop',
      'opt-outs add',
      'opt-outs check',
      'opt-outs import',
      'opt-outs lift',
      'recipients erase',
      'recipients receipts',
      'webhooks enable',
      'webhooks redeliver',
      'webhooks redeliver-event',
    ])
    assert.include(trail.out, hub.hashOf(NUMBER))
    const [row] = await hub.sql`SELECT string_agg(audit::text, ' ') AS text FROM command.audit`
    for (const text of [trail.out, row?.['text'] as string]) {
      assert.notMatch(text, /79001234567|79001110001/u)
    }
  })
})
