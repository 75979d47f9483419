/** The guarantees that the checker judges, and what it finds. */

export const GUARANTEES = {
  lost: 'An acknowledged message is never lost.',
  'not-final': 'Every message gets a final status.',
  'duplicate-submit': 'A message is submitted at most once.',
  'refused-but-sent': 'A refused send is never submitted.',
  'status-went-back': 'A status never goes back, and a final status never changes.',
  'client-ref': 'A `client_ref` identifies one message.',
  'idempotent-answer': 'A repeat with the same key gets the same answer.',
  'event-order': 'The journal is in order, and each event is in it once.',
  'event-missed': 'No event appears behind a cursor that a reader has passed.',
  'event-content': 'The journal agrees with the messages.',
  'webhook-signature': 'Each webhook is signed.',
  'webhook-missing': 'Each event reaches each subscription.',
  'webhook-content': 'A webhook agrees with the journal, and its events are in order.',
  charge: 'Charges equal the parts that the operator accepted, except for unknown outcomes.',
  'spend-limit': 'A spend limit is not exceeded.',
  'flood-window': 'A flood window is exceeded by at most one message for each fault.',
  'opt-out': 'An opt-out applies to each later `service` message.',
  unexplained: 'The contract explains each answer, submit, event and status.',
  unavailable: '`otp` is available again within 10 s of the end of each fault.',
} as const

export type Guarantee = keyof typeof GUARANTEES

export interface Finding {
  readonly guarantee: Guarantee
  /** What happened, with ids and times. */
  readonly detail: string
}
