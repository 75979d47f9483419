/**
 * What crossing a line tells: a batch that has closed, an account that has spent so much. The database decides that it
 * happens once (`closeBatches`, `tellThresholds`); here is what is told, and what may have to be told. Pure.
 */
import {
  batchCompleted,
  type BatchTally,
  type Mode,
  type Money,
  spendPeriodOf,
  spendThresholdCrossed,
} from '@hub/domain'
import type { BatchSealed } from '@hub/kafka'
import type { Charge, JournalEntry } from '../messages/fold.ts'
import type { BatchChange } from './deltas.ts'

/** A batch that a transaction has closed. */
export interface ClosedBatch extends BatchTally {
  readonly account: string
  readonly mode: Mode
}

/** An account that has crossed its soft threshold, as the transaction found it. */
export interface CrossedThreshold {
  readonly account: string
  /** First day of the period, `2026-11-01`. */
  readonly period: string
  readonly limit: Money
  readonly spent: Money
  readonly softThresholdPercent: number
}

/** A batch that this poll may close, and in whose journal that would be told. */
export interface Candidate {
  readonly batch: string
  readonly account: string
  readonly mode: Mode
}

/** Batches that may close now: their seal has come, or more of their messages are final. */
export const mayClose = (
  changes: ReadonlyArray<BatchChange>,
  seals: ReadonlyArray<BatchSealed>,
): ReadonlyArray<Candidate> => [
  ...new Map(
    [...changes.filter(({ final, members }) => final > 0 || members < 0), ...seals].map(
      ({ account, batch, mode }) => [batch, { account, batch, mode }],
    ),
  ).values(),
]

/** An account's spending in a period that a poll has charged. */
export interface Spender {
  readonly account: string
  readonly period: string
  readonly currency: string
}

/** Each account and period that something was charged to, once. */
export const spendersOf = (charges: ReadonlyArray<Charge>): ReadonlyArray<Spender> => [
  ...new Map(
    charges
      .filter(({ kind }) => kind === 'charge')
      .map(({ account, amount, period }) => [
        `${account} ${period}`,
        { account, period, currency: amount.currency },
      ]),
  ).values(),
]

export const completedEntry = (closed: ClosedBatch): JournalEntry => ({
  account: closed.account,
  mode: closed.mode,
  event: batchCompleted(closed),
})

/** Money is spent in live mode only. */
export const thresholdEntry = ({
  account,
  limit,
  period,
  softThresholdPercent,
  spent,
}: CrossedThreshold): JournalEntry => ({
  account,
  mode: 'live',
  event: spendThresholdCrossed(account, {
    limit,
    spent,
    period: spendPeriodOf(Date.parse(period)),
    softThresholdPercent,
  }),
})
