import { EVENT_TYPES } from '@hub/domain'
import { describe, expect, it } from 'vitest'
import { differences } from './compare.ts'
import { eventUuid, uuidOf } from './ids.ts'
import type { JournalRow, LiveTables } from './live-tables.ts'
import { buildReference, type ReferenceModels, type TableName } from './reference-projection.ts'
import type { TopicRecord } from './decode-value.ts'
import type { Topics } from './read-topics.ts'

const id = (prefix: string, last: string) => `${prefix}_${last.padStart(26, '0')}`
const [message, batch, account] = [id('msg', '1'), id('bat', '2'), id('acc', '3')]
const AT = Date.UTC(2026, 10, 21)

let nextOffset = 0
const record = (type: string, value: Record<string, unknown>): TopicRecord => ({
  partition: 0,
  offset: nextOffset++,
  type,
  value,
})
const acceptance = (more: Record<string, unknown> = {}) =>
  record('MessageAccepted', {
    message_id: message,
    at: AT,
    account,
    mode: 'live',
    class: 'otp',
    recipient: 'ab'.repeat(32),
    template: 'otp_code',
    sender: 'HUB',
    client_ref: 'a secret of the client',
    batch,
    parts: 2,
    price: { amount: '5.00', currency: 'RUB' },
    variables: ['code'],
    republished: false,
    number_range: '912',
    ...more,
  })
const fact = (type: string, at: number, more: Record<string, unknown> = {}) =>
  record(type, { message_id: message, at: AT + at, ...more })
const sent = () => fact('MessageSent', 20, { operator: 'http', operator_ids: ['1', '2'] })
const seal = () =>
  record('BatchSealed', {
    batch,
    account,
    mode: 'live',
    total: 2,
    accepted: 1,
    duplicate: 0,
    rejected: 1,
    created_at: AT,
    at: AT + 1,
  })

const row = (reference: ReferenceModels, table: TableName, key: string = uuidOf(message)) =>
  reference.tables[table].get(key)

describe('reference projection', () => {
  it('builds a message from its facts, and the sums from the message', () => {
    const reference = buildReference({
      lanes: [acceptance(), acceptance()],
      log: [
        fact('HandoverStarted', 10, { epoch: 1, attempt: 1 }),
        sent(),
        sent(),
        fact('MessageDelivered', 30),
        fact('MessageUndelivered', 40, { reason: 'delivery_failed' }),
        seal(),
      ],
    })
    expect(row(reference, 'messages')).toMatchObject({
      status: 'delivered',
      rank: '3',
      final: 'true',
      attempts: '1',
      handed_over: 'true',
      price: '5.00',
      updated_at: String(AT + 30),
      sent_at: String(AT + 20),
      timed_out_at: null,
      final_at: String(AT + 30),
    })
    expect(reference.tables.operator_ids.size).toBe(2)
    expect([...reference.tables.charges.keys()]).toEqual([`${uuidOf(message)} charge`])
    const counts = {
      accepted: '1',
      sent: '1',
      delivered: '1',
      undelivered: '0',
      rejected: '0',
      expired: '0',
      parts: '2',
      price: '5.00',
    }
    expect([...reference.tables.daily_stats]).toEqual([
      [`2026-11-21 ${uuidOf(account)} live otp otp_code RUB`, counts],
    ])
    // `AT` is the start of an hour. The reason code is empty.
    expect([...reference.tables.hourly_stats]).toEqual([[`${AT} ${uuidOf(account)} live  RUB`, counts]])
    expect([...reference.tables.range_stats]).toEqual([
      [`${AT} ${uuidOf(account)} live otp 912  RUB`, counts],
    ])
    expect(row(reference, 'batches', uuidOf(batch))).toMatchObject({
      members: '1',
      delivered: '1',
      closed: 'true',
    })
    expect(reference.completions).toHaveLength(1)
  })

  it('ignores facts of a lower epoch behind a fence, and no fact before it', () => {
    const log = [
      fact('HandoverStarted', 10, { epoch: 1, attempt: 1 }),
      record('ShardOpened', { epoch: 2 }),
      fact('HandoverStarted', 20, { epoch: 1, attempt: 2 }),
      fact('MessageExpired', 30, { epoch: 1, reason: 'ttl_expired_before_submit' }),
    ]
    expect(row(buildReference({ lanes: [acceptance()], log }), 'messages')).toMatchObject({
      // The second claim would prove an attempt.
      attempts: '0',
      status: 'accepted',
    })
  })

  it('makes an event of each type that the contract has for messages', () => {
    const outcomes = ['Delivered', 'Undelivered', 'Rejected', 'Expired'].map((outcome, index) =>
      buildReference({
        lanes: [acceptance()],
        log: [
          sent(),
          fact(`Message${outcome}`, 30, { reason: 'a reason' }),
          ...(index === 0 ? [fact('MessageSeen', 40)] : []),
        ],
      }),
    )
    const made = outcomes.flatMap(({ messageEvents }) =>
      [...messageEvents.values()].flatMap(({ changes, seen }) => [
        ...changes,
        ...(seen === null ? [] : [seen]),
      ]),
    )
    expect(new Set(made.map(({ type }) => type))).toEqual(
      new Set(EVENT_TYPES.filter((type) => type.startsWith('message.'))),
    )
  })

  it('lets a late report correct the local timeout, and charges once', () => {
    const reference = buildReference({
      lanes: [acceptance()],
      log: [
        sent(),
        fact('MessageExpired', 30, { reason: 'dlr_timeout_local' }),
        fact('MessageExpired', 35, { reason: 'dlr_timeout' }),
        fact('MessageDelivered', 40),
      ],
    })
    expect(row(reference, 'messages')).toMatchObject({
      status: 'delivered',
      sent_at: String(AT + 20),
      timed_out_at: String(AT + 30),
      final_at: String(AT + 40),
    })
    expect(reference.tables.charges.size).toBe(1)
  })

  it('reverses the charge of an unbilled message, and charges nothing in test mode', () => {
    const log = [fact('MessageRejected', 30, { reason: 'operator_rejected' })]
    const reference = buildReference({ lanes: [acceptance()], log })
    expect(row(reference, 'charges', `${uuidOf(message)} reversal`)).toMatchObject({
      amount: '5.00',
      created_at: String(AT + 30),
    })
    expect(row(reference, 'messages')).toMatchObject({ price: '0.00', handed_over: 'false' })
    expect(buildReference({ lanes: [acceptance({ mode: 'test' })], log }).tables.charges.size).toBe(0)
  })
})

/** Creates topics with a delivered message, and tables that agree with them. */
const consistentModels = () => {
  const lanes = [acceptance()]
  const log = [sent(), fact('MessageDelivered', 30)]
  const reference = buildReference({ lanes, log })
  const story = reference.messageEvents.get(message)!
  const journal = story.changes.map((event, index): JournalRow => ({
    account: uuidOf(account),
    mode: 'live',
    sequence: index + 1,
    id: event.id,
    type: event.type,
    createdAt: AT + index,
    body: JSON.stringify({
      id: idOfEvent(event.id),
      object: 'event',
      type: event.type,
      created_at: new Date(AT + index).toISOString(),
      mode: 'live',
      data: { object: { ...event.object, batch } },
    }),
  }))
  const webhooks = journal.map((one) =>
    record('EventRecorded', {
      event: idOfEvent(one.id),
      account,
      mode: 'live',
      sequence: one.sequence,
      event_type: one.type,
      created_at: one.createdAt,
      body: one.body,
    }),
  )
  const topics: Topics = { lanes, log, webhooks, deadLetters: new Map() }
  const live = {
    tables: structuredClone(reference.tables) as Record<
      TableName,
      Map<string, Record<string, string | null>>
    >,
    journal,
    heads: new Map([[`${uuidOf(account)} live`, journal.length]]),
    subscribedAfter: new Map([[`${uuidOf(account)} live`, 0]]),
    applied: lanes.length + log.length,
  }
  return { topics, reference, live }
}

/** Encodes the public id of an event: base32 of the UUID. */
const idOfEvent = (uuid: string): string => {
  let number = BigInt(`0x${uuid.replaceAll('-', '')}`)
  let digits = ''
  for (let i = 0; i < 26; i++, number /= 32n) {
    digits = '0123456789abcdefghjkmnpqrstvwxyz'[Number(number % 32n)]! + digits
  }
  return `evt_${digits}`
}

describe('comparison', () => {
  it('reports nothing if topics and tables agree', () => {
    const { live, reference, topics } = consistentModels()
    expect(differences(topics, reference, live)).toEqual([])
  })

  const faults: ReadonlyArray<
    readonly [
      string,
      (live: ReturnType<typeof consistentModels>['live']) => Partial<LiveTables> | void,
      RegExp,
    ]
  > = [
    [
      'a missing row',
      ({ tables }) => {
        tables.charges.clear()
      },
      /^read\.charges \S+ charge: is missing$/u,
    ],
    [
      'a row without a record',
      ({ tables }) => void tables.batches.set('x', {}),
      /^read\.batches x: no record explains it$/u,
    ],
    [
      'a changed value',
      ({ tables }) => void (tables.messages.get(uuidOf(message))!['attempts'] = '7'),
      /^read\.messages \S+: attempts is 7, the topics say 0$/u,
    ],
    [
      'a changed client_ref, without showing it',
      ({ tables }) => void (tables.messages.get(uuidOf(message))!['client_ref'] = 'secret'),
      /^read\.messages \S+: client_ref is another value, the topics say another value$/u,
    ],
    ['a wrong journal head', () => ({ heads: new Map() }), /^read\.event_heads \S+ live: sequence is 0/u],
    [
      'an event without a record',
      ({ journal }) => ({
        journal: journal.map((one) => ({
          ...one,
          ...(one.sequence === 3 ? { id: eventUuid('msg_other', one.type) } : {}),
        })),
      }),
      /^read\.events \S+: no record explains this message\.delivered$/u,
    ],
    [
      'events in another order',
      ({ journal }) => ({
        journal: [...journal.slice(0, 1), journal[2]!, journal[1]!].map((one, index) => ({
          ...one,
          sequence: index + 1,
        })),
      }),
      /^read\.events \S+: message\.delivered of \S+ is too early$/u,
    ],
    [
      'a gap in the sequence',
      ({ journal }) => ({ journal: journal.toSpliced(1, 1) }),
      /has sequence 3 after sequence 1$/u,
    ],
    [
      'a changed body',
      ({ journal }) => ({
        journal: journal.map((one) => ({ ...one, body: one.body.replace('"parts":2', '"parts":3') })),
      }),
      /\(message\.sent\): parts differs from the topics$/u,
    ],
    [
      'a published event of an account without a subscription',
      () => ({ subscribedAfter: new Map() }),
      /^read\.events \S+: was published without a subscription$/u,
    ],
    ['records that were not applied', () => ({ applied: 1 }), /^read\.checkpoints: 1 records are applied/u],
  ]
  it.each(faults)('reports %s', (_what, corrupt, expected) => {
    const { live, reference, topics } = consistentModels()
    const corrupted = { ...live, ...corrupt(live) }
    const found = differences(topics, reference, corrupted)
    expect(found.join('\n')).toMatch(new RegExp(expected.source, 'mu'))
    expect(found.join('\n')).not.toMatch(/a secret of the client|abababab/u)
  })

  it('reports an event that was not published although its account has a subscription', () => {
    const { live, reference, topics } = consistentModels()
    const found = differences({ ...topics, webhooks: topics.webhooks.slice(1) }, reference, live)
    expect(found).toEqual([`read.events ${live.journal[0]!.id}: was not published`])
    expect(
      differences({ ...topics, webhooks: [] }, reference, { ...live, subscribedAfter: new Map() }),
    ).toEqual([])
  })

  it('reports an event that was published with two contents, and a dead letter', () => {
    const { live, reference, topics } = consistentModels()
    const [first] = topics.webhooks
    const twice = { ...first!, value: { ...first!.value, sequence: 9 } }
    const found = differences(
      {
        ...topics,
        webhooks: [twice, ...topics.webhooks],
        deadLetters: new Map([['hub.messages.v1.dead-letter', 1]]),
      },
      reference,
      live,
    )
    expect(found).toHaveLength(2)
  })
})
