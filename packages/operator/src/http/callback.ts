/** Signed callbacks of an HTTP operator: delivery reports and inbound messages. */
import { REJECTED_REASONS, UNDELIVERED_REASONS, verifySignature } from '@hub/domain'
import { Data, Redacted, Result, Schema } from 'effect'
import type { InboundMessage, OperatorReport } from '../port.ts'
import { HTTP } from './http.ts'

/** The callback has a wrong signature (401) or is malformed (400). A repetition does not help. */
class CallbackRefusal extends Data.TaggedError('CallbackRefusal')<{ readonly status: 400 | 401 }> {}

/** The longest id. No operator uses longer ones. */
const ID_LENGTH = 255
/** The most elements of one callback. */
const MAX_ELEMENTS = 100

const Id = Schema.String.pipe(Schema.check(Schema.isMinLength(1), Schema.isMaxLength(ID_LENGTH)))

const Report = Schema.Struct({
  operator_id: Id,
  reference: Schema.optionalKey(Schema.NullOr(Id)),
  status: Schema.Literals(['delivered', 'undelivered', 'rejected', 'expired', 'seen']),
  reason: Schema.optionalKey(Schema.NullOr(Schema.String)),
  at: Schema.String,
})
const decodeJson = Schema.decodeUnknownResult(Schema.fromJsonString(Schema.Array(Schema.Unknown)))

/** Any E.164 number: the sender of an inbound message need not be a valid recipient. */
const PhoneNumber = Schema.String.pipe(Schema.check(Schema.isPattern(/^\+[1-9]\d{6,14}$/u)))
/** Somewhat more than ten GSM parts. */
const INBOUND_TEXT_LENGTH = 2000

const Inbound = Schema.Struct({
  operator_id: Id,
  from: PhoneNumber,
  service_address: Schema.String.pipe(Schema.check(Schema.isMaxLength(ID_LENGTH))),
  text: Schema.String.pipe(Schema.check(Schema.isMaxLength(INBOUND_TEXT_LENGTH))),
  at: Schema.String,
})

const REASONS = [...UNDELIVERED_REASONS, ...REJECTED_REASONS]

const refuse = (status: 400 | 401) => Result.fail(new CallbackRefusal({ status }))

/**
 * Makes a reader of callbacks. `signature` is the header `Hub-Operator-Signature`. Its time must be
 * within five minutes of `now` (ms since the epoch). `raw` is the complete element of the body,
 * including unknown fields.
 */
const makeReader = <Element extends { readonly at: string }, A>(
  schema: Schema.Codec<Element, unknown>,
  read: (element: Element, at: number, raw: Buffer) => A,
) => {
  const decode = Schema.decodeUnknownResult(
    Schema.Array(schema).pipe(Schema.check(Schema.isMinLength(1), Schema.isMaxLength(MAX_ELEMENTS))),
  )
  return (
    secret: Redacted.Redacted<string>,
    signature: string,
    body: Uint8Array,
    now: number,
  ): Result.Result<ReadonlyArray<A>, CallbackRefusal> => {
    if (!verifySignature(signature, [Redacted.value(secret)], body, Math.floor(now / 1000)))
      return refuse(401)
    const json = decodeJson(Buffer.from(body).toString('utf8'))
    if (Result.isFailure(json)) return refuse(400)
    const elements = decode(json.success)
    if (Result.isFailure(elements)) return refuse(400)
    const values: Array<A> = []
    for (const [i, element] of elements.success.entries()) {
      const at = Date.parse(element.at)
      if (Number.isNaN(at)) return refuse(400)
      values.push(read(element, at, Buffer.from(JSON.stringify(json.success[i]))))
    }
    return Result.succeed(values)
  }
}

export const readHttpReports = makeReader(
  Report,
  ({ operator_id, reason, reference, status }, at, raw): OperatorReport => ({
    operator: HTTP,
    operatorId: operator_id,
    reference: reference ?? null,
    recipient: null,
    to: null,
    outcome: status,
    // An unknown reason is omitted. `reportOutcome` of packages/kafka then sets the default of the
    // status.
    reason: REASONS.find((known) => known === reason) ?? null,
    at,
    raw,
  }),
)

export const readHttpInbound = makeReader(
  Inbound,
  ({ from, operator_id, service_address, text }, at, raw): InboundMessage => ({
    operator: HTTP,
    operatorId: operator_id,
    from,
    serviceAddress: service_address,
    text,
    at,
    raw,
  }),
)
