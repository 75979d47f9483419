/**
 * The certification checklist that an account must fulfil before it gets a live key. The hub
 * observes some checks itself. A person confirms the others, because the hub cannot observe them.
 * Source: docs/integrating.md, Going live. A check names the rules of docs/contract that it is about.
 */

/** What the hub has observed of an account, in test mode unless stated otherwise. */
export interface ObservedActivity {
  readonly testKeys: number
  readonly delivered: number
  /** Messages with a final status other than `delivered`. */
  readonly failed: number
  /** Messages with a `client_ref`. */
  readonly references: number
  /** Attempts at an enabled subscription with a 2xx response, without test deliveries. */
  readonly webhooksReceived: number
  readonly liveSenders: number
  /** Approved live templates of registered senders. */
  readonly liveTemplates: number
}

/** The checks that a person confirms, with their meaning. */
const CONFIRMATIONS = {
  signature:
    'Hub-Signature or webhook-signature is verified: raw bytes, both secrets of a rotation, five minutes of tolerance (DEL-8 to DEL-10, DEL-25, DEL-26)',
  deduplication:
    'Events are dropped by event.id, in any order; unknown types and fields are ignored (DEL-3, DEL-5, VER-8)',
  retries:
    '429, 5xx and 409 are repeated after retry_after with the same Idempotency-Key, 422 is not (IDEM-6, IDEM-15)',
  catch_up:
    'After an outage events are read with GET /v1/events from the last one processed (EVT-10, EVT-11)',
  key_storage: 'The key is kept as a secret, and can be exchanged without a release (AUTH-3, AUTH-5)',
} as const
export type Confirmation = keyof typeof CONFIRMATIONS
export const CONFIRMATION_NAMES = Object.keys(CONFIRMATIONS) as ReadonlyArray<Confirmation>

export interface CertificationCheck {
  readonly name: string
  readonly wanted: string
  readonly fulfilled: boolean
  /** `seen`: the hub observes it. `confirmed`: a person confirms it. */
  readonly by: 'seen' | 'confirmed'
}

const seen = (name: string, fulfilled: boolean, wanted: string): CertificationCheck => ({
  name,
  wanted,
  fulfilled,
  by: 'seen',
})

/** Builds the checklist. An account is ready for live keys when all checks are fulfilled. */
export const certificationChecklist = (
  observed: ObservedActivity,
  confirmed: ReadonlySet<string>,
): ReadonlyArray<CertificationCheck> => [
  seen('test_key', observed.testKeys > 0, 'A test key was issued (AUTH-1)'),
  seen('delivered', observed.delivered > 0, 'A test message was delivered (MSG-1)'),
  seen(
    'failed',
    observed.failed > 0,
    'A test message did not arrive: the sandbox has numbers for that (SBX-3)',
  ),
  seen('references', observed.references > 0, 'Sends carry a client_ref (MSG-9)'),
  seen('webhooks', observed.webhooksReceived > 0, 'A subscription received events and answered 2xx (DEL-11)'),
  seen('live_sender', observed.liveSenders > 0, 'A sender is registered in live mode (SND-10)'),
  seen(
    'live_template',
    observed.liveTemplates > 0,
    'A template of a registered sender is approved in live mode (TPL-16)',
  ),
  ...CONFIRMATION_NAMES.map((name): CertificationCheck => ({
    name,
    wanted: CONFIRMATIONS[name],
    fulfilled: confirmed.has(name),
    by: 'confirmed',
  })),
]
