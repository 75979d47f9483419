/**
 * A send on its own: everything that can be said of it without looking at any other request. Pure.
 *
 * A refusal found here is only spoken when the `client_ref` turns out to be new: a repeat is a duplicate,
 * whatever else its body says (contract, order of checks).
 */
import { type ApiError, apiError, decodeVariables, type Send, variableParam } from '@hub/contract'
import {
  type AccountSettings,
  factId,
  maskNumber,
  type MessageClass,
  type Money,
  recipientHash,
  render,
  type Rendered,
  type RenderError,
  type SandboxScenario,
  sandboxScenario,
} from '@hub/domain'
import { Result } from 'effect'
import type { Owner, TemplateInUse } from '../accounts/account.ts'

/** The flood windows that a send has to pass; `null` where there is no limit. */
export interface Windows {
  readonly pauseSeconds: number
  readonly perHour: number | null
  readonly perDay: number | null
}

/** In the sandbox one number has windows: a second send within five minutes is refused. Contract, Sandbox numbers. */
const SANDBOX_WINDOWS: Windows = { pauseSeconds: 300, perHour: null, perDay: null }

/** A send that could be accepted: rendered, counted and priced. Holds the number and the text: never logged. */
export interface MessageDraft {
  readonly class: MessageClass
  readonly to: string
  readonly toMasked: string
  /** Recipient hash, 64 hexadecimal digits. */
  readonly recipient: string
  /** What a test key's number is to meet; `null` in live mode. */
  readonly scenario: SandboxScenario | null
  readonly template: string
  readonly sender: string
  readonly rendered: Rendered
  readonly values: Readonly<Record<string, string>>
  readonly pricePerPart: Money
  /** `null` for a number that spends no window. */
  readonly windows: Windows | null
  /** `null` where nothing is charged or no limit is set. */
  readonly spendLimit: Money | null
}

/** One send on its way into a flush. */
export interface CheckedSend {
  readonly owner: Owner
  readonly clientRef: string | null
  /** `bat_…` */
  readonly batch: string | null
  /** `msg_…`: the id that an idempotency key remembers for a send without a reference. */
  readonly messageId: string | null
  readonly class: MessageClass
  readonly recipient: string
  readonly draft: Result.Result<MessageDraft, ApiError>
  /** Where the send lies in the body: '' for a single one. */
  readonly path: string
}

/**
 * What a place in the flood windows stands under: the send's reference where it has one, so that a repeat finds the place
 * that its first took; else the message id. A reference is a client's own text and does not leave PostgreSQL: it is derived from.
 */
export const floodKey = (
  owner: Pick<Owner, 'account' | 'mode'>,
  clientRef: string | null,
  messageId: string,
): string =>
  clientRef === null ? messageId : factId(`${owner.account}:${owner.mode}:${clientRef}`, 'flood place')

const at = (path: string, name: string): string => (path === '' ? name : `${path}.${name}`)

/** The template on its own; moderation is not awaited in test mode. Source: contract, Templates and senders. */
export const checkTemplate = (
  send: Pick<Send, 'class'>,
  owner: Pick<Owner, 'mode'>,
  template: TemplateInUse | null,
  path: string,
): Result.Result<TemplateInUse, ApiError> => {
  const param = at(path, 'template')
  if (template === null) return Result.fail(apiError('template_not_found', { param }))
  if (template.status === 'declined') return Result.fail(apiError('template_declined', { param }))
  if (template.status !== 'approved' && owner.mode === 'live') {
    return Result.fail(apiError('template_not_approved', { param }))
  }
  if (template.class !== send.class) {
    return Result.fail(apiError('template_class_mismatch', { param: at(path, 'class') }))
  }
  return Result.succeed(template)
}

/** Its sender; registration is not awaited in test mode. */
const checkSender = (
  template: TemplateInUse,
  owner: Pick<Owner, 'mode'>,
  path: string,
): Result.Result<TemplateInUse, ApiError> =>
  template.senderStatus === 'registered' || (owner.mode === 'test' && template.senderStatus === 'pending')
    ? Result.succeed(template)
    : Result.fail(apiError('sender_not_registered', { param: at(path, 'template') }))

/** The domain names a variable on its own; a `param` also says where in the body it lies. */
const paramOf = (param: string, path: string): string => variableParam(param.slice('variables.'.length), path)

/** A fault of rendering in the words of the catalogue. */
export const renderFault = (error: RenderError, path: string): ApiError => {
  switch (error._tag) {
    case 'TemplateTextTooLong':
      return apiError('template_text_too_long', { param: at(path, 'template') })
    case 'TemplateVariableInvalid':
      return apiError('template_variable_invalid', { param: paramOf(error.param, path) })
    case 'TemplateVariableMissing':
      return apiError('template_variable_missing', { param: paramOf(error.param, path) })
    case 'TemplateVariableUnknown':
      return apiError('template_variable_unknown', { param: paramOf(error.param, path) })
  }
}

/**
 * Checks and renders one send. `template` is the account's template of that name, `null` when there is none;
 * `path` is where the send lies in the body ('' for a single one, `messages[3]` in a batch).
 */
export const checkSend = (
  send: Send,
  context: {
    readonly owner: Owner
    readonly settings: AccountSettings
    readonly template: TemplateInUse | null
    /** Secret of the recipient hash. */
    readonly hashSecret: string | Uint8Array
    readonly batch?: string
    readonly messageId?: string | null
    readonly path?: string
  },
): CheckedSend => {
  const path = context.path ?? ''
  const recipient = recipientHash(context.hashSecret, send.to)
  const draft = (): Result.Result<MessageDraft, ApiError> => {
    const checked = Result.flatMap(checkTemplate(send, context.owner, context.template, path), (found) =>
      checkSender(found, context.owner, path),
    )
    if (Result.isFailure(checked)) return Result.fail(checked.failure)
    const template = checked.success
    const rendered = render(template.parsed, send.variables)
    if (Result.isFailure(rendered)) return Result.fail(renderFault(rendered.failure, path))
    const values = decodeVariables(send.variables, path)
    if (Result.isFailure(values)) return Result.fail(values.failure)
    const { owner, settings } = context
    const scenario = owner.mode === 'test' ? sandboxScenario(send.to) : null
    const sandboxWindows = scenario === 'anti_flood' ? SANDBOX_WINDOWS : null
    return Result.succeed({
      class: send.class,
      to: send.to,
      toMasked: maskNumber(send.to),
      recipient,
      scenario,
      template: template.name,
      sender: template.sender,
      rendered: rendered.success,
      values: values.success,
      pricePerPart: settings.pricePerPart[send.class],
      windows: owner.mode === 'test' ? sandboxWindows : settings.floodWindows,
      spendLimit: owner.mode === 'test' ? null : settings.spendLimit,
    })
  }
  return {
    owner: context.owner,
    clientRef: send.clientRef,
    batch: context.batch ?? null,
    messageId: send.clientRef === null ? (context.messageId ?? null) : null,
    class: send.class,
    recipient,
    draft: draft(),
    path,
  }
}
