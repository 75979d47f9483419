/** What becomes of a message sent with a test key, by recipient number. Source: contract, Sandbox numbers. */

export const SANDBOX_SCENARIOS = [
  'delivered',
  'recipient_unreachable',
  'recipient_nonexistent',
  'recipient_blocked',
  /** Rejected at hand-over, `spam_filter_content`; never `sent`. */
  'rejected_at_handover',
  /** Sent, then rejected by report, `spam_filter_sender`. */
  'rejected_by_report',
  'dlr_timeout',
  /** No report ever: `dlr_timeout_local` at the sandbox's report deadline. */
  'silent',
  /** A second send within five minutes is refused, window `pause`. */
  'anti_flood',
  /** Delivered, then a read receipt. */
  'seen',
  /** Waits out the sandbox's lifetime: `ttl_expired_before_submit`. */
  'never_handed_over',
  /** As `silent`, then delivered by a late report. */
  'silent_then_delivered',
  /** Refused at acceptance for class `service`. */
  'opted_out',
] as const
export type SandboxScenario = (typeof SANDBOX_SCENARIOS)[number]

const scenarioOfNumber: ReadonlyMap<string, SandboxScenario> = new Map(
  SANDBOX_SCENARIOS.map((scenario, i) => [`+790000000${String(i + 1).padStart(2, '0')}`, scenario]),
)

/** The scenario of a number; every number outside the table is delivered. */
export const sandboxScenario = (number: string): SandboxScenario =>
  scenarioOfNumber.get(number) ?? 'delivered'
