/**
 * Estimates of sends: encoding, parts and price. They depend on the request, the template and the
 * variables only, not on the status of sender or recipient. Pure. Source: EST-1 to EST-5.
 */
import type { ApiError, ErrorObject, EstimateWanted, Send } from '@hub/contract'
import {
  type AccountSettings,
  addMoney,
  checkTemplate,
  type Encoding,
  type Money,
  priceOf,
  render,
  zeroMoney,
} from '@hub/domain'
import { Result } from 'effect'
import type { Owner, TemplateInUse } from '../../accounts/account.ts'
import { admissionFailure, renderFailure } from './checked-send.ts'

interface Estimated {
  readonly encoding: Encoding
  readonly characters: number
  readonly parts: number
  readonly price: Money
}

export interface EstimateContext {
  readonly owner: Pick<Owner, 'mode'>
  readonly settings: Pick<AccountSettings, 'pricePerPart'>
  /** The account's template of a name; `null`: there is none. */
  readonly template: (name: string) => TemplateInUse | null
}

/** The price is the tariff's in both modes, although a test send is not charged. */
const estimateOne = (
  send: Send,
  { owner, settings, template }: EstimateContext,
  path: string,
): Result.Result<Estimated, ApiError> => {
  const checked = checkTemplate(template(send.template), { class: send.class, mode: owner.mode })
  if (Result.isFailure(checked)) return Result.fail(admissionFailure(checked.failure, path, owner.mode))
  const rendered = render(checked.success.parsed, send.variables)
  if (Result.isFailure(rendered)) return Result.fail(renderFailure(rendered.failure, path))
  const { characters, encoding, parts } = rendered.success
  return Result.succeed({
    encoding,
    characters,
    parts,
    price: priceOf(settings.pricePerPart[send.class], parts),
  })
}

/** Names of the templates of a request, without repetition. */
export const templatesOf = (wanted: EstimateWanted): ReadonlyArray<string> =>
  wanted.kind === 'one'
    ? [wanted.send.template]
    : [
        ...new Set(
          wanted.elements.flatMap(({ send }) => (Result.isSuccess(send) ? [send.success.template] : [])),
        ),
      ]

/** The response: for one send its estimate or error; for a list one element per send, and sums. */
export const estimateBody = (
  wanted: EstimateWanted,
  context: EstimateContext,
  errorObject: (error: ApiError) => ErrorObject,
): Result.Result<object, ApiError> => {
  if (wanted.kind === 'one') {
    return Result.map(estimateOne(wanted.send, context, ''), (estimated) => ({
      object: 'estimate' as const,
      ...estimated,
    }))
  }
  let parts = 0
  let price = zeroMoney(context.settings.pricePerPart.otp.currency)
  const data = wanted.elements.map(({ index, path, send }) => {
    const estimated = Result.flatMap(send, (valid) => estimateOne(valid, context, path))
    if (Result.isFailure(estimated)) return { index, error: errorObject(estimated.failure) }
    parts += estimated.success.parts
    price = addMoney(price, estimated.success.price)
    return { index, ...estimated.success }
  })
  return Result.succeed({ object: 'estimate' as const, data, totals: { parts, price } })
}
