/** Signed callbacks of an HTTP operator: delivery reports and inbound messages. */
import { REJECTED_REASONS, UNDELIVERED_REASONS, verifySignature } from '@hub/domain'
import { Data, Redacted, Result, Schema } from 'effect'
import { ADDRESS_LENGTH, OperatorId, parseForeignJson } from '../foreign.ts'
import type { InboundMessage, OperatorReport } from '../port.ts'
import { HTTP } from './http.ts'

/**
 * The callback has a wrong signature (401), or none of its elements can be used (400). A repetition
 * does not help. `thrown`: what the reader has thrown.
 */
class CallbackRefusal extends Data.TaggedError('CallbackRefusal')<{
  readonly status: 400 | 401
  readonly thrown?: unknown
}> {}

/** The elements of a callback that can be used, and the number of the others. */
interface ReadCallback<A> {
  readonly usable: ReadonlyArray<A>
  readonly skipped: number
}

/** The most elements of one callback. */
const MAX_ELEMENTS = 100

const CallbackReport = Schema.Struct({
  operator_id: OperatorId,
  reference: Schema.optionalKey(Schema.NullOr(OperatorId)),
  status: Schema.Literals(['delivered', 'undelivered', 'rejected', 'expired', 'seen']),
  reason: Schema.optionalKey(Schema.NullOr(Schema.String)),
  at: Schema.String,
})

/** Any E.164 number: the sender of an inbound message need not be a valid recipient. */
const PhoneNumber = Schema.String.pipe(Schema.check(Schema.isPattern(/^\+[1-9]\d{6,14}$/u)))
/** Somewhat more than ten GSM parts. */
const INBOUND_TEXT_LENGTH = 2000

const Inbound = Schema.Struct({
  operator_id: OperatorId,
  from: PhoneNumber,
  service_address: Schema.String.pipe(Schema.check(Schema.isMaxLength(ADDRESS_LENGTH))),
  text: Schema.String.pipe(Schema.check(Schema.isMaxLength(INBOUND_TEXT_LENGTH))),
  at: Schema.String,
})

const REASONS = [...UNDELIVERED_REASONS, ...REJECTED_REASONS]

const refuse = (status: 400 | 401) => Result.fail(new CallbackRefusal({ status }))

/**
 * Makes a reader of callbacks. `signature` is the header `Hub-Operator-Signature`. Its time must be
 * within five minutes of `now` (ms since the epoch). `raw` is the complete element of the body,
 * including unknown fields. An element that cannot be used is skipped, because the operator would
 * repeat a refused callback with all of its elements.
 */
const makeReader = <Element extends { readonly at: string }, A>(
  schema: Schema.Codec<Element, unknown>,
  read: (element: Element, at: number, raw: Buffer) => A,
) => {
  const decode = Schema.decodeUnknownResult(schema)
  const readElement = (json: unknown): A | null => {
    const element = decode(json)
    if (Result.isFailure(element)) return null
    const at = Date.parse(element.success.at)
    return Number.isNaN(at) ? null : read(element.success, at, Buffer.from(JSON.stringify(json)))
  }
  const readBody = (body: Uint8Array): Result.Result<ReadCallback<A>, CallbackRefusal> => {
    const elements = parseForeignJson(body)?.value
    if (!Array.isArray(elements) || elements.length > MAX_ELEMENTS) return refuse(400)
    const usable = elements.map(readElement).filter((value) => value !== null)
    if (usable.length === 0) return refuse(400)
    return Result.succeed({ usable, skipped: elements.length - usable.length })
  }
  return (
    secret: Redacted.Redacted<string>,
    signature: string,
    body: Uint8Array,
    now: number,
  ): Result.Result<ReadCallback<A>, CallbackRefusal> => {
    if (!verifySignature(signature, [Redacted.value(secret)], body, Math.floor(now / 1000)))
      return refuse(401)
    return Result.flatMap(
      Result.try({
        try: () => readBody(body),
        catch: (thrown) => new CallbackRefusal({ status: 400, thrown }),
      }),
      (read) => read,
    )
  }
}

export const readHttpReports = makeReader(
  CallbackReport,
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
