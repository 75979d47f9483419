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

/** Two of a batch, the second in the last millisecond of its month; one alone, in test mode. */
const lane: ReadonlyArray<MessageAccepted> = [
  acceptedOf(idOf(1), T, { batch }),
  acceptedOf(idOf(2), NOVEMBER_ENDS - 1, { batch, class: 'otp', template: 'otp_code', parts: 1 }),
  acceptedOf(idOf(3), T, { mode: 'test' }),
]

/** The statistics counted anew from what rows show, by the words of the contract. */
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

describe('sums over messages', () => {
  it('are at every moment what the messages add up to', () => {
    fc.assert(
      fc.property(streamsArbitrary, ({ choices, laneRepeats, lives, logRepeats, mix }) => {
        const log = mixHistories(lives, mix)
        const polls = interleave(withRepeats(lane, laneRepeats), withRepeats(log, logRepeats), choices)
        const model = makeModel()
        for (const poll of polls) {
          model.apply(poll)
          assert.deepStrictEqual(model.content().sums, recount(model.rows.values()))
        }
      }),
      { numRuns: 200 },
    )
  })

  it('are charged and reversed once for each live message, in the period of acceptance', () => {
    fc.assert(
      fc.property(streamsArbitrary, ({ choices, laneRepeats, lives, logRepeats, mix }) => {
        const log = mixHistories(lives, mix)
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

  it('have no line for what changes nothing of them', () => {
    const messageId = idOf(1)
    const first = run([[acceptedOf(messageId, T, { batch })]])
    const { batches, charges, stats } = fold(first.rows, [
      { type: 'HandoverStarted', messageId, at: T + 1, epoch: 1, attempt: 1, operator: 'http' },
      { type: 'MessageSeen', messageId, at: T + 2 },
    ])
    assert.deepStrictEqual({ batches, charges, stats }, { batches: [], charges: [], stats: [] })
  })

  it('move with a late report, and the batch has no more final messages than before', () => {
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

  it('go with a message that was sent anew in another batch, or in none', () => {
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

    // Whatever is read twice, and of the first one whenever it comes again.
    const rows = new Map(moved.updated.map((row) => [row.messageId, row]))
    assert.deepStrictEqual(fold(rows, [acceptedOf(messageId, T, { batch }), again]).updated, [])
  })

  it.each([
    ['queued', [], 0],
    ['handed over', [{ type: 'MessageSent', operator: 'http', operatorIds: [], reportDeadline: T }], 1],
    ['never handed over', [{ type: 'MessageExpired', reason: 'ttl_expired_before_submit' }], 0],
    ['refused at hand-over', [{ type: 'MessageRejected', reason: 'spam_filter_content' }], 0],
    [
      'known to be nobody’s at hand-over',
      [{ type: 'MessageUndelivered', reason: 'recipient_nonexistent' }],
      0,
    ],
    [
      'rejected by a report',
      [
        { type: 'MessageSent', operator: 'http', operatorIds: [], reportDeadline: T },
        { type: 'MessageRejected', reason: 'operator_rejected' },
      ],
      1,
    ],
    ['given up by the operator', [{ type: 'MessageExpired', reason: 'dlr_timeout' }], 1],
    ['delivered', [{ type: 'MessageDelivered' }], 1],
  ] as const)('count as sent what an operator has had: %s', (_, facts, sent) => {
    const messageId = idOf(1)
    const life = facts.map((fact) => ({ ...fact, messageId, at: T + 1 })) as ReadonlyArray<MessageFact>
    assert.strictEqual(fold(new Map(), [acceptedOf(messageId), ...life]).stats[0]?.sent, sent)
    // The same when the acceptance is read last, in another poll.
    const late = run([life])
    assert.strictEqual(fold(late.rows, [acceptedOf(messageId)]).stats[0]?.sent, sent)
  })
})

describe('what may have to be told', () => {
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

  it('is of batches that are sealed, have more final messages or fewer members, each once', () => {
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
    // What it waited for belongs to another one.
    assert.deepStrictEqual(closingCandidates([{ ...change, batch: other, members: -1, final: 0 }], []), [
      { ...owner, batch: other },
    ])
  })

  it('is of accounts by period, not of reversals', () => {
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

  it('goes to the journal of the account and the mode', () => {
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
