/** What an HTTP operator calls back with: signed delivery reports. Interface: infra/local/operator-simulator/README.md. */
import { REJECTED_REASONS, UNDELIVERED_REASONS, verifySignature } from '@hub/domain'
import { Data, Redacted, Result, Schema } from 'effect'
import type { OperatorReport } from '../port.ts'
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

const REASONS = [...UNDELIVERED_REASONS, ...REJECTED_REASONS]

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
  if (!verifySignature(signature, [Redacted.value(secret)], body, Math.floor(now / 1000))) {
    return Result.fail(new CallbackRefusal({ status: 401 }))
  }
  const elements = decodeJson(Buffer.from(body).toString('utf8'))
  const reports = Result.flatMap(elements, decodeReports)
  if (Result.isFailure(reports)) return Result.fail(new CallbackRefusal({ status: 400 }))
  const words = Result.getOrElse(elements, () => [])
  const read: Array<OperatorReport> = []
  for (const [i, { at, operator_id, reason, reference, status }] of reports.success.entries()) {
    const time = Date.parse(at)
    if (Number.isNaN(time)) return Result.fail(new CallbackRefusal({ status: 400 }))
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
      raw: Buffer.from(JSON.stringify(words[i])),
    })
  }
  return Result.succeed(read)
}
