/** What an HTTP operator calls back with, signed: delivery reports, and what recipients write. */
import { REJECTED_REASONS, UNDELIVERED_REASONS, verifySignature } from '@hub/domain'
import { Data, Redacted, Result, Schema } from 'effect'
import type { InboundMessage, OperatorReport } from '../port.ts'
import { HTTP } from './http.ts'

/** The callback is not to be believed (401) or not to be understood (400). Coming again does not help. */
export class CallbackRefusal extends Data.TaggedError('CallbackRefusal')<{ readonly status: 400 | 401 }> {}

/** A report names an id and says what; ids beyond this length are nobody's. */
const ID_LENGTH = 255
/** The operator sends at most this many at once. */
const MAX_REPORTS = 100

const Id = Schema.String.pipe(Schema.check(Schema.isMinLength(1), Schema.isMaxLength(ID_LENGTH)))

const Reports = Schema.Array(
  Schema.Struct({
    operator_id: Id,
    reference: Schema.optionalKey(Schema.NullOr(Id)),
    status: Schema.Literals(['delivered', 'undelivered', 'rejected', 'expired', 'seen']),
    reason: Schema.optionalKey(Schema.NullOr(Schema.String)),
    at: Schema.String,
  }),
).pipe(Schema.check(Schema.isMinLength(1), Schema.isMaxLength(MAX_REPORTS)))
const decodeJson = Schema.decodeUnknownResult(Schema.fromJsonString(Schema.Array(Schema.Unknown)))
const decodeReports = Schema.decodeUnknownResult(Reports)

/** E.164, of anybody: who writes to the hub need not be somebody it may write to. */
const PhoneNumber = Schema.String.pipe(Schema.check(Schema.isPattern(/^\+[1-9]\d{6,14}$/u)))
/** As long as ten parts of the shortest encoding and some more. */
const INBOUND_TEXT_LENGTH = 2000

const InboundMessages = Schema.Array(
  Schema.Struct({
    operator_id: Id,
    from: PhoneNumber,
    service_address: Schema.String.pipe(Schema.check(Schema.isMaxLength(ID_LENGTH))),
    text: Schema.String.pipe(Schema.check(Schema.isMaxLength(INBOUND_TEXT_LENGTH))),
    at: Schema.String,
  }),
).pipe(Schema.check(Schema.isMinLength(1), Schema.isMaxLength(MAX_REPORTS)))
const decodeInboundMessages = Schema.decodeUnknownResult(InboundMessages)

const REASONS = [...UNDELIVERED_REASONS, ...REJECTED_REASONS]

const refuse = (status: 400 | 401) => Result.fail(new CallbackRefusal({ status }))

/** The elements of a signed body, as they are. */
const readElements = (
  secret: Redacted.Redacted<string>,
  signature: string,
  body: Uint8Array,
  now: number,
): Result.Result<ReadonlyArray<unknown>, CallbackRefusal> => {
  if (!verifySignature(signature, [Redacted.value(secret)], body, Math.floor(now / 1000))) return refuse(401)
  return Result.mapError(
    decodeJson(Buffer.from(body).toString('utf8')),
    () => new CallbackRefusal({ status: 400 }),
  )
}

/**
 * The reports of a callback. `body` is the raw body, `signature` the header `Hub-Operator-Signature`, `now` milliseconds
 * since the epoch: the signature must be within five minutes of it and is compared in constant time.
 */
export const readCallback = (
  secret: Redacted.Redacted<string>,
  signature: string,
  body: Uint8Array,
  now: number,
): Result.Result<ReadonlyArray<OperatorReport>, CallbackRefusal> => {
  const elements = readElements(secret, signature, body, now)
  if (Result.isFailure(elements)) return Result.fail(elements.failure)
  const reports = decodeReports(elements.success)
  if (Result.isFailure(reports)) return refuse(400)
  const read: Array<OperatorReport> = []
  for (const [i, { at, operator_id, reason, reference, status }] of reports.success.entries()) {
    const time = Date.parse(at)
    if (Number.isNaN(time)) return refuse(400)
    read.push({
      operator: HTTP,
      operatorId: operator_id,
      reference: reference ?? null,
      recipient: null,
      to: null,
      outcome: status,
      // An unknown reason is left out; the domain has a fallback for each status.
      reason: REASONS.find((known) => known === reason) ?? null,
      at: time,
      // The whole element, with whatever this version does not know.
      raw: Buffer.from(JSON.stringify(elements.success[i])),
    })
  }
  return Result.succeed(read)
}

/** The inbound messages of a callback; the arguments are those of `readCallback`. */
export const readInbound = (
  secret: Redacted.Redacted<string>,
  signature: string,
  body: Uint8Array,
  now: number,
): Result.Result<ReadonlyArray<InboundMessage>, CallbackRefusal> => {
  const elements = readElements(secret, signature, body, now)
  if (Result.isFailure(elements)) return Result.fail(elements.failure)
  const messages = decodeInboundMessages(elements.success)
  if (Result.isFailure(messages)) return refuse(400)
  const read: Array<InboundMessage> = []
  for (const [i, { at, from, operator_id, service_address, text }] of messages.success.entries()) {
    const time = Date.parse(at)
    if (Number.isNaN(time)) return refuse(400)
    read.push({
      operator: HTTP,
      operatorId: operator_id,
      from,
      serviceAddress: service_address,
      text,
      at: time,
      raw: Buffer.from(JSON.stringify(elements.success[i])),
    })
  }
  return Result.succeed(read)
}
