/** Whether a template may be used for a send. Source: contract, General (order of checks), Templates and senders. */
import { Data, Result } from 'effect'
import type { MessageClass, Mode } from '../vocabulary.ts'

export const TEMPLATE_STATUSES = ['pending_moderation', 'approved', 'declined'] as const
export type TemplateStatus = (typeof TEMPLATE_STATUSES)[number]

export const SENDER_STATUSES = ['pending', 'registered', 'declined'] as const
export type SenderStatus = (typeof SENDER_STATUSES)[number]

/** 422 `template_not_found`: no template of that name in this account and mode. */
export class TemplateNotFound extends Data.TaggedError('TemplateNotFound')<{}> {
  readonly code = 'template_not_found'
  readonly param = 'template'
}
/** 422 `template_declined`: the operator's moderators turned it down. */
export class TemplateDeclined extends Data.TaggedError('TemplateDeclined')<{}> {
  readonly code = 'template_declined'
  readonly param = 'template'
}
/** 422 `template_not_approved`: moderation is still under way. */
export class TemplateNotApproved extends Data.TaggedError('TemplateNotApproved')<{}> {
  readonly code = 'template_not_approved'
  readonly param = 'template'
}
/** 422 `template_class_mismatch`: the template is of the other class. */
export class TemplateClassMismatch extends Data.TaggedError('TemplateClassMismatch')<{}> {
  readonly code = 'template_class_mismatch'
  readonly param = 'template'
}
/** 422 `sender_not_registered`: the sender that the template names cannot be used. */
export class SenderNotRegistered extends Data.TaggedError('SenderNotRegistered')<{}> {
  readonly code = 'sender_not_registered'
  readonly param = 'template'
}
export type AdmissionError =
  | TemplateNotFound
  | TemplateDeclined
  | TemplateNotApproved
  | TemplateClassMismatch
  | SenderNotRegistered

/** What admission looks at. */
export interface AdmissibleTemplate {
  readonly status: TemplateStatus
  readonly class: MessageClass
  readonly senderStatus: SenderStatus
}

/**
 * The template itself when a send may use it, else the first reason against it: not found, declined, not approved, wrong class, then its
 * sender. In test mode neither moderation nor registration is awaited.
 */
export const admitTemplate = <T extends AdmissibleTemplate>(
  template: T | null,
  send: { readonly class: MessageClass; readonly mode: Mode },
): Result.Result<T, AdmissionError> => {
  if (template === null) return Result.fail(new TemplateNotFound())
  if (template.status === 'declined') return Result.fail(new TemplateDeclined())
  if (template.status !== 'approved' && send.mode === 'live') return Result.fail(new TemplateNotApproved())
  if (template.class !== send.class) return Result.fail(new TemplateClassMismatch())
  const registered =
    template.senderStatus === 'registered' || (send.mode === 'test' && template.senderStatus === 'pending')
  return registered ? Result.succeed(template) : Result.fail(new SenderNotRegistered())
}
