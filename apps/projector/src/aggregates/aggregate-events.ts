/**
 * Events about aggregates: a batch is complete, an account has crossed its spend threshold. The
 * database decides that each happens once (`closeBatches`, `markCrossedThresholds`). This file
 * selects the candidates and makes the journal entries. Pure.
 */
import { batchCompleted, type BatchTally, type Mode, spendPeriodOf, spendThresholdCrossed } from '@hub/domain'
import type { BatchSealed } from '@hub/kafka'
import type { CommandSpendPeriods } from '@hub/store'
import type { Charge, JournalEntry } from '../messages/fold.ts'
import type { BatchDelta } from './deltas.ts'

/** A batch that a transaction has closed. */
export interface ClosedBatch extends BatchTally {
  readonly account: string
  readonly mode: Mode
}

/** A batch that this transaction may close, with the owner of its journal. */
interface ClosingCandidate {
  readonly batch: string
  readonly account: string
  readonly mode: Mode
}

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

/** An account and a period to which a transaction adds charges. */
interface ChargedPeriod {
  readonly account: string
  readonly period: string
  readonly currency: string
}

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
