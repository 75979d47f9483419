import { assert, describe, it } from '@effect/vitest'
import { Result } from 'effect'
import avro from 'avsc'
import fc from 'fast-check'
import { EXPIRED_REASONS, type MessageFact, REJECTED_REASONS, UNDELIVERED_REASONS } from '@hub/domain'
import {
  decodeAcceptedHead,
  decodeEventRecorded,
  decodeFact,
  decodeRecord,
  encodeRecord,
  HEADER_BYTES,
  UndecodableRecord,
} from './codec.ts'
import { decodeOutboxRow, encodeOutboxRow } from './outbox-row.ts'
import type { OutgoingRecord } from '../port.ts'
import { type DeliveryReportReceived, type HubRecord, type MessageOutcome, reportOutcome } from './records.ts'
import { SCHEMAS } from '../schemas/schemas.ts'

const id = 'msg_06fs37r7c5yb6k1v9b2h8zq4mt'
const at = 1_795_000_000_123
const hash = 'a'.repeat(64)

const accepted: MessageFact = {
  type: 'MessageAccepted',
  messageId: id,
  at,
  account: 'acc_06fs37r7c5yb6k1v9b2h8zq4mt',
  mode: 'live',
  class: 'otp',
  recipient: hash,
  template: 'otp_code',
  sender: 'HUB',
  clientRef: null,
  batch: null,
  parts: 1,
  price: { amount: '2.50', currency: 'RUB' },
  variables: ['code'],
  expiresAt: at + 300_000,
  payloadKey: 'otp-1',
  ciphertext: Uint8Array.from([1, 2, 3, 255]),
  republished: false,
  request: 'req_06fs37r7c5yb6k1v9b2h8zq4mt',
  apiKey: 'key_06fs37r7c5yb6k1v9b2h8zq4mt',
  numberRange: '912',
}

const outcome: MessageOutcome = {
  type: 'MessageOutcome',
  messageId: id,
  accountId: 'acc_06fs37r7c5yb6k1v9b2h8zq4mt',
  messageMode: 'live',
  messageClass: 'service',
  templateName: 'order_ready',
  senderName: 'HUB',
  batchId: 'bat_06fs37r7c5yb6k1v9b2h8zq4mt',
  operatorName: 'smpp',
  partCount: 2,
  attemptCount: 1,
  finalStatus: 'delivered',
  reasonCode: null,
  priceHundredths: 500,
  priceCurrency: 'RUB',
  acceptedAt: at,
  submittedAt: at + 10,
  finalAt: at + 900,
}

/** Each record type, with rare combinations of fields. */
const examples: ReadonlyArray<HubRecord> = [
  accepted,
  {
    ...accepted,
    class: 'service',
    clientRef: 'Заказ 7',
    batch: 'bat_06fs37r7c5yb6k1v9b2h8zq4mt',
    variables: [],
    request: null,
    apiKey: null,
    numberRange: null,
  },
  {
    type: 'HandoverStarted',
    messageId: id,
    at,
    epoch: 2 ** 40,
    attempt: 1,
    operator: 'http',
    unsubmitted: 2,
    parts: 3,
  },
  {
    type: 'HandoverRefused',
    messageId: id,
    at,
    attempt: 2,
    retryAt: at + 1000,
    epoch: 3,
    unsubmitted: null,
  },
  {
    type: 'MessageSent',
    messageId: id,
    at,
    operator: 'http',
    operatorIds: ['1', '2'],
    reportDeadline: at,
    epoch: null,
  },
  { type: 'MessageSent', messageId: id, at, operator: 'http', operatorIds: [], reportDeadline: at, epoch: 3 },
  { type: 'MessageDelivered', messageId: id, at },
  { type: 'MessageUndelivered', messageId: id, at, reason: 'recipient_blocked' },
  { type: 'MessageRejected', messageId: id, at, reason: 'spam_filter_content' },
  { type: 'MessageExpired', messageId: id, at, reason: 'ttl_expired_before_submit', epoch: 3 },
  { type: 'MessageExpired', messageId: id, at, reason: 'dlr_timeout', epoch: null },
  { type: 'MessageSeen', messageId: id, at },
  {
    type: 'OpenMessageCarried',
    messageId: id,
    at,
    operator: 'sandbox',
    operatorIds: ['x'],
    class: 'service',
    attempts: 2,
    sentAt: at,
    reportDeadline: at,
  },
  {
    type: 'OpenMessagesCarried',
    shard: 47,
    at,
    messages: [
      {
        messageId: id,
        recipient: 'ab'.repeat(32),
        operator: 'sandbox',
        operatorIds: ['x', 'y'],
        class: 'otp',
        attempts: 1,
        sentAt: at,
        reportDeadline: at,
        traceparent: null,
        parts: null,
      },
      {
        messageId: id,
        recipient: 'cd'.repeat(32),
        operator: 'sandbox',
        operatorIds: [],
        class: 'service',
        attempts: 3,
        sentAt: at,
        reportDeadline: at,
        traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
        parts: 3,
      },
    ],
  },
  { type: 'ShardOpened', shard: 47, epoch: 9, member: 'f00d', at },
  {
    type: 'BatchSealed',
    batch: 'bat_06fs37r7c5yb6k1v9b2h8zq4mt',
    account: 'acc_06fs37r7c5yb6k1v9b2h8zq4mt',
    mode: 'test',
    total: 6,
    accepted: 3,
    duplicate: 2,
    rejected: 1,
    createdAt: at,
    at,
  },
  {
    type: 'SubscriptionChanged',
    account: 'acc_06fs37r7c5yb6k1v9b2h8zq4mt',
    mode: 'live',
    subscription: 'we_06fs37r7c5yb6k1v9b2h8zq4mt',
    change: 'updated',
    at,
  },
  {
    type: 'EventRecorded',
    event: 'evt_06fs37r7c5yb6k1v9b2h8zq4mt',
    account: 'acc_06fs37r7c5yb6k1v9b2h8zq4mt',
    mode: 'live',
    sequence: 12,
    eventType: 'message.delivered',
    createdAt: at,
    body: '{"id":"evt_1","note":"готов ✓"}',
  },
  {
    type: 'DeliveryReportReceived',
    operator: 'http',
    operatorId: '77',
    reference: id,
    recipient: hash,
    outcome: 'undelivered',
    reason: 'recipient_unreachable',
    at,
    receivedAt: at + 5,
    rawKey: 'k',
    rawCiphertext: Uint8Array.from([9]),
  },
  {
    type: 'DeliveryReportReceived',
    operator: 'sandbox',
    operatorId: '78',
    reference: null,
    recipient: hash,
    outcome: 'seen',
    reason: null,
    at,
    receivedAt: at,
    rawKey: null,
    rawCiphertext: null,
  },
  {
    type: 'InboundMessageReceived',
    operator: 'http',
    operatorId: '79',
    recipient: hash,
    serviceAddress: '1234',
    receivedAt: at,
    payloadKey: 'k',
    ciphertext: Uint8Array.from([0, 0]),
  },
  {
    type: 'OperatorAnswerReceived',
    operator: 'smpp',
    messageId: id,
    recipient: hash,
    receivedAt: at,
    rawKey: 'k',
    rawCiphertext: Uint8Array.from([7]),
  },
  { type: 'SealingKeyCreated', keyId: 'otp-k', wrapped: Uint8Array.from([2, 1]), at },
  { type: 'RecipientErased', erasure: 'e', recipient: hash, requestedAt: at, before: at },
  { type: 'DatabaseAccepted', database: '7571234567890123456/16384', at },
  outcome,
  {
    ...outcome,
    batchId: null,
    operatorName: null,
    attemptCount: 0,
    finalStatus: 'expired',
    reasonCode: 'ttl_expired_before_submit',
    priceHundredths: 0,
    submittedAt: null,
  },
]

const reportOf = (
  outcome: DeliveryReportReceived['outcome'],
  reason: DeliveryReportReceived['reason'],
): DeliveryReportReceived => ({
  type: 'DeliveryReportReceived',
  operator: 'http',
  operatorId: '77',
  reference: null,
  recipient: hash,
  outcome,
  reason,
  at,
  receivedAt: at,
  rawKey: null,
  rawCiphertext: null,
})

/** Each reason code of the domain in its fact, and in a report if operators report it. */
const withReasons: ReadonlyArray<HubRecord & { readonly reason: string | null }> = [
  ...UNDELIVERED_REASONS.flatMap((reason) => [
    { type: 'MessageUndelivered' as const, messageId: id, at, reason },
    reportOf('undelivered', reason),
  ]),
  ...REJECTED_REASONS.flatMap((reason) => [
    { type: 'MessageRejected' as const, messageId: id, at, reason },
    reportOf('rejected', reason),
  ]),
  ...EXPIRED_REASONS.map((reason) => ({
    type: 'MessageExpired' as const,
    messageId: id,
    at,
    reason,
    epoch: null,
  })),
  reportOf('expired', 'dlr_timeout'),
]

/** Makes buffers and byte arrays comparable by content. */
const bytesFirst = (record: object) =>
  Object.fromEntries(
    Object.entries(record).map(([key, value]) => [key, value instanceof Uint8Array ? [...value] : value]),
  )

const reasonOf = (bytes: Uint8Array) => {
  const read = decodeRecord(bytes)
  return Result.isFailure(read) ? read.failure.reason : 'decoded'
}

describe('the codec', () => {
  for (const record of examples) {
    it(`decodes an encoded ${record.type}`, () => {
      const read = Result.getOrThrow(decodeRecord(encodeRecord(record)))
      assert.deepStrictEqual(bytesFirst(read), bytesFirst(record))
    })
  }

  it.each(withReasons)('decodes an encoded $type with the reason $reason', (record) => {
    assert.deepStrictEqual(Result.getOrThrow(decodeRecord(encodeRecord(record))), record)
  })

  it('has an example of every schema', () => {
    assert.deepStrictEqual(
      new Set(examples.map(({ type }) => type as string)),
      new Set(SCHEMAS.map(({ name }) => name)),
    )
  })

  it('writes records that a standard Avro reader decodes with the published schema', () => {
    const bytes = Buffer.from(encodeRecord(accepted))
    assert.strictEqual(bytes[0], 0)
    const published = SCHEMAS.findLast(({ name }) => name === 'MessageAccepted')!
    assert.strictEqual(bytes.readInt32BE(1), published.id)
    const read = avro.Type.forSchema(published.schema as avro.Schema).fromBuffer(bytes.subarray(5))
    assert.strictEqual(read.message_id, id)
    assert.strictEqual(read.expires_at, at + 300_000)
    assert.strictEqual(read.client_ref, null)
    assert.deepStrictEqual({ ...read.price }, { amount: '2.50', currency: 'RUB' })
  })

  it('decodes records of versions without a field, and encodes records without it', () => {
    for (const fact of [
      {
        type: 'MessageSent',
        messageId: id,
        at,
        operator: 'smpp',
        operatorIds: [],
        reportDeadline: at + 300_000,
      },
      { type: 'HandoverStarted', messageId: id, at, epoch: 1, attempt: 1, operator: 'smpp' },
      { type: 'HandoverRefused', messageId: id, at, attempt: 1, retryAt: at + 1000 },
      { type: 'MessageExpired', messageId: id, at, reason: 'dlr_timeout' },
    ] as const) {
      const now = Buffer.from(encodeRecord(fact))
      const versions = SCHEMAS.filter((schema) => schema.name === fact.type)
      const missing =
        fact.type === 'HandoverStarted'
          ? { unsubmitted: null, parts: null }
          : fact.type === 'HandoverRefused'
            ? { epoch: null, unsubmitted: null }
            : { epoch: null }
      for (const { id: schemaId, version } of versions) {
        // Each earlier version lacks one more byte at the end, which encodes a missing field.
        const bytes = Buffer.from(now.subarray(0, now.length - (versions.length - version)))
        bytes.writeInt32BE(schemaId, 1)
        assert.deepStrictEqual(Result.getOrThrow(decodeRecord(bytes)), { ...fact, ...missing } as object)
      }
    }
  })

  it('decodes acceptances of the versions without a request and a key, and without a number range', () => {
    const { numberRange: _, ...second } = accepted
    const { apiKey: __, request: ___, ...first } = second
    for (const { fact, id: schemaId, missing, fields } of [
      { fact: first, id: 1, missing: { request: null, apiKey: null, numberRange: null }, fields: 3 },
      { fact: second, id: 27, missing: { numberRange: null }, fields: 1 },
    ]) {
      const now = Buffer.from(encodeRecord(fact))
      // A missing field is one byte.
      const bytes = Buffer.from(now.subarray(0, now.length - fields))
      bytes.writeInt32BE(schemaId, 1)
      assert.deepStrictEqual(
        bytesFirst(Result.getOrThrow(decodeRecord(bytes))),
        bytesFirst({ ...fact, ...missing }),
      )
    }
  })

  it('is readable for readers of the version without a number range, which ignore it', () => {
    const older = SCHEMAS.find(({ id: schemaId }) => schemaId === 27)!
    const newer = SCHEMAS.find(({ name, version }) => name === 'MessageAccepted' && version === 3)!
    const reader = avro.Type.forSchema(older.schema as avro.Schema)
    const writer = avro.Type.forSchema(newer.schema as avro.Schema)
    const read = reader.fromBuffer(
      Buffer.from(encodeRecord(accepted)).subarray(HEADER_BYTES),
      reader.createResolver(writer),
    ) as Readonly<Record<string, unknown>>
    assert.deepInclude(read, { message_id: id, recipient: hash })
    assert.notProperty(read, 'number_range')
  })

  it('decodes a re-append of the version without the number of parts', () => {
    const carried = examples.find((record) => record.type === 'OpenMessagesCarried')!
    const { parts: _, ...last } = carried.messages[0]!
    const now = Buffer.from(encodeRecord({ ...carried, messages: [last] }))
    // The missing field is one byte, like the end of the list, which follows it.
    const bytes = Buffer.from(now.subarray(0, now.length - 1))
    bytes.writeInt32BE(20, 1)
    assert.deepStrictEqual(Result.getOrThrow(decodeRecord(bytes)) as object, {
      ...carried,
      messages: [{ ...last, parts: null }],
    })
  })

  it('encodes a record that is larger than its buffer', () => {
    const body = 'x'.repeat(300_000)
    const event = {
      ...(examples.find(({ type }) => type === 'EventRecorded') as HubRecord),
      body,
    } as HubRecord
    const read = Result.getOrThrow(decodeEventRecorded({ value: encodeRecord(event) }))
    assert.strictEqual(read.body, body)
  })

  it('returns memory that the next record does not overwrite', () => {
    const first = encodeRecord(accepted)
    const copy = Uint8Array.from(first)
    encodeRecord({ ...accepted, template: 'another', ciphertext: new Uint8Array(64).fill(7) })
    assert.deepStrictEqual([...first], [...copy])
  })
})

describe('the first fields of an accepted message', () => {
  const headOf = (value: Uint8Array) => decodeAcceptedHead({ value })

  it('are those of the whole record, whatever follows them', () => {
    const value = encodeRecord(accepted)
    const { account, messageId, mode } = accepted
    for (const bytes of [value, value.subarray(0, 90)]) {
      const head = Result.getOrThrow(headOf(bytes))
      assert.deepStrictEqual(
        { account: head.account, messageId: head.messageId, mode: head.mode },
        { account, messageId, mode },
      )
    }
  })

  it('have the reason of their failure', () => {
    const reason = (value: Uint8Array) => {
      const read = headOf(value)
      return Result.isFailure(read) ? read.failure.reason : 'decoded'
    }
    const value = encodeRecord(accepted)
    assert.strictEqual(reason(new Uint8Array()), 'truncated')
    assert.strictEqual(reason(value.subarray(0, 60)), 'truncated')
    assert.strictEqual(reason(new TextEncoder().encode('{"message_id":1}')), 'not_wire_format')
    assert.strictEqual(reason(Uint8Array.from([0, 0, 0, 255, 255, 1])), 'unknown_schema')
    const sent = examples.find(({ type }) => type === 'MessageSent')!
    assert.strictEqual(reason(encodeRecord(sent)), 'unexpected_type')
    const mode = value.indexOf(accepted.account.length * 2, 40) + accepted.account.length + 1
    assert.strictEqual(value[mode], 2, 'the symbol `live`')
    assert.strictEqual(reason(value.with(mode, 0)), 'unknown_symbol')
    assert.strictEqual(reason(value.with(mode, 100)), 'malformed')
  })
})

describe('a record that cannot be decoded', () => {
  const good = encodeRecord({ type: 'MessageUndelivered', messageId: id, at, reason: 'delivery_failed' })

  it('has the reason of its failure', () => {
    assert.strictEqual(reasonOf(new Uint8Array()), 'truncated')
    assert.strictEqual(reasonOf(Uint8Array.from([0, 0, 0])), 'truncated')
    assert.strictEqual(reasonOf(new TextEncoder().encode('{"message_id":1}')), 'not_wire_format')
    assert.strictEqual(reasonOf(Uint8Array.from([0, 0, 0, 255, 255, 1])), 'unknown_schema')
    assert.strictEqual(reasonOf(good.subarray(0, good.length - 1)), 'truncated')
    assert.strictEqual(reasonOf(Uint8Array.from([...good, 0])), 'trailing_bytes')
    const badSymbol = Uint8Array.from(good)
    badSymbol[badSymbol.length - 1] = 120
    assert.strictEqual(reasonOf(badSymbol), 'malformed')
  })

  it('is a value for any damaged bytes', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...examples),
        fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { minLength: 1, maxLength: 4 }),
        fc.option(fc.nat(), { nil: undefined }),
        (record, changes, cut) => {
          let bytes = encodeRecord(record)
          for (const [position, byte] of changes) bytes[5 + (position % (bytes.length - 5))] = byte
          if (cut !== undefined) bytes = bytes.subarray(0, cut % bytes.length)
          const read = decodeRecord(bytes)
          return Result.isSuccess(read) || read.failure instanceof UndecodableRecord
        },
      ),
      { numRuns: 3000 },
    )
  })

  it('makes no decoder allocate an array that is longer than the record', () => {
    const sent = encodeRecord({
      type: 'MessageSent',
      messageId: '',
      at: 0,
      operator: '',
      operatorIds: [],
      reportDeadline: 0,
    })
    // Empty strings, zeros and absent values have one byte each. The deadline and the epoch follow
    // the array's length.
    const count = sent.length - 3
    const huge = [0xfe, 0xff, 0xff, 0xff, 0x0f]
    const bytes = Uint8Array.from([...sent.subarray(0, count), ...huge, ...sent.subarray(count)])
    assert.strictEqual(reasonOf(bytes), 'truncated')
  })

  it('is unexpected_type if the record is no fact', () => {
    const read = decodeFact({ value: encodeRecord(examples.find(({ type }) => type === 'ShardOpened')!) })
    assert.strictEqual(Result.isFailure(read) ? read.failure.reason : 'decoded', 'unexpected_type')
  })

  it('is unknown_symbol for a symbol of a newer writer', () => {
    const type = avro.Type.forSchema(
      SCHEMAS.find(({ name }) => name === 'SubscriptionChanged')!.schema as avro.Schema,
    )
    const body = type.toBuffer({ account: 'a', mode: 'unknown', subscription: 's', change: 'created', at: 1 })
    assert.strictEqual(reasonOf(Buffer.concat([Buffer.from([0, 0, 0, 0, 13]), body])), 'unknown_symbol')
    const carried = examples.find((record) => record.type === 'OpenMessagesCarried')!
    const last = carried.messages.at(-1)!
    const newer = { ...last, class: 'unknown' } as unknown as typeof last
    const value = encodeRecord({ ...carried, messages: [...carried.messages, newer] })
    assert.strictEqual(reasonOf(value), 'unknown_symbol', 'in a list')
  })
})

describe('outbox rows', () => {
  const records: ReadonlyArray<OutgoingRecord> = [
    { topic: 't', key: 'k', type: 'MessageSeen', id: '1', occurredAt: at, value: Uint8Array.from([1, 2]) },
    {
      topic: 't',
      key: 'ключ',
      partition: 3,
      type: 'MessageSeen',
      id: '2',
      occurredAt: at,
      traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
      headers: { dead_letter_reason: 'truncated', tracestate: 'rojo=1' },
      value: new Uint8Array(),
    },
  ]

  it('contain the records complete and in order', () => {
    const read = Result.getOrThrow(decodeOutboxRow(encodeOutboxRow(records)))
    assert.deepStrictEqual(read.map(bytesFirst), records.map(bytesFirst))
    assert.deepStrictEqual(Result.getOrThrow(decodeOutboxRow(encodeOutboxRow([]))), [])
  })

  it('have the reason of their damage', () => {
    const row = encodeOutboxRow(records)
    const reason = (bytes: Uint8Array) => {
      const read = decodeOutboxRow(bytes)
      return Result.isFailure(read) ? read.failure.reason : 'decoded'
    }
    assert.strictEqual(reason(new Uint8Array()), 'truncated')
    assert.strictEqual(reason(row.subarray(0, row.length - 3)), 'truncated')
    assert.strictEqual(reason(Uint8Array.from([...row, 9])), 'trailing_bytes')
    assert.strictEqual(reason(Uint8Array.from([2, ...row.subarray(1)])), 'not_wire_format')
  })
})

describe('reportOutcome', () => {
  it('preserves every reason that operators report', () => {
    for (const record of withReasons) {
      if (record.type !== 'DeliveryReportReceived') continue
      const { outcome: status, reason } = record
      assert.deepStrictEqual<object>(reportOutcome(record), { status, reason })
    }
  })

  it('preserves a reason of the status, and otherwise uses the default of the contract', () => {
    assert.deepStrictEqual(reportOutcome({ outcome: 'undelivered', reason: 'recipient_blocked' }), {
      status: 'undelivered',
      reason: 'recipient_blocked',
    })
    assert.deepStrictEqual(reportOutcome({ outcome: 'undelivered', reason: 'spam_filter_sender' }), {
      status: 'undelivered',
      reason: 'delivery_failed',
    })
    assert.deepStrictEqual(reportOutcome({ outcome: 'rejected', reason: null }), {
      status: 'rejected',
      reason: 'operator_rejected',
    })
    assert.deepStrictEqual(reportOutcome({ outcome: 'expired', reason: null }), {
      status: 'expired',
      reason: 'dlr_timeout',
    })
    assert.deepStrictEqual(reportOutcome({ outcome: 'delivered', reason: null }), { status: 'delivered' })
    assert.deepStrictEqual(reportOutcome({ outcome: 'seen', reason: null }), { status: 'seen' })
  })
})
