import { assert, describe, it } from '@effect/vitest'
import {
  encodeId,
  isFinal,
  type MessageAccepted,
  type MessageFact,
  minorUnits,
  type Status,
  toTimestamp,
} from '@hub/domain'
import fc from 'fast-check'
import { fold, derivedColumns } from './fold.ts'
import type { MessageRow } from './row.ts'
import {
  acceptedOf,
  account,
  idOf,
  interleave,
  makeModel,
  mixHistories,
  run,
  T,
  withRepeats,
  streamsArbitrary,
} from '../testing/model.ts'

const batch = encodeId('bat', '0193a1b2-0000-7000-8000-00000000ba71')
const NOVEMBER_ENDS = Date.UTC(2026, 11, 1)

/** Two messages of a batch, the second in the last millisecond of its month, and a test message. */
const lane: ReadonlyArray<MessageAccepted> = [
  acceptedOf(idOf(1), T, { batch }),
  acceptedOf(idOf(2), NOVEMBER_ENDS - 1, {
    batch,
    class: 'otp',
    template: 'otp_code',
    parts: 1,
    numberRange: '912',
  }),
  // Of a version that did not record the number range.
  acceptedOf(idOf(3), T, { mode: 'test', numberRange: null }),
]

/** Counts the statistics from the rows, as the contract defines them. */
const recount = (rows: Iterable<MessageRow>) => {
  const lines = new Map<string, Record<string, bigint>>()
  const fieldsOf = (line: string, fields: ReadonlyArray<string>) => {
    const known = lines.get(line) ?? Object.fromEntries(fields.map((field) => [field, 0n]))
    lines.set(line, known)
    return known
  }
  for (const row of rows) {
    const { subject } = row
    if (subject === null) continue
    const statuses: ReadonlyArray<Status> = ['delivered', 'undelivered', 'rejected', 'expired']
    const day = toTimestamp(subject.at).slice(0, 10)
    const hour = `${toTimestamp(subject.at).slice(0, 13)}:00:00.000Z`
    const { account: owner, class: messageClass, mode, numberRange, template } = subject
    const { currency } = subject.price
    const stats = [
      [day, owner, mode, messageClass, template, currency],
      [hour, owner, mode, row.reason ?? 'none', currency],
      ...(numberRange === null
        ? []
        : [[hour, owner, mode, messageClass, numberRange, row.reason ?? 'none', currency]]),
    ].map((key) => fieldsOf(key.join(' '), ['accepted', 'sent', 'parts', 'price', ...statuses]))
    const count = (line: Record<string, bigint>, field: string, by: bigint) => {
      line[field] = (line[field] ?? 0n) + by
    }
    for (const line of stats) {
      count(line, 'accepted', 1n)
      count(line, 'sent', row.acceptedByOperator ? 1n : 0n)
      count(line, 'parts', BigInt(subject.parts))
      count(line, 'price', minorUnits(derivedColumns(row).price ?? subject.price))
      if (isFinal(row.status)) count(line, row.status, 1n)
    }
    if (subject.batch === null) continue
    const members = fieldsOf([subject.batch, subject.account, subject.mode].join(' '), [
      'members',
      'final',
      ...statuses,
    ])
    count(members, 'members', 1n)
    if (isFinal(row.status)) {
      count(members, 'final', 1n)
      count(members, row.status, 1n)
    }
  }
  return Object.fromEntries(lines)
}

describe('aggregate deltas', () => {
  it('add up to the sums over the messages after every batch', () => {
    fc.assert(
      fc.property(streamsArbitrary, ({ choices, laneRepeats, histories, logRepeats, mix }) => {
        const log = mixHistories(histories, mix)
        const batches = interleave(withRepeats(lane, laneRepeats), withRepeats(log, logRepeats), choices)
        const model = makeModel()
        for (const batch of batches) {
          model.apply(batch)
          assert.deepStrictEqual(model.content().sums, recount(model.rows.values()))
        }
      }),
      { numRuns: 200 },
    )
  })

  it('charge and reverse each live message once, in the period of acceptance', () => {
    fc.assert(
      fc.property(streamsArbitrary, ({ choices, laneRepeats, histories, logRepeats, mix }) => {
        const log = mixHistories(histories, mix)
        const { charges, rows } = run(
          interleave(withRepeats(lane, laneRepeats), withRepeats(log, logRepeats), choices),
        )
        const expected = lane
          .filter(({ mode }) => mode === 'live')
          .flatMap(({ messageId, price }) => {
            const row = rows.get(messageId)
            assert.isDefined(row)
            const billed = derivedColumns(row).price?.amount === price.amount
            return billed ? [`${messageId} charge`] : [`${messageId} charge`, `${messageId} reversal`]
          })
        assert.deepStrictEqual(
          charges.map(({ kind, messageId }) => `${messageId} ${kind}`).toSorted(),
          expected,
        )
        for (const { account: owner, amount, period } of charges) {
          assert.deepStrictEqual(
            { owner, amount, period },
            { owner: account, amount: { amount: '4.00', currency: 'RUB' }, period: '2026-11-01' },
          )
        }
      }),
      { numRuns: 200 },
    )
  })

  it('contain no row without a change', () => {
    const messageId = idOf(1)
    const first = run([[acceptedOf(messageId, T, { batch })]])
    const { batches, charges, dailyStats, hourlyStats, rangeStats } = fold(first.rows, [
      { type: 'HandoverStarted', messageId, at: T + 1, epoch: 1, attempt: 1, operator: 'http' },
      { type: 'MessageSeen', messageId, at: T + 2 },
    ])
    assert.deepStrictEqual([batches, charges, dailyStats, hourlyStats, rangeStats], [[], [], [], [], []])
  })

  it('follow a late report, without another final message in the batch', () => {
    const messageId = idOf(1)
    const first = run([
      [
        acceptedOf(messageId, T, { batch }),
        { type: 'MessageExpired', messageId, at: T + 1, reason: 'dlr_timeout_local' },
      ],
    ])
    const { batches, charges, dailyStats, hourlyStats, rangeStats } = fold(first.rows, [
      { type: 'MessageDelivered', messageId, at: T + 2 },
    ])
    const moved = { delivered: 1, undelivered: 0, rejected: 0, expired: -1 }
    assert.deepStrictEqual(batches, [{ batch, account, mode: 'live', members: 0, final: 0, ...moved }])
    assert.deepInclude(dailyStats[0], { ...moved, accepted: 0, sent: 0, parts: 0, price: '0.00' })
    // The message leaves the row of its reason code, and joins that of messages without one.
    const left = { accepted: -1, sent: -1, ...moved, delivered: 0, parts: -2, price: '-4.00' }
    const joined = { accepted: 1, sent: 1, ...moved, expired: 0, parts: 2, price: '4.00' }
    const key = { hour: '2026-11-21T00:00:00.000Z', account, mode: 'live', currency: 'RUB' } as const
    assert.deepStrictEqual(hourlyStats, [
      { ...key, reason: 'dlr_timeout_local', ...left },
      { ...key, reason: null, ...joined },
    ])
    const inRange = { ...key, class: 'service', numberRange: '900' } as const
    assert.deepStrictEqual(rangeStats, [
      { ...inRange, reason: 'dlr_timeout_local', ...left },
      { ...inRange, reason: null, ...joined },
    ])
    assert.deepStrictEqual(charges, [])
  })

  it('do not change when a message is published again by another batch', () => {
    const messageId = idOf(1)
    const other = encodeId('bat', '0193a1b2-0000-7000-8000-00000000ba72')
    const first = run([
      [acceptedOf(messageId, T, { batch }), { type: 'MessageDelivered', messageId, at: T + 1 }],
    ])
    const again = acceptedOf(messageId, T + 5, { batch: other, republished: true })
    for (const fact of [again, { ...again, batch: null }]) {
      const { batches, updated } = fold(first.rows, [fact])
      assert.deepStrictEqual([batches, updated], [[], []])
    }
  })

  it.each([
    ['queued', [], 0],
    ['submitted', [{ type: 'MessageSent', operator: 'http', operatorIds: [], reportDeadline: T }], 1],
    ['never submitted', [{ type: 'MessageExpired', reason: 'ttl_expired_before_submit' }], 0],
    ['rejected at handover', [{ type: 'MessageRejected', reason: 'spam_filter_content' }], 0],
    ['undeliverable at handover', [{ type: 'MessageUndelivered', reason: 'recipient_nonexistent' }], 0],
    [
      'rejected by a report',
      [
        { type: 'MessageSent', operator: 'http', operatorIds: [], reportDeadline: T },
        { type: 'MessageRejected', reason: 'operator_rejected' },
      ],
      1,
    ],
    ['expired at the operator', [{ type: 'MessageExpired', reason: 'dlr_timeout' }], 1],
    ['delivered', [{ type: 'MessageDelivered' }], 1],
  ] as const)('count messages as sent that an operator accepted: %s', (_, facts, sent) => {
    const messageId = idOf(1)
    const history = facts.map((fact) => ({ ...fact, messageId, at: T + 1 })) as ReadonlyArray<MessageFact>
    assert.strictEqual(fold(new Map(), [acceptedOf(messageId), ...history]).dailyStats[0]?.sent, sent)
    // The same result when the acceptance is applied last, in another batch.
    const late = run([history])
    assert.strictEqual(fold(late.rows, [acceptedOf(messageId)]).dailyStats[0]?.sent, sent)
  })
})
