/**
 * Events about aggregates: a batch is complete, an account has crossed its spend threshold. Selects
 * the candidates and makes the journal entries; the database decides that each happens once. Pure.
 */
import { batchCompleted, spendPeriodOf, spendThresholdCrossed } from '@hub/domain'
import type { BatchSealed } from '@hub/kafka'
import type { CommandSpendPeriods } from '@hub/store'
import type { BatchDelta } from '../messages/aggregate-deltas.ts'
import type { Charge, JournalEntry } from '../messages/fold.ts'
import type { ChargedPeriod, ClosedBatch, ClosingCandidate } from '../store/projection-store.port.ts'

/** Batches that may close now: they were sealed, or more of their messages are final. */
export const closingCandidates = (
  changes: ReadonlyArray<BatchDelta>,
  seals: ReadonlyArray<BatchSealed>,
): ReadonlyArray<ClosingCandidate> => [
  ...new Map(
    [...changes.filter(({ final, members }) => final > 0 || members < 0), ...seals].map(
      ({ account, batch, mode }) => [batch, { account, batch, mode }],
    ),
  ).values(),
]

/** Each charged account and period, without duplicates. */
export const chargedPeriods = (charges: ReadonlyArray<Charge>): ReadonlyArray<ChargedPeriod> => [
  ...new Map(
    charges
      .filter(({ kind }) => kind === 'charge')
      .map(({ account, amount, period }) => [
        `${account} ${period}`,
        { account, period, currency: amount.currency },
      ]),
  ).values(),
]

export const batchCompletedEntry = (closed: ClosedBatch): JournalEntry => ({
  account: closed.account,
  mode: closed.mode,
  event: batchCompleted(closed),
})

/** The mode is `live`, because test messages cost nothing. */
export const spendThresholdEntry = ({
  account,
  limit,
  period,
  softThresholdPercent,
  spent,
}: CommandSpendPeriods.CrossedThreshold): JournalEntry => ({
  account,
  mode: 'live',
  event: spendThresholdCrossed(account, {
    limit,
    spent,
    period: spendPeriodOf(Date.parse(period)),
    softThresholdPercent,
  }),
})
