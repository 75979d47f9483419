/** Webhook subscriptions and deliveries over PostgreSQL, with the row of a fan-out for deliveries on demand. */
import { randomBytes, randomUUID } from 'node:crypto'
import { encodeId, eventIdOf, newId } from '@hub/domain'
import { decodeOutboxRow } from '@hub/kafka'
import { uuidOf } from '@hub/store'
import { eventually } from '@hub/testkit'
import { Result } from 'effect'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import type { Actor } from '../actor.ts'
import { readNewest } from '../tables/audit.ts'
import { makeTestHub, type TestHub } from '../testing/test-hub.ts'
import * as Deliveries from './deliveries.ts'
import * as Webhooks from './index.ts'

const VIEWER: Actor = { id: 'https://id.example|vera', name: 'vera', roles: ['viewer'], via: 'api' }
const SUPPORT: Actor = { id: 'https://id.example|sam', name: 'sam', roles: ['support'], via: 'api' }
const ANY_ATTEMPT = {
  status: null,
  response_code: null,
  event: null,
  created_after: null,
  created_before: null,
  limit: 50,
  cursor: null,
} as const

let hub: TestHub
let account: { readonly uuid: string; readonly id: string }
let subscriptionId: string
let disabled: string
const uuidOfSubscription = () => uuidOf('we', subscriptionId)

/** Two events in one batch, which was attempted three times. */
const events = [1, 2].map((n) => {
  const id = eventIdOf(encodeId('msg', randomUUID()), 'message.sent')
  return { id, sequence: n, body: JSON.stringify({ id, type: 'message.sent', text: `"${n}"` }) }
})
const batch = encodeId('evb', randomUUID())
const attempts: Array<string> = []

const insertSubscription = async (status: string, failures: number): Promise<string> => {
  const id = randomUUID()
  const at = status === 'enabled' ? null : new Date()
  await hub.sql`INSERT INTO webhooks.endpoints (id, account, mode, url, secret, status, consecutive_failures, disabled_at)
    VALUES (${id}, ${account.uuid}, 'live', 'https://shop.example/hook', '', ${status}, ${failures}, ${at})`
  return encodeId('we', id)
}

beforeAll(async () => {
  hub = await makeTestHub()
  account = await hub.account('Online shop')
  subscriptionId = await insertSubscription('enabled', 0)
  disabled = await insertSubscription('disabled_by_failures', 12)
  for (const { body, id, sequence } of events) {
    await hub.sql`INSERT INTO read.events (account, mode, sequence, id, type, created_at, body)
      VALUES (${account.uuid}, 'live', ${sequence}, ${uuidOf('evt', id)}, 'message.sent', now(), ${body})`
    await hub.sql`INSERT INTO webhooks.batch_events (endpoint_id, event_id, batch_id, position)
      VALUES (${uuidOfSubscription()}, ${uuidOf('evt', id)}, ${uuidOf('evb', batch)}, ${sequence})`
  }
  for (const [code, seconds] of [
    [500, 60],
    [404, 40],
    [200, 20],
  ] as const) {
    const at = Date.now() - seconds * 1000
    const id = newId('whd', at, randomBytes(10))
    await hub.sql`INSERT INTO webhooks.attempts (id, endpoint_id, batch_id, attempt, status, response_code, duration_ms, created_at)
      VALUES (${uuidOf('whd', id)}, ${uuidOfSubscription()}, ${uuidOf('evb', batch)}, ${attempts.length + 1},
              ${code === 200 ? 'succeeded' : 'failed'}, ${code}, 12, ${new Date(at)})`
    attempts.push(id)
  }
  await hub.sql`INSERT INTO webhooks.batches (id, endpoint_id, partition, first_sequence, event_count, body, queued_at, scheduled_at, next_attempt_at)
    VALUES (${randomUUID()}, ${uuidOf('we', disabled)}, 0, 1, 1, '[]', now() - interval '1 hour', now(), now())`
})
afterAll(() => hub.remove())

describe('webhook subscriptions', () => {
  it('are listed with their health and backlog, page after page', async () => {
    const input = { account: account.id, mode: null, status: null, limit: 1, cursor: null }
    const first = await hub.run(Webhooks.list, input, VIEWER)
    const second = await hub.run(Webhooks.list, { ...input, cursor: first.next_cursor }, VIEWER)
    assert.deepStrictEqual(
      [...first.data, ...second.data].map(({ id }) => id).toSorted(),
      [subscriptionId, disabled].toSorted(),
    )
    assert.isNull(second.next_cursor)
    const failing = await hub.run(Webhooks.list, { ...input, status: 'disabled_by_failures' }, VIEWER)
    assert.deepInclude(failing.data[0], { id: disabled, consecutive_failures: 12 })
    assert.strictEqual(failing.data[0]?.backlog.batches, 1)
    assert.isNotNull(failing.data[0]?.backlog.oldest_at)
    const shown = await hub.run(Webhooks.get, { id: subscriptionId }, VIEWER)
    assert.strictEqual(shown.backlog.batches, 0)
    assert.deepInclude(shown, { header_names: [], client_certificate: null })
    assert.strictEqual(
      await hub.refusal(Webhooks.get, { id: encodeId('we', randomUUID()) }),
      'subscription_not_found',
    )
  })

  it('are shown with the names of their headers, and the end of their client certificate', async () => {
    const id = await insertSubscription('enabled', 0)
    await hub.sql`
      UPDATE webhooks.endpoints
         SET header_names = '{Authorization,x-tenant}', client_certificate_fingerprint = 'AB:CD',
             client_certificate_not_after = '2027-01-02T03:04:05Z'
       WHERE id = ${uuidOf('we', id)}`
    assert.deepInclude(await hub.run(Webhooks.get, { id }, VIEWER), {
      header_names: ['Authorization', 'x-tenant'],
      client_certificate: { fingerprint_sha256: 'AB:CD', not_after: '2027-01-02T03:04:05.000Z' },
    })
    await hub.sql`DELETE FROM webhooks.endpoints WHERE id = ${uuidOf('we', id)}`
  })

  it('are enabled once, with a record for the fan-out', async () => {
    assert.strictEqual(await hub.refusal(Webhooks.enable, { id: disabled }, VIEWER), 'webhooks.change')
    assert.isTrue((await hub.run(Webhooks.enable, { id: disabled }, SUPPORT)).changed)
    assert.isFalse((await hub.run(Webhooks.enable, { id: disabled }, SUPPORT)).changed)
    const rows = await hub.sql<{ records: Buffer }[]>`SELECT records FROM command.outbox`
    const records = rows.flatMap((row) => Result.getOrThrow(decodeOutboxRow(row.records)))
    assert.deepStrictEqual(
      records.map(({ type }) => type),
      ['SubscriptionChanged'],
    )
    const [last] = await readNewest(hub.sql, {
      actor: 'sam',
      command: 'webhooks enable',
      before: null,
      limit: 1,
    })
    assert.deepInclude(last, { arguments: { subscription: disabled }, detail: { outcome: 'unchanged' } })
  })
})

describe('the delivery log', () => {
  const list = async (filter: Partial<Parameters<typeof Deliveries.list.run>[0]>) => {
    const page = await hub.run(
      Deliveries.list,
      { webhook_endpoint: subscriptionId, ...ANY_ATTEMPT, ...filter },
      VIEWER,
    )
    return page.data.map(({ id }) => id)
  }

  it('filters attempts by status, code, event and time', async () => {
    const [first, second, third] = attempts as [string, string, string]
    assert.deepStrictEqual(await list({}), [third, second, first])
    assert.deepStrictEqual(await list({ status: 'failed' }), [second, first])
    assert.deepStrictEqual(await list({ response_code: 404 }), [second])
    assert.deepStrictEqual(await list({ response_code: 404, status: 'succeeded' }), [])
    assert.deepStrictEqual(await list({ event: events[0]!.id, limit: 1 }), [third])
    assert.deepStrictEqual(await list({ event: encodeId('evt', randomUUID()) }), [])
    const middle = new Date(Date.now() - 50_000).toISOString()
    assert.deepStrictEqual(await list({ created_after: middle }), [third, second])
    assert.deepStrictEqual(await list({ created_before: middle }), [first])
  })

  it('shows the body that was signed, byte for byte', async () => {
    const shown = await hub.run(Deliveries.get, { id: attempts[0]! }, VIEWER)
    assert.strictEqual(shown.webhook_endpoint, subscriptionId)
    assert.strictEqual(shown.signed_body, `[${events.map(({ body }) => body).join(',')}]`)
    assert.deepStrictEqual(
      shown.event_ids,
      events.map(({ id }) => id),
    )
    const unknown = encodeId('whd', randomUUID())
    assert.strictEqual(await hub.refusal(Deliveries.get, { id: unknown }), 'delivery_not_found')
    const resend = { webhook_endpoint: subscriptionId, delivery: unknown, event_batch: null, event: null }
    assert.strictEqual(await hub.refusal(Deliveries.resend, resend), 'delivery_not_found')
  })
})

/** Makes the requested deliveries on demand of a table, as the fan-out does, until it has made one. */
const makeOne = async (table: 'resends' | 'trials'): Promise<void> => {
  const taken = await eventually(async () => {
    const rows = await hub.sql<{ id: string; batch: string | null }[]>`
      UPDATE ${hub.sql(`webhooks.${table}`)} SET claimed_at = now() WHERE claimed_at IS NULL
      RETURNING id, ${table === 'resends' ? hub.sql`batch_id` : hub.sql`NULL::uuid`} AS batch`
    return rows[0] ?? null
  })
  await hub.sql.begin(async (q) => {
    await q`INSERT INTO webhooks.attempts (id, endpoint_id, batch_id, attempt, status, response_code, duration_ms, trial, created_at)
      VALUES (${taken.id}, ${uuidOfSubscription()}, ${taken.batch ?? randomUUID()}, 1, 'succeeded', 204, 7, ${table === 'trials'}, now())`
    await q`DELETE FROM ${q(`webhooks.${table}`)} WHERE id = ${taken.id}`
  })
}

describe('deliveries on demand', () => {
  const nothing = { delivery: null, event_batch: null, event: null }

  it('send the batch of a delivery, of an event, or a batch again', async () => {
    for (const what of [{ delivery: attempts[1]! }, { event: events[1]!.id }, { event_batch: batch }]) {
      const input = { webhook_endpoint: subscriptionId, ...nothing, ...what }
      const [made] = await Promise.all([hub.run(Deliveries.resend, input, SUPPORT), makeOne('resends')])
      assert.deepInclude(made, { status: 'succeeded', response_code: 204, event_batch: batch })
    }
    const rows = await readNewest(hub.sql, {
      actor: 'sam',
      command: 'deliveries resend',
      before: null,
      limit: 3,
    })
    assert.deepStrictEqual(
      rows.map((row) => row.arguments),
      [
        { subscription: subscriptionId, event_batch: batch },
        { subscription: subscriptionId, event: events[1]!.id },
        { subscription: subscriptionId, delivery: attempts[1]! },
      ],
    )
  })

  it('are refused without the permission, without a subject, and of what was never attempted', async () => {
    const input = { webhook_endpoint: subscriptionId, ...nothing, delivery: attempts[1]! }
    assert.strictEqual(await hub.refusal(Deliveries.resend, input, VIEWER), 'messages.resend')
    const both = { ...input, event_batch: batch }
    assert.strictEqual(await hub.refusal(Deliveries.resend, both, SUPPORT), 'invalid_parameter')
    const other = { ...input, delivery: null, event: encodeId('evt', randomUUID()) }
    assert.strictEqual(await hub.refusal(Deliveries.resend, other, SUPPORT), 'never_attempted')
  })

  it('include a test delivery', async () => {
    const [made] = await Promise.all([
      hub.run(Webhooks.test, { id: subscriptionId }, SUPPORT),
      makeOne('trials'),
    ])
    assert.deepInclude(made, { trial: true, status: 'succeeded' })
    const shown = await hub.run(Deliveries.get, { id: made.id }, VIEWER)
    assert.isNull(shown.signed_body)
    assert.strictEqual(
      await hub.refusal(Webhooks.test, { id: encodeId('we', randomUUID()) }, SUPPORT),
      'subscription_not_found',
    )
  })
})

describe('a redelivery', () => {
  it('is requested for a period, and shows its progress', async () => {
    const from = new Date(Date.now() - 3_600_000).toISOString()
    const made = await hub.run(Webhooks.redeliver, { id: subscriptionId, from, until: null }, SUPPORT)
    const progress = await hub.run(Webhooks.redelivery, { id: made.id }, VIEWER)
    assert.deepInclude(progress, { events: 0, batches: 0, pending: 0, queued_at: null })
    const empty = { id: subscriptionId, from, until: from }
    assert.strictEqual(await hub.refusal(Webhooks.redeliver, empty, SUPPORT), 'period_empty')
    assert.strictEqual(await hub.refusal(Webhooks.redelivery, { id: randomUUID() }), 'redelivery_not_found')
  })
})
