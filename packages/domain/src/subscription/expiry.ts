/** Why the retry window of a webhook batch ended. Source: DEL-23. */

/** Reasons in the delivery log without an attempt. */
export const EXPIRY_REASONS = ['retry_window_expired', 'retry_window_expired_while_disabled'] as const
export type ExpiryReason = (typeof EXPIRY_REASONS)[number]

/** When a subscription was disabled. Times are milliseconds since the epoch. */
export interface DisabledPeriods {
  /** `null` while it is enabled. */
  readonly disabledAt: number | null
  /** The last period that has ended; `null` if there was none. */
  readonly last: { readonly from: number; readonly until: number } | null
}

/**
 * The state of the subscription at `windowEndedAt` decides, not the state when the fan-out records
 * the expiry. The fan-out may have been down in between. It alone disables subscriptions, so a
 * subscription has at most one ended period after `windowEndedAt`.
 */
export const expiryReason = ({ disabledAt, last }: DisabledPeriods, windowEndedAt: number): ExpiryReason => {
  const disabledNow = disabledAt !== null && disabledAt <= windowEndedAt
  const disabledThen = last !== null && last.from <= windowEndedAt && windowEndedAt < last.until
  return disabledNow || disabledThen ? 'retry_window_expired_while_disabled' : 'retry_window_expired'
}
