/**
 * Finds accounts that have reached their soft threshold without a charge: hub staff have set or
 * lowered the limit or the threshold. A charge that reaches it is found with its message.
 * Source: contract amendments, Spend.
 */
import { CURRENCY } from '@hub/domain'
import { CommandSpendPeriods } from '@hub/store'
import { Duration } from 'effect'
import { spendThresholdEntry } from './aggregate-events.ts'
import type { EventSource } from './event-sources.ts'

/** Accounts of one transaction, which locks their spend. */
const ACCOUNTS_PER_TRANSACTION = 100

/** A limit is changed rarely. The query reads one row for each account with a limit. */
export const spendThresholds: EventSource = {
  name: 'spend thresholds',
  interval: Duration.seconds(5),
  take: async (q) => {
    const reached = await CommandSpendPeriods.markReachedThresholds(q, CURRENCY, ACCOUNTS_PER_TRANSACTION)
    return {
      entries: reached.map(spendThresholdEntry),
      isFull: reached.length === ACCOUNTS_PER_TRANSACTION,
    }
  },
}
