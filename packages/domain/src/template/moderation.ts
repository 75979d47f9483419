/**
 * Moderation of templates and registration of senders: both are the operator's to decide, and the hub's operator writes down what was decided. Pure.
 * Source: specification, What the service does; contract, Templates and senders, Events.
 */
import { eventIdOf, type PublicEvent } from '../event/event.ts'
import { type MessageClass, type Mode, toTimestamp } from '../vocabulary.ts'
import type { SenderStatus, TemplateStatus } from './admission.ts'

/** A new template: in test mode moderation is not awaited. */
export const newTemplateStatus = (mode: Mode): TemplateStatus =>
  mode === 'test' ? 'approved' : 'pending_moderation'

/** A new sender: in test mode it is registered at once. */
export const newSenderStatus = (mode: Mode): SenderStatus => (mode === 'test' ? 'registered' : 'pending')

/** What was decided, with the reason of a refusal. */
export type ModerationDecision =
  | { readonly approved: true }
  | { readonly approved: false; readonly reason: string }

/** What is different after a decision. */
export interface ModerationState<Status> {
  readonly status: Status
  readonly reason: string | null
}

const decided = <Status>(
  before: ModerationState<Status>,
  verdict: ModerationDecision,
  statuses: { readonly approved: Status; readonly declined: Status },
): ModerationState<Status> | null => {
  const after: ModerationState<Status> = verdict.approved
    ? { status: statuses.approved, reason: null }
    : { status: statuses.declined, reason: verdict.reason }
  return after.status === before.status && after.reason === before.reason ? null : after
}

/**
 * A template after a decision; `null` when it says what is in force already. A decision may be taken back: what was approved is declined when
 * the operator changes its mind, and what was declined is approved once it has been set right with them.
 */
export const moderateTemplate = (
  before: ModerationState<TemplateStatus>,
  verdict: ModerationDecision,
): ModerationState<TemplateStatus> | null =>
  decided(before, verdict, { approved: 'approved', declined: 'declined' })

/** A sender after a decision, in the same way. */
export const moderateSender = (
  before: ModerationState<SenderStatus>,
  verdict: ModerationDecision,
): ModerationState<SenderStatus> | null =>
  decided(before, verdict, { approved: 'registered', declined: 'declined' })

interface Named {
  readonly id: string
  readonly name: string
  readonly mode: Mode
  /** Milliseconds since the epoch. */
  readonly createdAt: number
}

/** What the account is told of a template: all but its text, since events hold none. */
export interface DecidedTemplate extends Named, ModerationState<TemplateStatus> {
  readonly class: MessageClass
  readonly sender: string
}

/** And of a sender: all but what was given for its registration. */
export interface DecidedSender extends Named, ModerationState<SenderStatus> {}

/** Tells a decision that was made at `at` (milliseconds since the epoch). There may be several about one template, so the event's id is of both. */
export const templateDecided = (
  template: DecidedTemplate,
  at: number,
): PublicEvent<object, 'template.approved' | 'template.declined'> => {
  const type = template.status === 'approved' ? 'template.approved' : 'template.declined'
  return {
    id: eventIdOf(`${template.id} ${toTimestamp(at)}`, type),
    type,
    object: {
      id: template.id,
      object: 'template',
      name: template.name,
      class: template.class,
      sender: template.sender,
      status: template.status,
      reason: template.reason,
      created_at: toTimestamp(template.createdAt),
      mode: template.mode,
    },
  }
}

/** The same for a sender. */
export const senderDecided = (
  sender: DecidedSender,
  at: number,
): PublicEvent<object, 'sender.registered' | 'sender.declined'> => {
  const type = sender.status === 'registered' ? 'sender.registered' : 'sender.declined'
  return {
    id: eventIdOf(`${sender.id} ${toTimestamp(at)}`, type),
    type,
    object: {
      id: sender.id,
      object: 'sender',
      name: sender.name,
      status: sender.status,
      reason: sender.reason,
      created_at: toTimestamp(sender.createdAt),
      mode: sender.mode,
    },
  }
}
