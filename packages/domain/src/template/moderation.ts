/**
 * Moderation of templates and registration of senders. The SMS operator decides, and the hub
 * operator records the decision with hubctl. Source: TPL-8, SND-4, EVT-7.
 */
import { eventIdOf, type PublicEvent } from '../event/event.ts'
import type { MessageClass, Mode } from '../values/classification.ts'
import { toTimestamp } from '../values/timestamp.ts'
import type { SenderStatus, TemplateStatus } from './admission.ts'

/** The status of a new template. Test mode does not wait for moderation. */
export const newTemplateStatus = (mode: Mode): TemplateStatus =>
  mode === 'test' ? 'approved' : 'pending_moderation'

/** The status of a new sender. Test mode does not wait for registration. */
export const newSenderStatus = (mode: Mode): SenderStatus => (mode === 'test' ? 'registered' : 'pending')

/** A decision. A refusal has a reason. */
export type ModerationDecision =
  | { readonly approved: true }
  | { readonly approved: false; readonly reason: string }

/** The part of a template or sender that a decision changes. */
export interface ModerationState<Status> {
  readonly status: Status
  readonly reason: string | null
}

const applyDecision = <Status>(
  before: ModerationState<Status>,
  decision: ModerationDecision,
  statuses: { readonly approved: Status; readonly declined: Status },
): ModerationState<Status> | null => {
  const after: ModerationState<Status> = decision.approved
    ? { status: statuses.approved, reason: null }
    : { status: statuses.declined, reason: decision.reason }
  return after.status === before.status && after.reason === before.reason ? null : after
}

/**
 * Applies a decision to a template. Returns `null` if it changes nothing. A later decision may
 * replace an earlier one: approved templates can be declined, and declined ones approved.
 */
export const moderateTemplate = (
  before: ModerationState<TemplateStatus>,
  decision: ModerationDecision,
): ModerationState<TemplateStatus> | null =>
  applyDecision(before, decision, { approved: 'approved', declined: 'declined' })

/** Applies a decision to a sender, like `moderateTemplate`. */
export const moderateSender = (
  before: ModerationState<SenderStatus>,
  decision: ModerationDecision,
): ModerationState<SenderStatus> | null =>
  applyDecision(before, decision, { approved: 'registered', declined: 'declined' })

interface Named {
  readonly id: string
  readonly name: string
  readonly mode: Mode
  /** Milliseconds since the epoch. */
  readonly createdAt: number
}

/** The template in its event. Events contain no texts. */
interface DecidedTemplate extends Named, ModerationState<TemplateStatus> {
  readonly class: MessageClass
  readonly sender: string
}

/** The sender in its event, without its registration data. */
interface DecidedSender extends Named, ModerationState<SenderStatus> {}

/**
 * Makes the event of a decision at `at` (milliseconds since the epoch). A template can have several
 * decisions, so the event id depends on the time too.
 */
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

/** Makes the event of a decision on a sender, like `templateDecided`. */
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
