/** What a shard recovers from the log, and what it re-appends there for the next owner. */
import { Fence } from '@hub/actor'
import { assert, describe, it } from '@effect/vitest'
import { DEFAULT_LIFETIMES, encodeId, type MessageAccepted, newId } from '@hub/domain'
import { messageAccepted } from '@hub/domain/testing'
import {
  acceptedRecord,
  decodeOpenMessagesCarried,
  deliveryReportRecord,
  logRecord,
  type IncomingRecord,
  type OutgoingRecord,
  topicNames,
} from '@hub/kafka'
import { type OpenSubmission, SANDBOX } from '@hub/operator'
import { readTraceparent, Tracing } from '@hub/telemetry'
import { Context, Result } from 'effect'
import { randomBytes } from 'node:crypto'
import { makeMetrics } from '../metrics.ts'
import { MessageTraces } from '../tracing/message-traces.ts'
import { type ShardRuntime, makeShardRuntime } from './shard-runtime.ts'
import type { Message, PreparedSubmission } from './message.ts'

const SERVICE = 1
const MINUTE = 60_000
/** These tests do not decrypt payloads. */
const SUBMISSION = {} as PreparedSubmission
const topics = topicNames('unit.')
const TRACEPARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

const untraced = Context.get(Context.empty(), Tracing)
/** Continues every trace that has a `traceparent`. */
const continueTrace = (traceparent: string | null | undefined, tracestate?: string | null) => {
  const parent = readTraceparent(traceparent, tracestate)
  return parent === null ? null : untraced.childOf(parent)
}

const account = encodeId('acc', '0193a1b2-0000-7000-8000-000000000001')

const incoming = (record: OutgoingRecord, offset: number, now: number): IncomingRecord => ({
  topic: record.topic,
  partition: 0,
  offset,
  key: record.key,
  type: record.type,
  id: record.id,
  occurredAt: record.occurredAt,
  traceparent: record.traceparent ?? null,
  ...(record.headers?.['tracestate'] === undefined ? {} : { tracestate: record.headers['tracestate'] }),
  appendedAt: now,
  value: record.value,
})

/**
 * A member with one shard that has recovered from `before`. Its produces are acknowledged at once.
 */
const memberOf = (before: ReadonlyArray<OutgoingRecord>, now: number) => {
  const member = {
    now,
    log: [...before],
    resumed: [] as Array<OpenSubmission>,
    deadLetters: [] as Array<string>,
    submitted: [] as Array<Message>,
  }
  const fence = new Fence()
  const shard: ShardRuntime = makeShardRuntime(
    {
      shard: 0,
      isCurrent: () => true,
      hasLease: () => true,
      append: (record, onAppended) => onAppended(member.log.push(record) - 1),
    },
    {
      topics,
      lifetimes: DEFAULT_LIFETIMES,
      metrics: makeMetrics(Context.empty()),
      traces: new MessageTraces({ ...untraced, isOn: true, continueTrace }, 'unit'),
      now: () => member.now,
      // The shard re-appends open messages at every commit.
      limits: { buffer: 1000, open: 10_000, finished: 1000, reAppendBehind: -10_000 },
      memoryBudget: { used: 0, limit: 10_000 },
      operators: { test: 'op', live: 'op' },
      apply: (change) => change(),
      prepare: (_message, onPrepared) => onPrepared({ type: 'prepared', submission: SUBMISSION }),
      onLiveMessage: () => {},
      dedupes: () => false,
      onReady: () => {},
      enqueueClaimed: (_, message) => member.submitted.push(message),
      resume: (_operator, open) => member.resumed.push(...open),
      onDeadLetter: (_record, reason) => member.deadLetters.push(reason),
    },
  )
  for (const [offset, record] of before.entries()) shard.onLog(incoming(record, offset, now), fence)
  shard.onOpened({ epoch: 1, now, laneEnds: [0, 0], logPosition: before.length })
  return { ...member, member, shard }
}

const recipientOf = (i: number): string => i.toString(16).padStart(64, '0')

const messageOf = (i: number, now: number, by = account): MessageAccepted =>
  messageAccepted({
    messageId: newId('msg', now, randomBytes(10)),
    at: now,
    account: by,
    recipient: recipientOf(i),
    parts: 2,
    expiresAt: now + MINUTE,
  })

/** A shard with open messages that were submitted a minute ago. */
const withOpen = (count: number, traced: number) => {
  const { member, shard } = memberOf([], 1_700_000_000_000)
  for (let i = 0; i < count; i++) {
    const options = i === traced ? { traceparent: TRACEPARENT, tracestate: 'rojo=1' } : {}
    const record = acceptedRecord(topics, messageOf(i, member.now), options)
    shard.onLane(SERVICE, incoming(record, i, member.now))
  }
  const take = () => shard.messages.take(SERVICE, 'op', account)
  for (let message = take(); message !== null; message = take()) shard.start(message)
  for (const message of member.submitted) {
    const operatorIds = [`a-${message.id}`, `b-${message.id}`]
    const outcome = { type: 'accepted', operatorIds } as const
    shard.run({ type: 'answered', message, outcome, submission: SUBMISSION })
  }
  member.now += MINUTE
  return { member, shard }
}

const reportOf = (member: { readonly now: number }, { key }: Message, operatorId: string) =>
  deliveryReportRecord(topics, {
    type: 'DeliveryReportReceived',
    operator: 'op',
    operatorId,
    reference: null,
    recipient: key,
    outcome: 'delivered',
    reason: null,
    at: member.now,
    receivedAt: member.now,
    rawKey: null,
    rawCiphertext: null,
  })

describe('a message that counts as sent because its answer is lost', () => {
  const started = (operator: string, now: number) =>
    logRecord(
      topics,
      {
        type: 'HandoverStarted',
        messageId: newId('msg', now, randomBytes(10)),
        at: now,
        attempt: 1,
        epoch: 0,
        operator,
      },
      recipientOf(1),
      { partition: 0 },
    )
  const HOUR = 60 * MINUTE
  for (const [operator, after] of [
    [SANDBOX, 10_000],
    ['op', 26 * HOUR],
  ] as const) {
    it(`waits for the report of ${operator} for ${after / 1000} s`, () => {
      const now = 1_700_000_000_000
      const { member, shard } = memberOf([started(operator, now)], now)
      // The lanes are read, and do not contain the message.
      shard.onCommitted([0, 0], 1, now)
      assert.deepStrictEqual(
        member.log.slice(1).map(({ type }) => type),
        ['MessageSent'],
      )
      shard.onTick(now + after - 1)
      assert.lengthOf(member.log, 2)
      shard.onTick(now + after)
      assert.strictEqual(member.log.at(-1)?.type, 'MessageExpired')
    })
  }
})

describe('a lane with a long backlog of one account', () => {
  const other = encodeId('acc', '0193a1b2-0000-7000-8000-000000000002')
  const [BACKLOG, LATE] = [3000, 100]

  it('is read past the backlog, and the skipped records are read again, in order', () => {
    const { member, shard } = memberOf([], 1_700_000_000_000)
    const { messages } = shard
    const lane = [
      ...Array.from({ length: BACKLOG }, (_, i) => messageOf(i % 50, member.now)),
      ...Array.from({ length: LATE }, (_, i) => messageOf(50 + i, member.now, other)),
    ]
    const records = lane.map((accepted) => acceptedRecord(topics, accepted))
    // The shard decodes a skipped record only when it keeps it.
    const damaged = 2500
    records[damaged] = { ...records[damaged]!, value: records[damaged]!.value.slice(0, -3) }
    let position = 0
    let reads = 0
    const read = () => {
      member.now += 200
      position = shard.seekTarget?.(SERVICE, position) ?? position
      if (shard.isFull(SERVICE)) return
      for (let i = 0; i < 500 && position < records.length; i++, reads++) {
        shard.onLane(SERVICE, incoming(records[position]!, position++, member.now))
      }
    }

    while (position < records.length) read()
    assert.strictEqual(reads, records.length, 'each record is read once')
    assert.strictEqual(messages.openCount, 1000, 'the shard keeps no more than its buffer')
    assert.deepStrictEqual(member.deadLetters, [])
    assert.strictEqual(shard.lowestPinned().lanes[SERVICE], 0)

    const submit = (by: string) => {
      const message = messages.take(SERVICE, 'op', by)
      if (message === null) return false
      shard.start(message)
      const outcome = { type: 'accepted', operatorIds: [message.id] } as const
      shard.run({ type: 'answered', message, outcome, submission: SUBMISSION })
      return true
    }
    while (submit(other));
    assert.sameMembers(
      member.submitted.map(({ id }) => id),
      lane.slice(BACKLOG).map(({ messageId }) => messageId),
    )
    for (let round = 0; round < 1000 && member.submitted.length < records.length - 1; round++) {
      while (submit(account));
      read()
    }
    assert.deepStrictEqual(member.deadLetters, ['truncated'])
    const place = new Map(member.submitted.map(({ id }, i) => [id, i]))
    for (let i = 50; i < BACKLOG; i++) {
      if (i === damaged || i - 50 === damaged) continue
      assert.isAbove(
        place.get(lane[i]!.messageId)!,
        place.get(lane[i - 50]!.messageId)!,
        'the order of the messages to a recipient',
      )
    }
    assert.strictEqual(place.size, records.length - 1, 'each message once')
    assert.isAtMost(reads, 2.5 * records.length)
    assert.deepStrictEqual(shard.lowestPinned().lanes, [null, null])
  })
})

describe('a message that expired without a report', () => {
  it('pins its submit, so that another member resumes it for a late report', () => {
    const { member, shard } = withOpen(1, -1)
    const [message] = member.submitted
    const sentAt = member.log.findIndex(({ type }) => type === 'MessageSent')
    const deadline = 26 * 60 * MINUTE
    member.now += deadline
    shard.onTick(member.now)
    assert.strictEqual(member.log.at(-1)?.type, 'MessageExpired')
    const mark = shard.lowestPinned().log
    assert.isNotNull(mark)
    assert.isAtMost(mark, sentAt)
    const { member: nextMember } = memberOf(member.log.slice(mark), member.now)
    assert.deepStrictEqual(
      nextMember.resumed.map(({ operatorIds, reference }) => [reference, operatorIds]),
      [[message!.id, [`a-${message!.id}`, `b-${message!.id}`]]],
    )
  })
})

describe('re-appended open messages', () => {
  it('fill records of a hundred, and are all that another member needs', () => {
    const { member, shard } = withOpen(250, 7)
    const [first] = member.submitted
    shard.onReport(incoming(reportOf(member, first!, `a-${first!.id}`), 0, member.now))
    assert.strictEqual(
      shard.lowestPinned().reports,
      0,
      'the log does not contain the report of one part of two',
    )

    const end = member.log.length
    shard.onCommitted([0, 250], end, member.now)
    const reAppended = member.log.slice(end)
    const read = reAppended.map((record) => Result.getOrThrow(decodeOpenMessagesCarried(record)))
    assert.deepStrictEqual(
      read.map(({ messages }) => messages.length),
      [100, 100, 50],
    )
    assert.deepStrictEqual(shard.lowestPinned(), { lanes: [null, null], log: end, reports: null })

    const { member: nextMember, shard: nextShard } = memberOf(reAppended, member.now)
    assert.sameDeepMembers(
      nextMember.resumed,
      member.submitted.map(({ id, key }, i) => ({
        reference: id,
        recipient: key,
        operatorIds: i === 0 ? [`b-${id}`] : [`a-${id}`, `b-${id}`],
        sentAt: 1_700_000_000_000,
      })),
    )
    assert.strictEqual(nextShard.messages.openCount, 250)
    let report = 0
    for (const message of member.submitted) {
      for (const part of ['a', 'b']) {
        nextShard.onReport(
          incoming(reportOf(nextMember, message, `${part}-${message.id}`), report++, nextMember.now),
        )
      }
    }
    const reported = nextMember.log.slice(reAppended.length)
    assert.deepStrictEqual(
      reported.map(({ key, type }) => `${type} ${key}`),
      member.submitted.map(({ key }) => `MessageDelivered ${key}`),
    )
    assert.strictEqual(nextShard.messages.openCount, 0)
    assert.deepStrictEqual(
      reported.filter(({ traceparent }) => traceparent !== undefined).map(({ key }) => key),
      [recipientOf(7)],
      'the trace continues',
    )
  })

  it('contain the number of parts of a message whose answer was lost', () => {
    const { member, shard } = memberOf([], 1_700_000_000_000)
    shard.onLane(SERVICE, incoming(acceptedRecord(topics, messageOf(1, member.now)), 0, member.now))
    const message = shard.messages.take(SERVICE, 'op', account)!
    shard.start(message)
    shard.run({ type: 'answered', message, outcome: { type: 'unknown' }, submission: SUBMISSION })
    member.now += MINUTE
    shard.onCommitted([0, 1], member.log.length, member.now)
    const reAppended = member.log.slice(-1)
    assert.deepInclude(Result.getOrThrow(decodeOpenMessagesCarried(reAppended[0]!)).messages[0], {
      messageId: message.id,
      operatorIds: [],
      parts: 2,
    })

    const { member: nextMember, shard: nextShard } = memberOf(reAppended, member.now)
    for (const [offset, part] of ['a', 'b'].entries()) {
      nextShard.onReport(incoming(reportOf(nextMember, message, part), offset, nextMember.now))
      nextMember.now += 6000
      const due = nextShard.reportsToLookUp(10)
      assert.lengthOf(due, offset + 1)
      for (const parked of due) nextShard.run({ type: 'reportLookedUp', parked, known: null })
      assert.deepStrictEqual(
        nextMember.log.slice(1).map(({ type }) => type),
        part === 'a' ? [] : ['OpenMessageCarried', 'MessageDelivered'],
      )
    }
    assert.strictEqual(nextShard.messages.openCount, 0)
  })

  it('pin the log until the last message of a record is final', () => {
    const { member, shard } = withOpen(3, -1)
    const end = member.log.length
    shard.onCommitted([0, 3], end, member.now)
    assert.strictEqual(member.log.length, end + 1)
    let report = 0
    for (const message of member.submitted) {
      assert.strictEqual(shard.lowestPinned().log, end)
      for (const part of ['a', 'b']) {
        shard.onReport(incoming(reportOf(member, message, `${part}-${message.id}`), report++, member.now))
      }
    }
    assert.strictEqual(shard.lowestPinned().log, end + 1, 'the first final fact')
  })

  it('of a damaged record go to the dead-letter topic, and the shard reads on', () => {
    const { member, shard } = withOpen(2, -1)
    const end = member.log.length
    shard.onCommitted([0, 2], end, member.now)
    const record = member.log[end]!
    const { member: nextMember, shard: nextShard } = memberOf(
      [{ ...record, value: record.value.slice(0, -3) }, record],
      member.now,
    )
    assert.deepStrictEqual(nextMember.deadLetters, ['truncated'])
    assert.strictEqual(nextShard.messages.openCount, 2)
  })
})
