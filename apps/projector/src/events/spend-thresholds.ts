/**
 * Finds accounts that have reached their soft threshold without a charge: hub staff have set or
 * lowered the limit or the threshold. A charge that reaches it is found with its message.
 * Source: EVT-8, EVT-9.
 */
import { CURRENCY } from '@hub/domain'
import { CommandSpendPeriods, type Queries } from '@hub/store'
import type { TakenEntries } from '../store/projection-store.port.ts'
import { spendThresholdEntry } from './aggregate-events.ts'

/** Accounts of one transaction, which locks their spend. */
const ACCOUNTS_PER_TRANSACTION = 100

export const takeSpendThresholds = async (q: Queries): Promise<TakenEntries> => {
  const reached = await CommandSpendPeriods.markReachedThresholds(q, CURRENCY, ACCOUNTS_PER_TRANSACTION)
  return {
    entries: reached.map(spendThresholdEntry),
    isFull: reached.length === ACCOUNTS_PER_TRANSACTION,
  }
}
