/**
 * The checklist before a live key: what an integration must have shown in test mode, and what somebody has to confirm because the hub cannot see it.
 * Pure. Source: specification, Authentication, 2; each point names the section that it comes from.
 */

/** What the hub has seen of an account, in test mode unless it says otherwise. */
export interface ObservedActivity {
  readonly testKeys: number
  readonly delivered: number
  /** Final without having arrived. */
  readonly failed: number
  /** Messages with a `client_ref`. */
  readonly references: number
  /** Attempts at an enabled subscription that its receiver answered with 2xx; trials do not count. */
  readonly webhooksReceived: number
  readonly liveSenders: number
  /** Approved, of a registered sender, in live mode. */
  readonly liveTemplates: number
}

/** What is confirmed by a person, with what that means. */
export const CONFIRMATIONS = {
  signature:
    'Hub-Signature is verified: raw bytes, both secrets of a rotation, five minutes of tolerance (Events, Signature)',
  deduplication:
    'Events are dropped by event.id, in any order; unknown types and fields are ignored (Delivery of events, 3 and 4)',
  retries:
    '429, 5xx and 409 are repeated after retry_after with the same Idempotency-Key, 422 is not (Idempotency, 7)',
  catch_up:
    'After an outage events are read with GET /v1/events from the last one processed (Delivery of events, 10)',
  key_storage:
    'The key is kept as a secret, and can be exchanged without a release (Authentication, 2 and 4)',
} as const
export type Confirmation = keyof typeof CONFIRMATIONS
export const CONFIRMATION_NAMES = Object.keys(CONFIRMATIONS) as ReadonlyArray<Confirmation>

export interface CertificationCheck {
  readonly name: string
  /** What is asked for. */
  readonly wanted: string
  readonly fulfilled: boolean
  /** `seen`: the hub looks for itself; `confirmed`: a person says so. */
  readonly by: 'seen' | 'confirmed'
}

const seen = (name: string, fulfilled: boolean, wanted: string): CertificationCheck => ({
  name,
  wanted,
  fulfilled,
  by: 'seen',
})

/** The whole checklist. The account is ready for live keys when each point is fulfilled. */
export const certificationChecklist = (
  evidence: ObservedActivity,
  confirmed: ReadonlySet<string>,
): ReadonlyArray<CertificationCheck> => [
  seen('test_key', evidence.testKeys > 0, 'A test key was issued (Authentication, 2)'),
  seen('delivered', evidence.delivered > 0, 'A test message was delivered (Rules of POST /v1/messages, 1)'),
  seen(
    'failed',
    evidence.failed > 0,
    'A test message did not arrive: the sandbox has numbers for that (States)',
  ),
  seen('references', evidence.references > 0, 'Sends carry a client_ref (Idempotency, 8)'),
  seen(
    'webhooks',
    evidence.webhooksReceived > 0,
    'A subscription received events and answered 2xx (Delivery of events, 5)',
  ),
  seen(
    'live_sender',
    evidence.liveSenders > 0,
    'A sender is registered in live mode (Rules of POST /v1/messages, 3)',
  ),
  seen(
    'live_template',
    evidence.liveTemplates > 0,
    'A template of a registered sender is approved in live mode (What the service does)',
  ),
  ...CONFIRMATION_NAMES.map((name): CertificationCheck => ({
    name,
    wanted: CONFIRMATIONS[name],
    fulfilled: confirmed.has(name),
    by: 'confirmed',
  })),
]
