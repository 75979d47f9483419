/** Whether a send may use a template. Source: TPL-15 to TPL-18, SND-10. */
import { Data, Result } from 'effect'
import type { MessageClass, Mode } from '../values/classification.ts'

export const TEMPLATE_STATUSES = ['pending_moderation', 'approved', 'declined'] as const
export type TemplateStatus = (typeof TEMPLATE_STATUSES)[number]

export const SENDER_STATUSES = ['pending', 'registered', 'declined'] as const
export type SenderStatus = (typeof SENDER_STATUSES)[number]

/** 422 `template_not_found`: the account has no template of that name in this mode. */
class TemplateNotFound extends Data.TaggedError('TemplateNotFound')<{}> {
  readonly code = 'template_not_found'
  readonly param = 'template'
}
/** 422 `template_declined`: the operator's moderation declined it. */
class TemplateDeclined extends Data.TaggedError('TemplateDeclined')<{}> {
  readonly code = 'template_declined'
  readonly param = 'template'
}
/** 422 `template_not_approved`: moderation is not finished. */
class TemplateNotApproved extends Data.TaggedError('TemplateNotApproved')<{}> {
  readonly code = 'template_not_approved'
  readonly param = 'template'
}
/** 422 `template_class_mismatch`: the template has the other class. */
export class TemplateClassMismatch extends Data.TaggedError('TemplateClassMismatch')<{}> {
  readonly code = 'template_class_mismatch'
  readonly param = 'template'
}
/** 422 `sender_not_registered`: the template's sender cannot be used. */
class SenderNotRegistered extends Data.TaggedError('SenderNotRegistered')<{}> {
  readonly code = 'sender_not_registered'
  readonly param = 'template'
}
export type AdmissionError =
  | TemplateNotFound
  | TemplateDeclined
  | TemplateNotApproved
  | TemplateClassMismatch
  | SenderNotRegistered

/** The properties of a template that the checks need. */
export interface AdmissibleTemplate {
  readonly status: TemplateStatus
  readonly class: MessageClass
  readonly senderStatus: SenderStatus
}

/**
 * Returns the template if a send may use it, whatever its sender, else the first failed check: not
 * found, declined, not approved, wrong class. In test mode the hub does not wait for moderation.
 */
export const checkTemplate = <T extends Pick<AdmissibleTemplate, 'status' | 'class'>>(
  template: T | null,
  send: { readonly class: MessageClass; readonly mode: Mode },
): Result.Result<T, AdmissionError> => {
  if (template === null) return Result.fail(new TemplateNotFound())
  if (template.status === 'declined') return Result.fail(new TemplateDeclined())
  if (template.status !== 'approved' && send.mode === 'live') return Result.fail(new TemplateNotApproved())
  return template.class === send.class ? Result.succeed(template) : Result.fail(new TemplateClassMismatch())
}

/** Checks the template, then its sender. In test mode the hub does not wait for registration. */
export const admitTemplate = <T extends AdmissibleTemplate>(
  template: T | null,
  send: { readonly class: MessageClass; readonly mode: Mode },
): Result.Result<T, AdmissionError> =>
  Result.flatMap(checkTemplate(template, send), (checked) =>
    checked.senderStatus === 'registered' || (send.mode === 'test' && checked.senderStatus === 'pending')
      ? Result.succeed(checked)
      : Result.fail(new SenderNotRegistered()),
  )
