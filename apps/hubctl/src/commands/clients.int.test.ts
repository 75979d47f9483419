/** The commands for accounts, keys, certification and moderation, over PostgreSQL and Redis. */
import { randomUUID } from 'node:crypto'
import { API_KEY_PATTERN, apiKeyDigest, CONFIRMATION_NAMES, decodeId } from '@hub/domain'
import { eventually } from '@hub/testkit'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import { makeTestHub, type TestHub } from '../testing/test-hub.ts'

let hub: TestHub
let account: string
let uuid: string

interface Issued {
  readonly id: string
  readonly key: string
  readonly allowed_addresses: ReadonlyArray<string> | null
}

beforeAll(async () => {
  hub = await makeTestHub()
  const made = await hub.succeed<{ readonly id: string }>(['accounts', 'create', 'Online shop'])
  account = made.id
  uuid = decodeId('acc', account) ?? ''
})
afterAll(() => hub.remove())

const NOBODY = 'acc_00000000000000000000000000'

describe('accounts', () => {
  it('are listed with their keys, and shown with their effective settings', async () => {
    const { data } = await hub.succeed<{ readonly data: ReadonlyArray<object> }>(['accounts', 'list'])
    assert.include(data[0], {
      id: account,
      name: 'Online shop',
      test_keys: 0,
      live_keys: 0,
      test_weight: 1,
      live_weight: 1,
      certified: false,
    })
    const shown = await hub.run(['accounts', 'show', account])
    assert.match(shown.out, /api_rps +100 +100 +Requests per second/u)
    assert.strictEqual(await hub.refusal(['accounts', 'show', NOBODY]), 'account_not_found')
  })

  it('are listed also if PostgreSQL answers after 2.5 s, the deadline of a client', async () => {
    const { listing } = await hub.sql.begin(async (locking) => {
      await locking`LOCK TABLE command.accounts IN ACCESS EXCLUSIVE MODE`
      const isLate = async () => {
        const late = await hub.sql`
          SELECT 1 FROM pg_stat_activity
          WHERE datname = current_database() AND application_name = 'hubctl'
            AND wait_event_type = 'Lock' AND query_start < now() - interval '3 seconds'`
        return late.length > 0
      }
      const running = hub.run(['accounts', 'list'])
      await Promise.race([running, eventually(isLate)])
      return { listing: running }
    })
    const { code, err } = await listing
    assert.strictEqual(code, 0, err)
  })

  it('have overrides for one mode, and defaults after --unset', async () => {
    const set = (...words: ReadonlyArray<string>) =>
      hub.succeed<{
        readonly modes: ReadonlyArray<{
          readonly mode: string
          readonly in_force: Readonly<Record<string, unknown>>
          readonly overridden: ReadonlyArray<string>
        }>
      }>(['accounts', 'set', account, ...words])
    const words = ['--api-rps', '500', '--spend-limit', '1500.5', '--soft-threshold-percent', '90']
    const [first] = (await set(...words, '--flood-pause-seconds', '0')).modes
    assert.deepInclude(first, {
      mode: 'live',
      overridden: ['api_rps', 'flood_pause_seconds', 'spend_limit', 'soft_threshold_percent'],
    })
    assert.include(first?.in_force, { api_rps: 500, batch_max: 1000, spend_limit: '1500.50' })
    // Other settings do not change.
    const [second] = (await set('--batch-max', '5000', '--unset', 'api_rps')).modes
    assert.include(second?.in_force, { api_rps: 100, batch_max: 5000, spend_limit: '1500.50' })
    const [test] = (await set('--mode', 'test', '--flood-per-hour', '7')).modes
    assert.deepInclude(test, { mode: 'test', overridden: ['flood_per_hour'] })
    const [weighted] = (await set('--weight', '100')).modes
    assert.include(weighted?.in_force, { weight: 100 })
    const { data } = await hub.succeed<{ readonly data: ReadonlyArray<object> }>(['accounts', 'list'])
    assert.include(data[0], { id: account, test_weight: 1, live_weight: 100 })
    for (const weight of ['0', '101', '1.5', '-1', 'much']) {
      const refused = await hub.run(['accounts', 'set', account, '--weight', weight])
      assert.strictEqual(refused.code, 2, weight)
      assert.match(refused.err, /weight/u)
    }
    assert.strictEqual(await hub.refusal(['accounts', 'set', account]), 'usage')
    assert.strictEqual(
      await hub.refusal(['accounts', 'set', account, '--api-rps', '5', '--unset', 'api_rps']),
      'usage',
    )
    assert.strictEqual(
      await hub.refusal(['accounts', 'set', account, '--mode', 'test', '--spend-limit', '5']),
      'usage',
    )
    assert.strictEqual(await hub.refusal(['accounts', 'set', account, '--spend-limit', '5,50']), 'usage')
    assert.strictEqual(await hub.refusal(['accounts', 'set', NOBODY, '--api-rps', '5']), 'account_not_found')
  })

  it('reset the spend of the month after confirmation', async () => {
    await hub.sql`INSERT INTO command.spend_periods (account, period, spent)
      VALUES (${uuid}, date_trunc('month', now() AT TIME ZONE 'UTC')::date, 812.5)`
    assert.strictEqual(await hub.refusal(['accounts', 'reset-spend', account]), 'confirmation_required')
    const reset = await hub.succeed<object>(['accounts', 'reset-spend', account, '--yes'])
    assert.include(reset, { struck_off: '812.50', currency: 'RUB' })
    const [row] = await hub.sql`SELECT spent::text FROM command.spend_periods WHERE account = ${uuid}`
    assert.strictEqual(row?.['spent'], '0.00')
  })
})

describe('the backlog of accounts', () => {
  it('has the waiting messages and the longest wait of each account, mode and class', async () => {
    const other = await hub.succeed<{ readonly id: string }>(['accounts', 'create', 'Bank'])
    await hub.succeed(['accounts', 'set', other.id, '--mode', 'test', '--weight', '5'])
    const insert = (of: string, mode: string, messageClass: string, status: string, seconds: number) =>
      hub.sql`
        INSERT INTO read.messages (id, account, mode, class, recipient, template, sender, parts, price, currency,
                                   variables, created_at, updated_at, status, rank, final)
        SELECT overlay(gen_random_uuid()::text PLACING left(command.uuid_floor(at)::text, 13) FROM 1 FOR 13)::uuid,
               ${decodeId('acc', of)}, ${mode}, ${messageClass}, '\\x00', 'usual', 'HUB', 1, 2, 'RUB', '{}', at, at,
               ${status}, 0, false
          FROM (SELECT now() - make_interval(secs => ${seconds}) AS at) AS moment`
    for (const seconds of [5, 100]) await insert(account, 'live', 'service', 'accepted', seconds)
    await insert(account, 'live', 'otp', 'accepted', 3)
    await insert(account, 'live', 'service', 'sent', 500)
    await insert(other.id, 'test', 'service', 'accepted', 1000)
    // A message waits for a day at most.
    await insert(other.id, 'live', 'service', 'accepted', 2 * 86_400)
    interface Waiting {
      readonly account: string
      readonly name: string
      readonly mode: string
      readonly class: string
      readonly weight: number
      readonly waiting: number
      readonly longest_wait_seconds: number
    }
    const { data } = await hub.succeed<{ readonly data: ReadonlyArray<Waiting> }>(['accounts', 'backlog'])
    assert.deepStrictEqual(
      data.map(({ longest_wait_seconds: wait, ...row }) => ({ ...row, tens: Math.floor(wait / 10) })),
      [
        { account: other.id, name: 'Bank', mode: 'test', class: 'service', weight: 5, waiting: 1, tens: 100 },
        {
          account,
          name: 'Online shop',
          mode: 'live',
          class: 'service',
          weight: 100,
          waiting: 2,
          tens: 10,
        },
        { account, name: 'Online shop', mode: 'live', class: 'otp', weight: 100, waiting: 1, tens: 0 },
      ],
    )
    const of = await hub.succeed<{ readonly data: ReadonlyArray<Waiting> }>([
      'accounts',
      'backlog',
      '--account',
      other.id,
    ])
    assert.deepStrictEqual(
      of.data.map((row) => row.account),
      [other.id],
    )
    const text = await hub.run(['accounts', 'backlog'])
    assert.match(text.out, /Bank +test +service +5 +1 +\d+ s/u)
  })
})

describe('keys', () => {
  const issue = (...words: ReadonlyArray<string>) => hub.succeed<Issued>(['keys', 'issue', account, ...words])
  const listed = async (id: string, ...words: ReadonlyArray<string>) =>
    (
      await hub.succeed<{ readonly data: ReadonlyArray<Readonly<Record<string, unknown>>> }>([
        'keys',
        'list',
        '--account',
        account,
        ...words,
      ])
    ).data.find((key) => key['id'] === id)

  it('are shown once, and stored as a hash', async () => {
    const issued = await issue()
    assert.match(issued.key, API_KEY_PATTERN)
    assert.match(issued.key, /^hub_test_/u)
    const [row] = await hub.sql`
      SELECT encode(hash, 'hex') AS hash, last_four, mode FROM command.api_keys WHERE id = ${decodeId('key', issued.id)}`
    assert.deepEqual(row, {
      hash: apiKeyDigest(issued.key),
      last_four: issued.key.slice(-4),
      mode: 'test',
    })
    const list = await hub.run(['keys', 'list'])
    assert.include(list.out, issued.id)
    assert.notInclude(list.out, issued.key)
    const trail = await hub.run(['audit', 'list', '--json'])
    assert.include(trail.out, issued.id)
    assert.notInclude(trail.out, issued.key)
  })

  it('can be restricted to networks', async () => {
    const issued = await issue('--allow', '192.0.2.7', '--allow', '2001:db8::/32')
    assert.deepStrictEqual((await listed(issued.id))?.['allowed_addresses'], [
      '192.0.2.7/32',
      '2001:db8::/32',
    ])
    await hub.succeed(['keys', 'allow', issued.id, '--allow', '10.0.0.0/8'])
    assert.deepStrictEqual((await listed(issued.id))?.['allowed_addresses'], ['10.0.0.0/8'])
    await hub.succeed(['keys', 'allow', issued.id, '--anywhere'])
    assert.isNull((await listed(issued.id))?.['allowed_addresses'])
    for (const words of [
      ['--allow', '10.1.2.3/8'],
      ['--allow', 'example.com'],
      ['--allow', '10.0.0.0/33'],
      [],
    ]) {
      assert.strictEqual(await hub.refusal(['keys', 'allow', issued.id, ...words]), 'usage')
    }
  })

  it('can have scopes, which lists and the audit trail show, and a rotation keeps', async () => {
    const issued = await issue('--scope', 'read', '--scope', 'send')
    assert.deepStrictEqual((await listed(issued.id))?.['scopes'], ['send', 'read'])
    const next = await hub.succeed<Issued>(['keys', 'rotate', issued.id])
    assert.deepStrictEqual((await listed(next.id))?.['scopes'], ['send', 'read'])
    assert.deepStrictEqual((await listed((await issue()).id))?.['scopes'], ['send', 'read', 'manage'])
    const list = await hub.run(['keys', 'list', '--account', account])
    assert.match(list.out, /send, read +/u)
    const [row] = await hub.sql`
      SELECT arguments FROM command.audit WHERE command = 'keys issue' AND arguments ->> 'scopes' IS NOT NULL`
    assert.deepStrictEqual(row?.['arguments'].scopes, ['read', 'send'])
    const stored = await hub.sql`
      SELECT 1 FROM command.api_keys WHERE hash = decode(${apiKeyDigest(issued.key)}, 'hex')`
    assert.lengthOf(stored, 0)
    assert.strictEqual(await hub.refusal(['keys', 'issue', account, '--scope', 'write']), 'usage')
  })

  it('can expire, and are listed with their last use', async () => {
    const issued = await issue('--expires', '2d')
    const row = await listed(issued.id)
    assert.include(row, { works: true, last_used_at: null, last_used_from: null })
    const inDays = (Date.parse(String(row?.['expires_at'])) - Date.now()) / 86_400_000
    assert.closeTo(inDays, 2, 0.1)
    const next = await hub.succeed<Issued>(['keys', 'rotate', issued.id])
    const nextDays = (Date.parse(String((await listed(next.id))?.['expires_at'])) - Date.now()) / 86_400_000
    assert.closeTo(nextDays, 2, 0.1)
    await hub.sql`UPDATE command.api_keys SET expires_at = now(), last_used_at = now(), last_used_from = '2001:db8::7'
                   WHERE id = ${decodeId('key', next.id)}`
    assert.isUndefined(await listed(next.id))
    const expired = await listed(next.id, '--all')
    assert.include(expired, { works: false, revoked_at: null })
    assert.isString(expired?.['last_used_at'])
    assert.strictEqual(expired?.['last_used_from'], '2001:db8::7')
    await hub.sql`UPDATE command.api_keys SET last_used_at = now() - interval '366 days'
                   WHERE id = ${decodeId('key', next.id)}`
    assert.isNull((await listed(next.id, '--all'))?.['last_used_from'])
    assert.strictEqual(await hub.refusal(['keys', 'rotate', next.id]), 'key_revoked')
    assert.isNull((await listed((await issue()).id))?.['expires_at'])
    for (const words of [['0s'], ['soon'], ['9999d']]) {
      assert.strictEqual(await hub.refusal(['keys', 'issue', account, '--expires', ...words]), 'usage')
    }
  })

  it('are rotated with or without an overlap', async () => {
    const old = await issue('--allow', '192.0.2.0/24')
    const next = await hub.succeed<Issued & { readonly replaces: { readonly revoked_at: string } }>([
      'keys',
      'rotate',
      old.id,
    ])
    assert.notStrictEqual(next.key, old.key)
    assert.deepStrictEqual(next.allowed_addresses, ['192.0.2.0/24'])
    assert.include(await listed(old.id), { works: true, revoked_at: next.replaces.revoked_at })
    assert.isAbove(Date.parse(next.replaces.revoked_at), Date.now() + 23 * 3_600_000)
    // An earlier end replaces a later one, and a longer overlap does not replace an earlier end.
    assert.strictEqual(
      await hub.refusal(['keys', 'rotate', old.id, '--overlap', '0s']),
      'confirmation_required',
    )
    await hub.succeed(['keys', 'rotate', old.id, '--overlap', '0s', '--yes'])
    assert.isUndefined(await listed(old.id))
    assert.include(await listed(old.id, '--all'), { works: false })
    assert.strictEqual(await hub.refusal(['keys', 'rotate', old.id]), 'key_revoked')
  })

  it('are revoked permanently after confirmation', async () => {
    const { id } = await issue()
    assert.strictEqual(await hub.refusal(['keys', 'revoke', id]), 'confirmation_required')
    assert.include(await listed(id), { works: true })
    await hub.succeed(['keys', 'revoke', id, '--yes'])
    assert.strictEqual(await hub.refusal(['keys', 'revoke', id, '--yes']), 'key_revoked')
    assert.strictEqual(
      await hub.refusal(['keys', 'revoke', 'key_00000000000000000000000000', '--yes']),
      'key_not_found',
    )
  })
})

describe('moderation', () => {
  let template: string
  let sender: string
  beforeAll(async () => {
    sender = await hub.sender(uuid, 'live', 'SHOP')
    template = await hub.template(uuid, 'live', 'order_ready')
    await hub.sender(uuid, 'test', 'SHOP')
  })

  const queue = async (noun: string) =>
    (await hub.succeed<{ readonly data: ReadonlyArray<{ readonly id: string }> }>([noun, 'queue'])).data.map(
      ({ id }) => id,
    )
  const told = async () =>
    (await hub.sql`DELETE FROM command.event_inbox RETURNING type, object`).map((row) => [
      row['type'] as string,
      row['object'] as Readonly<Record<string, unknown>>,
    ])

  it('approves and declines a template, with one event to the account for each decision', async () => {
    assert.deepStrictEqual(await queue('templates'), [template])
    await hub.succeed(['templates', 'approve', template])
    assert.deepStrictEqual(await queue('templates'), [])
    assert.strictEqual(await hub.refusal(['templates', 'approve', template]), 'already_decided')
    await hub.succeed(['templates', 'decline', template, '--reason', 'It names no sender'])
    assert.include(await hub.succeed<object>(['templates', 'show', template]), {
      status: 'declined',
      reason: 'It names no sender',
      sender_status: 'pending',
    })
    const events = await told()
    assert.deepStrictEqual(
      events.map(([type]) => type),
      ['template.approved', 'template.declined'],
    )
    assert.include(events[1]?.[1], { id: template, status: 'declined', reason: 'It names no sender' })
    assert.notProperty(events[1]?.[1], 'body')
    assert.strictEqual(await hub.refusal(['templates', 'decline', template]), 'usage')
    assert.strictEqual(
      await hub.refusal(['templates', 'approve', 'tpl_00000000000000000000000000']),
      'template_not_found',
    )
  })

  it('registers and declines a sender', async () => {
    assert.deepStrictEqual(await queue('senders'), [sender])
    await hub.succeed(['senders', 'decline', sender, '--reason', 'The name is taken'])
    await hub.succeed(['senders', 'approve', sender])
    assert.deepInclude(await hub.succeed<object>(['senders', 'show', sender]), {
      status: 'registered',
      reason: null,
      registration: { company: 'Shop' },
    })
    assert.deepStrictEqual(
      (await told()).map(([type]) => type),
      ['sender.declined', 'sender.registered'],
    )
  })

  it('refuses a phone number in a reason', async () => {
    for (const number of ['+79001234567', '8 (900) 123-45-67', '٧٩٠٠١٢٣٤٥٦٧']) {
      const refused = await hub.refusal(['templates', 'decline', template, '--reason', `Asked ${number}`])
      assert.strictEqual(refused, 'usage')
    }
    assert.include(await hub.succeed<object>(['templates', 'show', template]), {
      reason: 'It names no sender',
    })
  })
})

describe('certification', () => {
  const confirmed = CONFIRMATION_NAMES.flatMap((name) => ['--confirm', name])
  const open = async () =>
    (
      await hub.succeed<{
        readonly points: ReadonlyArray<{
          readonly name: string
          readonly fulfilled: boolean
          readonly by: string
        }>
      }>(['certification', 'check', account])
    ).points.flatMap((point) => (point.fulfilled || point.by === 'confirmed' ? [] : [point.name]))

  it('is required for a live key', async () => {
    assert.strictEqual(await hub.refusal(['keys', 'issue', account, '--mode', 'live']), 'not_certified')
    // Earlier tests issued test keys, registered the live sender and declined the live template.
    assert.deepStrictEqual(await open(), ['delivered', 'failed', 'references', 'webhooks', 'live_template'])
    assert.strictEqual(
      await hub.refusal(['certification', 'grant', account, ...confirmed]),
      'checklist_incomplete',
    )

    // The activity of a client that has used the sandbox.
    const subscriptionId = randomUUID()
    await hub.sql`INSERT INTO read.daily_stats
      (day, account, mode, class, template, currency, accepted, sent, delivered, undelivered, rejected, expired, parts, price)
      VALUES ('2026-11-20', ${uuid}, 'test', 'service', 'order_ready', 'RUB', 3, 3, 2, 1, 0, 0, 3, 0)`
    await hub.sql`INSERT INTO command.client_refs (account, mode, client_ref, message_id, created_at)
      VALUES (${uuid}, 'test', 'order-1', ${randomUUID()}, now())`
    await hub.sql`INSERT INTO webhooks.endpoints (id, account, mode, url, secret)
      VALUES (${subscriptionId}, ${uuid}, 'test', 'https://example.com/hook', 'x'::bytea)`
    await hub.sql`INSERT INTO webhooks.attempts (id, endpoint_id, batch_id, attempt, status, duration_ms, trial, created_at)
      VALUES (${randomUUID()}, ${subscriptionId}, ${randomUUID()}, 1, 'succeeded', 5, true, now())`
    assert.deepStrictEqual(await open(), ['webhooks', 'live_template'], 'a test delivery does not count')
    await hub.sql`INSERT INTO webhooks.attempts (id, endpoint_id, batch_id, attempt, status, duration_ms, trial, created_at)
      VALUES (${randomUUID()}, ${subscriptionId}, ${randomUUID()}, 1, 'succeeded', 5, false, now())`
    const [template] = (
      await hub.succeed<{ readonly data: ReadonlyArray<{ readonly id: string }> }>(['templates', 'list'])
    ).data
    await hub.succeed(['templates', 'approve', template?.id ?? ''])
    assert.deepStrictEqual(await open(), [])

    assert.strictEqual(
      await hub.refusal(['certification', 'grant', account, '--confirm', 'signature']),
      'checklist_incomplete',
    )
    await hub.succeed(['certification', 'grant', account, ...confirmed])
    const issued = await hub.succeed<Issued>(['keys', 'issue', account, '--mode', 'live'])
    assert.match(issued.key, /^hub_live_/u)
    const checked = await hub.succeed<object>(['certification', 'check', account])
    assert.include(checked, { certified: true, granted_by: 'a test' })

    // The rotation of a live key can be left to two persons.
    const made = await hub.succeed<object>(['keys', 'request-rotation', issued.id, '--overlap', '2h'])
    assert.include(made, { status: 'waiting', replaces: issued.id, overlap_seconds: 7200, account })
    const requests = await hub.run(['keys', 'requests'])
    assert.include(requests.out, issued.id)
    const { id } = made as { readonly id: string }
    assert.strictEqual(await hub.refusal(['keys', 'confirm', id, '--yes']), 'same_person')
  })

  it('can be withdrawn, without an effect on live keys', async () => {
    assert.strictEqual(await hub.refusal(['certification', 'withdraw', account]), 'confirmation_required')
    await hub.succeed(['certification', 'withdraw', account, '--yes'])
    assert.strictEqual(await hub.refusal(['keys', 'issue', account, '--mode', 'live']), 'not_certified')
    const { data } = await hub.succeed<{ readonly data: ReadonlyArray<object> }>([
      'keys',
      'list',
      '--mode',
      'live',
    ])
    assert.lengthOf(data, 1)
    assert.strictEqual(await hub.refusal(['certification', 'withdraw', account, '--yes']), 'not_certified')
  })
})
