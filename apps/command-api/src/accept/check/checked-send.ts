/**
 * A checked send: the result of all checks that need no other request and no shared state. Pure.
 *
 * The client gets the error of a failed check only if the `client_ref` is new: a repeat is a
 * duplicate (HTTP-29).
 */
import { type ApiError, apiError, decodeVariables, paramAt, type Send, variableParam } from '@hub/contract'
import type { FloodWindows } from '@hub/counters'
import {
  type AccountSettings,
  type AdmissionError,
  admitTemplate,
  factId,
  maskNumber,
  type MessageClass,
  type Mode,
  type Money,
  numberRangeOf,
  recipientHash,
  render,
  type Rendered,
  type RenderError,
  SANDBOX_PAUSE_SECONDS,
  type SandboxScenario,
  sandboxScenario,
} from '@hub/domain'
import { Result } from 'effect'
import type { Owner, TemplateInUse } from '../../accounts/account.ts'

/** The flood windows of the only sandbox number that has any. Source: SBX-8. */
const SANDBOX_WINDOWS: FloodWindows = {
  pauseSeconds: SANDBOX_PAUSE_SECONDS,
  perHour: null,
  perDay: null,
}

/** A rendered, counted and priced send. Contains the number and the text: never log it. */
export interface MessageDraft {
  readonly class: MessageClass
  readonly to: string
  readonly toMasked: string
  /** Recipient hash, 64 hexadecimal digits. */
  readonly recipient: string
  /** The simulated course of a message in test mode; `null` in live mode. */
  readonly scenario: SandboxScenario | null
  readonly template: string
  readonly sender: string
  readonly rendered: Rendered
  readonly values: Readonly<Record<string, string>>
  /** A shorter lifetime before the submit; `undefined`: that of the class. */
  readonly ttlSeconds: number | undefined
  readonly pricePerPart: Money
  /** `null`: the flood windows do not count this send. */
  readonly windows: FloodWindows | null
  /** `null`: the account has no limit, or the send costs nothing. */
  readonly spendLimit: Money | null
}

export interface CheckedSend {
  readonly owner: Owner
  readonly clientRef: string | null
  /** `bat_…` */
  readonly batch: string | null
  /** `msg_…`: the message id that the idempotency key remembers for a send without `client_ref`. */
  readonly messageId: string | null
  readonly class: MessageClass
  /** Recipient hash, 64 hexadecimal digits. */
  readonly recipient: string
  readonly draft: Result.Result<MessageDraft, ApiError>
  /** Position in the request body: `messages[3]`, or '' for a single send. */
  readonly path: string
}

/** Translates a refusal of the domain. If the classes differ, the class of the send is at fault. */
export const admissionFailure = ({ _tag, code, param }: AdmissionError, path: string, mode: Mode): ApiError =>
  apiError(code, {
    param: paramAt(path, _tag === 'TemplateClassMismatch' ? 'class' : param),
    ...(_tag === 'TemplateNotFound' ? { message: UNKNOWN_TEMPLATE[mode] } : undefined),
  })

const unknownTemplate = (mode: Mode): string =>
  `There is no template of this name in ${mode} mode. Create it with a ${mode} key first.`
const UNKNOWN_TEMPLATE = { live: unknownTemplate('live'), test: unknownTemplate('test') }

/** The domain names a variable alone. `param` also contains its position in the request body. */
const variableAt = (param: string, path: string): string =>
  variableParam(param.slice('variables.'.length), path)

/** Translates a rendering error of the domain. */
export const renderFailure = (error: RenderError, path: string): ApiError => {
  switch (error._tag) {
    case 'TemplateTextTooLong':
      return apiError('template_text_too_long', { param: paramAt(path, 'template') })
    case 'TemplateVariableInvalid':
      return apiError('template_variable_invalid', { param: variableAt(error.param, path) })
    case 'TemplateVariableMissing':
      return apiError('template_variable_missing', { param: variableAt(error.param, path) })
    case 'TemplateVariableUnknown':
      return apiError('template_variable_unknown', { param: variableAt(error.param, path) })
  }
}

export interface SendContext {
  readonly owner: Owner
  readonly settings: AccountSettings
  /** The account's template of the name in the send; `null`: there is none. */
  readonly template: TemplateInUse | null
  /** Secret of the recipient hash. */
  readonly hashSecret: string | Uint8Array
  /** `bat_…` */
  readonly batch?: string
  /** See `CheckedSend.messageId`. */
  readonly messageId?: string | null
  /** See `CheckedSend.path`. */
  readonly path?: string
}

const draftOf = (
  send: Send,
  recipient: string,
  context: SendContext,
): Result.Result<MessageDraft, ApiError> => {
  const { owner, path = '', settings, template: found } = context
  const admitted = admitTemplate(found, { class: send.class, mode: owner.mode })
  if (Result.isFailure(admitted)) return Result.fail(admissionFailure(admitted.failure, path, owner.mode))
  const template = admitted.success
  const rendered = render(template.parsed, send.variables)
  if (Result.isFailure(rendered)) return Result.fail(renderFailure(rendered.failure, path))
  const values = decodeVariables(send.variables, path)
  if (Result.isFailure(values)) return Result.fail(values.failure)
  if (isBlocked(send.to, context)) {
    return Result.fail(apiError('recipient_range_blocked', { param: paramAt(path, 'to') }))
  }
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
    ttlSeconds: send.ttlSeconds,
    pricePerPart: settings.pricePerPart[send.class],
    windows: owner.mode === 'test' ? sandboxWindows : settings.floodWindows,
    spendLimit: owner.mode === 'test' ? null : settings.spendLimit,
  })
}

/** Hub staff have blocked the range of the number for the account. Test mode sends nothing. Source: MSG-42. */
const isBlocked = (to: string, { owner, settings }: SendContext): boolean => {
  const range = numberRangeOf(to)
  return owner.mode === 'live' && range !== null && settings.blockedRanges.includes(range)
}

/** Checks and renders one send. */
export const checkSend = (send: Send, context: SendContext): CheckedSend => {
  const recipient = recipientHash(context.hashSecret, send.to)
  return {
    owner: context.owner,
    clientRef: send.clientRef,
    batch: context.batch ?? null,
    messageId: send.clientRef === null ? (context.messageId ?? null) : null,
    class: send.class,
    recipient,
    draft: draftOf(send, recipient, context),
    path: context.path ?? '',
  }
}

/**
 * The id of the flood reservation. A repeat with the same `client_ref` must find it, so it is a
 * hash: the client's text must not leave PostgreSQL. Without `client_ref` it is the message id.
 */
export const floodReservationId = (
  owner: Pick<Owner, 'account' | 'mode'>,
  clientRef: string | null,
  messageId: string,
): string =>
  // 'flood place' is part of stored ids: it must not change.
  clientRef === null ? messageId : factId(`${owner.account}:${owner.mode}:${clientRef}`, 'flood place')
