/**
 * Erasures of recipients, with a receipt. With `HUB_ERASURE_PERSONS` = 2, one person requests an
 * erasure, and another one confirms it. See docs/decisions/persons.md#erasures-by-two-persons.
 */
import { settings } from '@hub/config'
import { toTimestamp } from '@hub/domain'
import {
  confirmErasure,
  eraseRecipient,
  type Erasure,
  type ErasureConfirmationRefused,
  type ErasureRequest,
  readErasureRequests,
  readErasures,
  requestErasure,
} from '@hub/store'
import { Clock, Effect, Schema } from 'effect'
import { refused, SAME_PERSON, UNIDENTIFIED } from './failures.ts'
import { optionalTimestamp, Reason, Timestamp, Uuid } from './fields.ts'
import { CursorTime, decodeCursor, listOf, pageFields, pageOf } from './pages.ts'
import { auditedRecipient, hashOfRecipient, isNamedByNumber, RecipientInput } from './recipient.ts'
import { defineUseCase } from './use-case.ts'

export const ErasureReceipt = Schema.Struct({
  id: Uuid,
  object: Schema.Literal('erasure'),
  recipient: Schema.String.annotate({ description: 'The recipient hash.' }),
  status: Schema.Literals(['under_way', 'cleared', 'finished']),
  requested_at: Timestamp,
  removed: Schema.Struct({
    numbers_and_texts: Schema.Int,
    ledger_rows: Schema.Int,
    keys_of_replies: Schema.Int,
  }),
  cleared_at: Schema.NullOr(Timestamp),
  sealed_until: Schema.NullOr(Timestamp).annotate({
    description: 'When the last encrypted copy becomes unreadable.',
  }),
  finished_at: Schema.NullOr(Timestamp),
  recorded_at: Schema.NullOr(Timestamp).annotate({
    description: 'When it was recorded in Kafka, where a restore finds it.',
  }),
}).annotate({ identifier: 'ErasureReceipt' })

export const ErasureRequestValue = Schema.Struct({
  id: Uuid,
  object: Schema.Literal('erasure_request'),
  recipient: Schema.String,
  status: Schema.Literals(['waiting', 'confirmed', 'expired']),
  requested_by: Schema.String,
  reason: Schema.NullOr(Schema.String),
  requested_at: Timestamp,
  expires_at: Timestamp,
  confirmed_by: Schema.NullOr(Schema.String),
  confirmed_at: Schema.NullOr(Timestamp),
  receipt: Schema.NullOr(Uuid),
}).annotate({ identifier: 'ErasureRequest' })

const Outcome = Schema.Struct({
  object: Schema.Literal('erasure_outcome'),
  request: Schema.NullOr(ErasureRequestValue).annotate({
    description: '`null`: this hub needs no second person.',
  }),
  receipt: Schema.NullOr(ErasureReceipt).annotate({
    description: '`null`: another person must confirm first.',
  }),
}).annotate({ identifier: 'ErasureOutcome' })

export const toReceipt = (erasure: Erasure): typeof ErasureReceipt.Type => ({
  id: erasure.id,
  object: 'erasure',
  recipient: erasure.recipient,
  status: erasure.finishedAt !== null ? 'finished' : erasure.clearedAt !== null ? 'cleared' : 'under_way',
  requested_at: toTimestamp(erasure.requestedAt),
  removed: {
    numbers_and_texts: erasure.personalData,
    ledger_rows: erasure.acceptances,
    keys_of_replies: erasure.payloadKeys,
  },
  cleared_at: optionalTimestamp(erasure.clearedAt),
  sealed_until: optionalTimestamp(erasure.sealedUntil),
  finished_at: optionalTimestamp(erasure.finishedAt),
  recorded_at: optionalTimestamp(erasure.publishedAt),
})

const toRequest =
  (now: number) =>
  (request: ErasureRequest): typeof ErasureRequestValue.Type => ({
    id: request.id,
    object: 'erasure_request',
    recipient: request.recipient,
    status:
      request.confirmedAt !== null
        ? 'confirmed'
        : // Nobody can confirm a request without an identity.
          request.expiresAt <= now || request.requestedById === null
          ? 'expired'
          : 'waiting',
    requested_by: request.requestedBy,
    reason: request.reason,
    requested_at: toTimestamp(request.requestedAt),
    expires_at: toTimestamp(request.expiresAt),
    confirmed_by: request.confirmedBy,
    confirmed_at: optionalTimestamp(request.confirmedAt),
    receipt: request.erasure,
  })

/** Requests an erasure, or erases at once if the hub needs no second person. */
export const request = defineUseCase({
  name: 'recipients erase',
  permission: 'erasures.request',
  input: Schema.Struct({ recipient: RecipientInput, reason: Schema.NullOr(Reason) }),
  output: Outcome,
  audit: auditedRecipient,
  reason: ({ reason }) => reason,
  counts: isNamedByNumber,
  result: ({ receipt, request: made }) => ({
    recipient: receipt?.recipient ?? made?.recipient ?? null,
    ...(made === null ? {} : { request: made.id }),
    ...(receipt === null ? {} : { receipt: receipt.id, removed: receipt.removed.numbers_and_texts }),
  }),
  run: ({ reason, recipient }, actor) =>
    Effect.gen(function* () {
      const hash = yield* hashOfRecipient(recipient)
      if ((yield* settings.erasurePersons.config) === 1) {
        const receipt = toReceipt(yield* eraseRecipient(hash))
        return { object: 'erasure_outcome' as const, request: null, receipt }
      }
      const made = yield* requestErasure(hash, actor, reason)
      const now = yield* Clock.currentTimeMillis
      return { object: 'erasure_outcome' as const, request: toRequest(now)(made), receipt: null }
    }),
})

const REFUSED: Readonly<Record<ErasureConfirmationRefused, readonly [code: string, message: string]>> = {
  unknown: ['erasure_request_not_found', 'There is no erasure request with this id.'],
  same_person: SAME_PERSON,
  unidentified: UNIDENTIFIED,
  expired: ['erasure_request_expired', 'The request is older than a week. Request the erasure again.'],
  already_confirmed: ['already_confirmed', 'The request was confirmed already. Its receipt has the outcome.'],
}

/** Confirms the request of another person, and erases the recipient. It cannot be undone. */
export const confirm = defineUseCase({
  name: 'recipients confirm',
  permission: 'erasures.confirm',
  input: Schema.Struct({ id: Uuid }),
  output: Outcome,
  audit: ({ id }) => ({ request: id }),
  result: ({ receipt }) => ({
    receipt: receipt?.id ?? null,
    recipient: receipt?.recipient ?? null,
    removed: receipt?.removed.numbers_and_texts ?? 0,
  }),
  run: ({ id }, actor) =>
    Effect.gen(function* () {
      const outcome = yield* confirmErasure(id, actor)
      if (typeof outcome === 'string') return yield* refused(...REFUSED[outcome])
      const now = yield* Clock.currentTimeMillis
      return {
        object: 'erasure_outcome' as const,
        request: toRequest(now)(outcome.request),
        receipt: toReceipt(outcome.receipt),
      }
    }),
})

/** The sort key of a page, newest first: time of the request and UUID. */
const PageKey = Schema.Tuple([CursorTime, Uuid])

export const requests = defineUseCase({
  name: 'recipients requests',
  permission: 'erasures.request',
  input: Schema.Struct({
    open: Schema.Boolean.annotate({ description: 'Only those that can be confirmed.' }),
    ...pageFields,
  }),
  output: listOf(ErasureRequestValue),
  audit: null,
  run: ({ cursor, limit, open }) =>
    Effect.gen(function* () {
      const key = yield* decodeCursor(PageKey, cursor)
      const now = yield* Clock.currentTimeMillis
      const rows = yield* readErasureRequests({
        open,
        after: key === null ? null : { requestedAt: key[0], id: key[1] },
        limit: limit + 1,
      })
      return pageOf(rows, limit, toRequest(now), (row) => [row.requestedAt, row.id])
    }),
})

/** The receipts of a recipient's erasures, newest first. */
export const receipts = defineUseCase({
  name: 'recipients receipts',
  permission: 'erasures.request',
  input: Schema.Struct({ recipient: RecipientInput }),
  output: Schema.Struct({ object: Schema.Literal('list'), data: Schema.Array(ErasureReceipt) }),
  audit: auditedRecipient,
  counts: isNamedByNumber,
  result: ({ data }) => ({ receipts: data.length, recipient: data[0]?.recipient ?? null }),
  run: ({ recipient }) =>
    Effect.gen(function* () {
      const found = yield* readErasures(yield* hashOfRecipient(recipient))
      return { object: 'list' as const, data: found.map(toReceipt) }
    }),
})
