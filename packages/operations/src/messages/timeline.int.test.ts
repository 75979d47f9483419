/** The timeline of a message over PostgreSQL and Kafka, and what is revealed of it. */
import { randomUUID } from 'node:crypto'
import { encodeId, eventIdOf, type LogFact, type MessageAccepted, newId } from '@hub/domain'
import { messageAccepted } from '@hub/domain/testing'
import {
  acceptedRecord,
  type DeliveryReportReceived,
  deliveryReportRecord,
  logRecord,
  operatorAnswerRecord,
} from '@hub/kafka'
import { answerContext, PayloadEncryption, reportContext, uuidOf } from '@hub/store'
import { Effect } from 'effect'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import type { Actor } from '../actor.ts'
import { readNewest } from '../tables/audit.ts'
import { makeTestHub, NUMBER, type TestHub } from '../testing/test-hub.ts'
import { raw, reveal } from './reveal.ts'
import { timeline } from './timeline.ts'

const VIEWER: Actor = { id: 'https://id.example|vera', name: 'vera', roles: ['viewer'], via: 'api' }
const SUPPORT: Actor = { id: 'https://id.example|sam', name: 'sam', roles: ['support'], via: 'api' }
const REQUEST = newId('req', Date.now(), Buffer.alloc(10, 1))
const KEY = encodeId('key', randomUUID())
const TRACE = '0af7651916cd43dd8448eb211c80319c'

let hub: TestHub
let account: { readonly uuid: string; readonly id: string }
beforeAll(async () => {
  hub = await makeTestHub({ HUB_TRACE_URL: 'https://tempo.example/trace/{trace_id}?org=1' })
  account = await hub.account('Online shop')
})
afterAll(() => hub.remove())

const accepted = (messageId: string, at: number): MessageAccepted =>
  messageAccepted({
    messageId,
    at,
    account: account.id,
    recipient: hub.hashOf(NUMBER),
    sender: 'SHOP',
    parts: 2,
    price: { amount: '5.50', currency: 'RUB' },
    payloadKey: 'a key',
    request: REQUEST,
    apiKey: KEY,
  })

/** What the operator sent, encrypted as the dispatcher does. */
const encrypted = (context: string, sent: string | Buffer) =>
  hub.runtime.runPromise(
    Effect.gen(function* () {
      const keys = yield* (yield* PayloadEncryption).recipientShareKeys
      const key = keys[0]!
      const bytes = typeof sent === 'string' ? Buffer.from(sent) : sent
      return { rawKey: key.id, rawCiphertext: key.encrypt(context, bytes) }
    }),
  )

/** A message that was refused once, sent, and delivered, with all its records. */
const deliveredMessage = async (number = NUMBER): Promise<string> => {
  const at = Date.now() - 5000
  const id = await hub.message({
    account: account.uuid,
    at,
    number,
    history: [
      ['sent', at + 2000],
      ['delivered', at + 3000],
    ],
  })
  const recipient = hub.hashOf(number)
  const facts: ReadonlyArray<LogFact> = [
    { type: 'HandoverStarted', messageId: id, at: at + 100, epoch: 3, attempt: 1, operator: 'smpp' },
    { type: 'HandoverRefused', messageId: id, at: at + 200, epoch: 3, attempt: 1, retryAt: at + 1900 },
    { type: 'HandoverStarted', messageId: id, at: at + 1900, epoch: 3, attempt: 2, operator: 'smpp' },
    {
      type: 'MessageSent',
      messageId: id,
      at: at + 2000,
      operator: 'smpp',
      operatorIds: ['part 1', 'part 2'],
      reportDeadline: at + 86_400_000,
    },
    { type: 'MessageDelivered', messageId: id, at: at + 3000 },
  ]
  const report = {
    type: 'DeliveryReportReceived',
    operator: 'smpp',
    operatorId: 'part 1',
    reference: id,
    recipient,
    outcome: 'delivered',
    reason: null,
    at: at + 2900,
    receivedAt: at + 2950,
  } as const satisfies Omit<DeliveryReportReceived, 'rawKey' | 'rawCiphertext'>
  const answer = { operator: 'smpp', messageId: id, recipient, receivedAt: at + 190 }
  const delivered = facts.at(-1)!
  await hub.append([
    acceptedRecord(hub.topics, accepted(id, at), { traceparent: `00-${TRACE}-b7ad6b7169203331-01` }),
    ...facts.map((fact) => logRecord(hub.topics, fact, recipient)),
    // An append whose answer was lost is repeated.
    logRecord(hub.topics, delivered, recipient),
    // A fact of another message to the same recipient.
    logRecord(hub.topics, { ...delivered, messageId: encodeId('msg', randomUUID()) }, recipient),
    operatorAnswerRecord(
      hub.topics,
      {
        type: 'OperatorAnswerReceived',
        ...answer,
        ...(await encrypted(answerContext(answer), 'ESME_RTHROTTLED for +79001234567')),
      },
      1,
    ),
    deliveryReportRecord(hub.topics, {
      ...report,
      // A deliver_sm: a header, and text.
      ...(await encrypted(reportContext(report), Buffer.from('\0\0\0\xa2stat:DELIVRD', 'latin1'))),
    }),
  ])
  return id
}

/** Inserts an event of the message, a subscription, and a failed attempt to deliver the event. */
const insertDelivery = async (message: string) => {
  const [subscriptionId, attempt, batch] = [randomUUID(), randomUUID(), randomUUID()]
  const event = eventIdOf(message, 'message.delivered')
  const at = new Date()
  await hub.sql`INSERT INTO webhooks.endpoints (id, account, mode, url, secret)
    VALUES (${subscriptionId}, ${account.uuid}, 'live', 'https://shop.example/hook', '')`
  const body = JSON.stringify({ id: event, type: 'message.delivered', created_at: at.toISOString() })
  await hub.sql`INSERT INTO read.events (account, mode, sequence, id, type, created_at, body)
    VALUES (${account.uuid}, 'live', 1, ${uuidOf('evt', event)}, 'message.delivered', ${at}, ${body})`
  await hub.sql`INSERT INTO webhooks.attempts
    (id, endpoint_id, batch_id, attempt, status, response_code, duration_ms, reason, created_at)
    VALUES (${attempt}, ${subscriptionId}, ${batch}, 1, 'failed', 500, 12, 'http_error', ${at})`
  await hub.sql`INSERT INTO webhooks.batch_events (endpoint_id, event_id, batch_id, position)
    VALUES (${subscriptionId}, ${uuidOf('evt', event)}, ${batch}, 0)`
  return { subscriptionId: encodeId('we', subscriptionId), attempt: encodeId('whd', attempt), event }
}

describe('the timeline of a message', () => {
  it('has everything that happened, in the order of time, with its source', async () => {
    const id = await deliveredMessage()
    const { attempt, subscriptionId, event } = await insertDelivery(id)
    const shown = await hub.run(timeline, { id }, VIEWER)
    assert.strictEqual(shown.trace_id, TRACE)
    assert.strictEqual(shown.trace_url, `https://tempo.example/trace/${TRACE}?org=1`)
    assert.strictEqual(shown.message.id, id)
    assert.deepStrictEqual(
      shown.entries.map(({ kind, source }) => `${kind} ${source}`),
      [
        'accepted lane',
        'claimed log',
        'answered reports',
        'refused log',
        'claimed log',
        'sent log',
        'reported reports',
        'final log',
        'event journal',
        'webhook delivery_log',
      ],
    )
    const [acceptance, claim, , refusal, , sent, report, final, recorded, webhook] = shown.entries
    assert.deepInclude(acceptance?.detail, { request: REQUEST, api_key: KEY })
    assert.deepInclude(claim?.detail, { attempt: 1, operator: 'smpp', epoch: 3 })
    assert.property(refusal?.detail, 'retry_at')
    assert.deepInclude(sent?.detail, { operator_ids: ['part 1', 'part 2'] })
    assert.deepInclude(report?.detail, { operator_id: 'part 1', outcome: 'delivered' })
    assert.match(String(final?.detail['record']), /hub\.messages\.v1\/\d\/\d+$/u)
    assert.deepInclude(recorded?.detail, { event })
    assert.deepInclude(webhook?.detail, {
      webhook_endpoint: subscriptionId,
      webhook_delivery: attempt,
      response_code: 500,
    })
    assert.deepStrictEqual(shown.missing, [])
    const everything = JSON.stringify(shown)
    assert.notInclude(everything, NUMBER.slice(1))
    assert.notInclude(everything, 'THROTTLED')
  })

  it('says what is not in Kafka any more', async () => {
    const at = Date.now()
    const id = await hub.message({
      account: account.uuid,
      at,
      status: 'expired',
      reason: 'dlr_timeout_local',
      number: '+79000000042',
      history: [['expired', at + 1]],
    })
    const shown = await hub.run(timeline, { id }, VIEWER)
    assert.deepStrictEqual(
      shown.entries.map(({ kind, source }) => `${kind} ${source}`),
      ['accepted read_model', 'final read_model'],
    )
    assert.include(shown.entries[1]?.title, 'The message may have arrived.')
    assert.include(JSON.stringify(shown.missing), '13 months')
  })

  it('shows a message that the projectors have not recorded yet', async () => {
    const [uuid, at] = [randomUUID(), new Date()]
    await hub.sql`INSERT INTO command.acceptances ${hub.sql({
      message_id: uuid,
      account: account.uuid,
      mode: 'live',
      class: 'service',
      recipient: Buffer.from(hub.hashOf('+79000000043'), 'hex'),
      to_masked: '+7900***0043',
      template: 'order_ready',
      sender: 'SHOP',
      parts: 1,
      price: '1.00',
      currency: 'RUB',
      variables: [],
      created_at: at,
      expires_at: at,
    })}`
    const shown = await hub.run(timeline, { id: encodeId('msg', uuid) }, VIEWER)
    assert.strictEqual(shown.entries[0]?.source, 'ledger')
    assert.include(JSON.stringify(shown.missing), 'have not recorded the message yet')
  })

  it('says that an older version of the hub did not record the request', async () => {
    const at = Date.now()
    const id = await hub.message({ account: account.uuid, at })
    const { apiKey: _, request: __, ...older } = accepted(id, at)
    await hub.append([acceptedRecord(hub.topics, older)])
    const shown = await hub.run(timeline, { id }, VIEWER)
    assert.deepInclude(shown.entries[0], { source: 'lane' })
    // Its request was not sampled.
    assert.deepInclude(shown, { trace_id: null, trace_url: null })
    assert.include(
      shown.missing.map(({ what }) => what),
      'The request id and the API key of the send',
    )
  })

  it('knows no message that never was', async () => {
    const id = encodeId('msg', randomUUID())
    assert.strictEqual(await hub.refusal(timeline, { id }), 'message_not_found')
  })
})

describe('what is revealed of a message', () => {
  it('is the number and the text, for people with the permission, with a reason in the audit trail', async () => {
    const id = await hub.message({ account: account.uuid, text: 'Your order is ready' })
    const input = { id, reason: 'Ticket 4711' }
    assert.strictEqual(await hub.refusal(reveal, input, VIEWER), 'messages.reveal')
    assert.strictEqual(await hub.refusal(reveal, { id, reason: null }, SUPPORT), 'reason_required')
    const shown = await hub.run(reveal, input, SUPPORT)
    assert.deepInclude(shown, { to: NUMBER, text: 'Your order is ready', variables: { order: '7' } })
    const [row] = await readNewest(hub.sql, {
      actor: 'sam',
      command: 'messages reveal',
      before: null,
      limit: 10,
    })
    assert.deepInclude(row, { reason: 'Ticket 4711', role: 'support', arguments: { message: id } })
    assert.notInclude(JSON.stringify(row), NUMBER.slice(1))
  })

  it('is nothing of an erased recipient', async () => {
    const id = await hub.message({ account: account.uuid })
    await hub.sql`DELETE FROM read.personal_data WHERE message_id = ${uuidOf('msg', id)}`
    const shown = await hub.run(reveal, { id, reason: 'Ticket' }, SUPPORT)
    assert.isNull(shown.to)
    assert.include(shown.explanation, 'erased')
  })

  it('is what operators sent, as they sent it', async () => {
    // What could not be understood may be about any message to the recipient, so no other test uses the number.
    const number = '+79001230001'
    const id = await deliveredMessage(number)
    const unreadable = {
      operator: 'smpp',
      messageId: '',
      recipient: hub.hashOf(number),
      receivedAt: Date.now() - 3000,
    }
    await hub.append([
      operatorAnswerRecord(
        hub.topics,
        {
          type: 'OperatorAnswerReceived',
          ...unreadable,
          ...(await encrypted(answerContext(unreadable), 'stat:FANCY')),
        },
        1,
      ),
    ])
    assert.strictEqual(await hub.refusal(raw, { id, reason: 'Ticket' }, VIEWER), 'messages.reveal')
    const { data } = await hub.run(raw, { id, reason: 'Ticket' }, SUPPORT)
    assert.deepStrictEqual(
      data.map(({ kind, operator_id, raw: text }) => [kind, operator_id, text]),
      [
        ['answer', null, 'ESME_RTHROTTLED for +79001234567'],
        ['unreadable', null, 'stat:FANCY'],
        ['report', 'part 1', String.raw`\x00\x00\x00\xa2stat:DELIVRD`],
      ],
    )
  })

  it('is nothing after an erasure, also where an encrypted copy can still be read', async () => {
    const id = await deliveredMessage()
    const erase = hub.sql`
      INSERT INTO command.erasures (id, recipient, requested_at, before)
      VALUES (${randomUUID()}, ${Buffer.from(hub.hashOf(NUMBER), 'hex')}, now(), now())`
    // The erasure is recorded, and has removed nothing yet: payload keys and rows are still there.
    await erase
    const { data } = await hub.run(raw, { id, reason: 'Ticket' }, SUPPORT)
    assert.deepStrictEqual(
      data.map(({ kind, raw: text }) => [kind, text]),
      [
        ['answer', null],
        ['report', null],
      ],
    )
    const shown = await hub.run(reveal, { id, reason: 'Ticket' }, SUPPORT)
    assert.deepInclude(shown, { to: null, text: null, variables: null })
    // A message after the erasure is an ordinary one.
    await hub.sql`UPDATE command.erasures SET before = now() - interval '1 day'`
    const later = await hub.run(reveal, { id, reason: 'Ticket' }, SUPPORT)
    assert.strictEqual(later.to, NUMBER)
  })
})
