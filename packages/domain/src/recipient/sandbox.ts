/** The sandbox scenarios by recipient number. */

export const SANDBOX_SCENARIOS = [
  'delivered',
  'recipient_unreachable',
  'recipient_nonexistent',
  'recipient_blocked',
  /** Rejected on submit with `spam_filter_content`, so it is never `sent`. */
  'rejected_at_submit',
  /** Sent, then rejected by a delivery report with `spam_filter_sender`. */
  'rejected_by_report',
  'dlr_timeout',
  /** No report: expires with `dlr_timeout_local` at the sandbox's report deadline. */
  'silent',
  /** A second send within five minutes is refused with window `pause`. */
  'anti_flood',
  /** Delivered, then read. */
  'seen',
  /** Never submitted: expires with `ttl_expired_before_submit` in the sandbox. */
  'always_throttled',
  /** Like `silent`, then corrected to `delivered` by a late report. */
  'silent_then_delivered',
  /** Opted out: refused at acceptance for class `service`. */
  'opted_out',
] as const
export type SandboxScenario = (typeof SANDBOX_SCENARIOS)[number]

const scenarioOfNumber: ReadonlyMap<string, SandboxScenario> = new Map(
  SANDBOX_SCENARIOS.map((scenario, i) => [`+790000000${String(i + 1).padStart(2, '0')}`, scenario]),
)

/** Returns the scenario of a number. All numbers without a special scenario are delivered. */
export const sandboxScenario = (number: string): SandboxScenario =>
  scenarioOfNumber.get(number) ?? 'delivered'

/** The pause of the number with the scenario `anti_flood`. No other sandbox number has a window. */
export const SANDBOX_PAUSE_SECONDS = 300
