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
import { fold, derivedColumns } from '../messages/fold.ts'
import type { MessageRow } from '../messages/row.ts'
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
import {
  batchCompletedEntry,
  closingCandidates,
  chargedPeriods,
  spendThresholdEntry,
} from './aggregate-events.ts'

const batch = encodeId('bat', '0193a1b2-0000-7000-8000-00000000ba71')
const NOVEMBER_ENDS = Date.UTC(2026, 11, 1)

/** Two messages of a batch, the second in the last millisecond of its month, and a test message. */
const lane: ReadonlyArray<MessageAccepted> = [
  acceptedOf(idOf(1), T, { batch }),
  acceptedOf(idOf(2), NOVEMBER_ENDS - 1, { batch, class: 'otp', template: 'otp_code', parts: 1 }),
  acceptedOf(idOf(3), T, { mode: 'test' }),
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
    const stats = fieldsOf(
      [day, subject.account, subject.mode, subject.class, subject.template, subject.price.currency].join(' '),
      ['accepted', 'sent', 'parts', 'price', ...statuses],
    )
    const count = (line: Record<string, bigint>, field: string, by: bigint) => {
      line[field] = (line[field] ?? 0n) + by
    }
    count(stats, 'accepted', 1n)
    count(stats, 'sent', row.handedOver ? 1n : 0n)
    count(stats, 'parts', BigInt(subject.parts))
    count(stats, 'price', minorUnits(derivedColumns(row).price ?? subject.price))
    if (isFinal(row.status)) count(stats, row.status, 1n)
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
    const { batches, charges, stats } = fold(first.rows, [
      { type: 'HandoverStarted', messageId, at: T + 1, epoch: 1, attempt: 1, operator: 'http' },
      { type: 'MessageSeen', messageId, at: T + 2 },
    ])
    assert.deepStrictEqual({ batches, charges, stats }, { batches: [], charges: [], stats: [] })
  })

  it('follow a late report, without another final message in the batch', () => {
    const messageId = idOf(1)
    const first = run([
      [
        acceptedOf(messageId, T, { batch }),
        { type: 'MessageExpired', messageId, at: T + 1, reason: 'dlr_timeout_local' },
      ],
    ])
    const { batches, charges, stats } = fold(first.rows, [{ type: 'MessageDelivered', messageId, at: T + 2 }])
    const moved = { delivered: 1, undelivered: 0, rejected: 0, expired: -1 }
    assert.deepStrictEqual(batches, [{ batch, account, mode: 'live', members: 0, final: 0, ...moved }])
    assert.deepInclude(stats[0], { ...moved, accepted: 0, sent: 0, parts: 0, price: '0.00' })
    assert.deepStrictEqual(charges, [])
  })

  it('move a message that was sent again to its new batch, or to none', () => {
    const messageId = idOf(1)
    const other = encodeId('bat', '0193a1b2-0000-7000-8000-00000000ba72')
    const first = run([
      [acceptedOf(messageId, T, { batch }), { type: 'MessageDelivered', messageId, at: T + 1 }],
    ])
    const none = { undelivered: 0, rejected: 0, expired: 0 }
    const left = { batch, account, mode: 'live', ...none, delivered: -1, members: -1, final: -1 } as const
    const again = acceptedOf(messageId, T + 5, { batch: other, republished: true })
    const moved = fold(first.rows, [again])
    assert.deepStrictEqual(moved.batches, [
      left,
      { batch: other, account, mode: 'live', ...none, delivered: 1, members: 1, final: 1 },
    ])
    assert.deepStrictEqual([moved.stats, moved.charges, moved.events, moved.history], [[], [], [], []])
    assert.deepStrictEqual(fold(first.rows, [{ ...again, batch: null }]).batches, [left])

    // A repetition of either acceptance changes nothing.
    const rows = new Map(moved.updated.map((row) => [row.messageId, row]))
    assert.deepStrictEqual(fold(rows, [acceptedOf(messageId, T, { batch }), again]).updated, [])
  })

  it.each([
    ['queued', [], 0],
    ['handed over', [{ type: 'MessageSent', operator: 'http', operatorIds: [], reportDeadline: T }], 1],
    ['never handed over', [{ type: 'MessageExpired', reason: 'ttl_expired_before_submit' }], 0],
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
    assert.strictEqual(fold(new Map(), [acceptedOf(messageId), ...history]).stats[0]?.sent, sent)
    // The same result when the acceptance is applied last, in another batch.
    const late = run([history])
    assert.strictEqual(fold(late.rows, [acceptedOf(messageId)]).stats[0]?.sent, sent)
  })
})

describe('aggregate events', () => {
  const seal = {
    type: 'BatchSealed',
    batch,
    account,
    mode: 'live',
    total: 1,
    accepted: 0,
    duplicate: 0,
    rejected: 1,
    createdAt: T,
    at: T,
  } as const

  it('consider each batch once that is sealed, or has more final messages or fewer members', () => {
    const other = encodeId('bat', '0193a1b2-0000-7000-8000-00000000ba72')
    const change = {
      account,
      mode: 'live',
      members: 1,
      delivered: 1,
      undelivered: 0,
      rejected: 0,
      expired: 0,
    } as const
    const owner = { account, mode: 'live' } as const
    assert.deepStrictEqual(closingCandidates([], [seal, seal]), [{ ...owner, batch }])
    assert.deepStrictEqual(closingCandidates([{ ...change, batch, final: 1 }], [seal]), [{ ...owner, batch }])
    assert.deepStrictEqual(closingCandidates([{ ...change, batch: other, final: 0 }], []), [])
    // The message for which the batch waited belongs to another batch.
    assert.deepStrictEqual(closingCandidates([{ ...change, batch: other, members: -1, final: 0 }], []), [
      { ...owner, batch: other },
    ])
  })

  it('consider the charged periods of accounts, and no reversals', () => {
    const amount = { amount: '4.00', currency: 'RUB' }
    const charge = {
      messageId: idOf(1),
      kind: 'charge',
      account,
      period: '2026-11-01',
      amount,
      at: T,
    } as const
    assert.deepStrictEqual(chargedPeriods([charge, charge, { ...charge, period: '2026-12-01' }]), [
      { account, period: '2026-11-01', currency: 'RUB' },
      { account, period: '2026-12-01', currency: 'RUB' },
    ])
    assert.deepStrictEqual(chargedPeriods([{ ...charge, kind: 'reversal' }]), [])
  })

  it('belong to the journal of the account and mode', () => {
    const counts = { total: 1, accepted: 1, duplicate: 0, delivered: 1, undelivered: 0, expired: 0 }
    assert.deepInclude(
      batchCompletedEntry({
        batch,
        account,
        mode: 'test',
        createdAt: T,
        closed: true,
        ...counts,
        rejectedAtAcceptance: 0,
        rejectedByOperator: 0,
      }),
      { account, mode: 'test' },
    )
    const money = (amount: string) => ({ amount, currency: 'RUB' })
    const { event, mode } = spendThresholdEntry({
      account,
      period: '2026-11-01',
      limit: money('10.00'),
      spent: money('8.00'),
      softThresholdPercent: 80,
    })
    assert.strictEqual(mode, 'live')
    assert.deepInclude(event.object, {
      period: { from: '2026-11-01T00:00:00.000Z', to: '2026-12-01T00:00:00.000Z' },
    })
  })
})
