/** Stuck work over PostgreSQL and Kafka. */
import { randomUUID } from 'node:crypto'
import { recordOperatorStatus, SharedTexts } from '@hub/counters'
import { encodeId } from '@hub/domain'
import { deadLetterRecord, type IncomingRecord, logRecord } from '@hub/kafka'
import { Effect } from 'effect'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import * as Accounts from './accounts.ts'
import { stuck } from './stuck.ts'
import { makeTestHub, NUMBER, type TestHub } from './testing/test-hub.ts'

let hub: TestHub
beforeAll(async () => {
  hub = await makeTestHub()
})
afterAll(() => hub.remove())

describe('stuck work', () => {
  it('is nothing in an idle hub', async () => {
    const shown = await hub.run(stuck, {})
    assert.deepStrictEqual(
      shown.consumers.map(({ consumer, lag, members }) => [consumer, lag, members]),
      [
        ['dispatcher', 0, 0],
        ['projector', 0, 0],
        ['webhook-fanout', 0, 0],
      ],
    )
    assert.deepStrictEqual([shown.oldest_open, shown.dead_letters, shown.webhook_endpoints], [[], [], []])
    assert.deepStrictEqual(shown.moderation.templates, { rows: 0, oldest_at: null })
    assert.deepStrictEqual(shown.missing, [])
    assert.deepStrictEqual(shown.operators, [])
  })

  it('shows the binds and the pace that the dispatchers report', async () => {
    await hub.runtime.runPromise(
      Effect.flatMap(SharedTexts, (shared) =>
        recordOperatorStatus(shared, { member: 'a', host: 'dispatcher-0' }, [
          {
            operator: 'smpp',
            binds: [{ role: 'receiver', established: 0, wanted: 2, since: Date.now() }],
            rate: 40,
            configured: null,
            passed: 12,
            throttled: 1,
          },
        ]),
      ),
    )
    const { operators } = await hub.run(stuck, {})
    assert.deepInclude(operators[0], {
      operator: 'smpp',
      binds: [{ role: 'receiver', established: 0, wanted: 2 }],
      rate: 40,
      passed_per_second: 12,
    })
    assert.strictEqual(operators[0]?.incomplete[0]?.dispatcher, 'dispatcher-0')
  })

  it('shows lag by shard, dead letters, the oldest open messages, outboxes, failing subscriptions and moderation', async () => {
    const { id: account, uuid } = await hub.account('Online shop')
    const now = Date.now()
    const oldest = await hub.message({ account: uuid, status: 'accepted', at: now - 60_000 })
    await hub.message({ account: uuid, status: 'accepted', at: now - 30_000 })
    const waiting = await hub.message({ account: uuid, status: 'sent', class: 'otp', at: now - 20_000 })
    await hub.message({ account: uuid, status: 'delivered', at: now - 90_000 })
    const record = logRecord(
      hub.topics,
      { type: 'MessageDelivered', messageId: oldest, at: now },
      hub.hashOf(NUMBER),
    )
    const [position] = await hub.append([record])
    const incoming: IncomingRecord = { ...record, ...position!, traceparent: null, appendedAt: now }
    await hub.append([deadLetterRecord(incoming, 'a test')])
    const subscriptionId = randomUUID()
    await hub.sql`INSERT INTO webhooks.endpoints (id, account, mode, url, secret, consecutive_failures)
      VALUES (${subscriptionId}, ${uuid}, 'live', 'https://shop.example/hook', '', 3)`
    await hub.sql`INSERT INTO command.outbox (records, created_at) VALUES ('\\x00', now() - interval '1 minute')`
    await hub.sql`INSERT INTO command.senders (id, account, mode, name, status, created_at)
      VALUES (${randomUUID()}, ${uuid}, 'live', 'SHOP', 'pending', now() - interval '1 day')`
    const shown = await hub.run(stuck, {})
    const projector = shown.consumers.find(({ consumer }) => consumer === 'projector')
    assert.deepStrictEqual(projector?.shards, [
      { topic: hub.topics.messages, shard: position!.partition, lag: 1 },
    ])
    assert.deepStrictEqual(shown.dead_letters, [{ topic: `${hub.topics.messages}.dead-letter`, records: 1 }])
    assert.deepStrictEqual(
      shown.oldest_open.map((row) => [row.class, row.status, row.message, row.account]),
      [
        ['otp', 'sent', waiting, account],
        ['service', 'accepted', oldest, account],
      ],
    )
    assert.isAtLeast(shown.oldest_open[1]!.age_ms, 60_000)
    assert.deepInclude(
      shown.webhook_endpoints.map(({ id }) => id),
      encodeId('we', subscriptionId),
    )
    const outbox = shown.outboxes.find(({ content }) => content === 'accepted messages')
    assert.strictEqual(outbox?.rows, 1)
    assert.isAtLeast(outbox?.age_ms ?? 0, 60_000)
    assert.strictEqual(shown.moderation.senders.rows, 1)
    assert.isNotNull(shown.moderation.senders.oldest_at)
  })
})

describe('the backlog of accounts', () => {
  it('has the longest waits first, and at most as many rows as are asked for', async () => {
    const first = await hub.account('First')
    const second = await hub.account('Second')
    await hub.message({ account: second.uuid, status: 'accepted', at: Date.now() - 200_000 })
    await hub.message({ account: first.uuid, status: 'accepted', at: Date.now() - 300_000 })
    const backlog = async (limit: number) => {
      const { data } = await hub.run(Accounts.backlog, { account: null, limit })
      return data.map(({ account }) => account)
    }
    assert.deepStrictEqual(await backlog(1), [first.id])
    assert.deepStrictEqual(await backlog(2), [first.id, second.id])
  })
})
