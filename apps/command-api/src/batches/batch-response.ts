/** The response to a batch. Pure. Source: BAT-3 to BAT-7, BAT-16. */
import {
  type AcceptedBatch,
  type ApiError,
  type BatchElement,
  type BatchResult,
  type ErrorObject,
  isTemporary,
} from '@hub/contract'
import { isFinal, toTimestamp } from '@hub/domain'
import { Result } from 'effect'
import { RECORD_UNKNOWN } from '../accept/errors.ts'
import type { SendOutcome } from '../accept/send.ts'
import { acceptedBody, type MessageView } from '../messages/message.ts'

/** An element of the request and its outcome. */
export interface ElementOutcome {
  readonly element: Pick<BatchElement, 'index' | 'clientRef'>
  readonly outcome: SendOutcome
}

/** Pairs each element with its outcome. `outcomes`: those of the well-formed elements, in order. */
export const pair = (
  elements: ReadonlyArray<BatchElement>,
  outcomes: ReadonlyArray<SendOutcome>,
): ReadonlyArray<ElementOutcome> => {
  let next = 0
  return elements.map((element) => ({
    element,
    outcome: Result.isFailure(element.send) ? Result.fail(element.send.failure) : outcomes[next++]!,
  }))
}

/** The counts of the outcomes. */
export interface OutcomeCounts {
  readonly accepted: number
  readonly duplicate: number
  readonly rejected: number
  readonly duplicates: ReadonlyArray<MessageView>
  readonly errors: ReadonlyArray<ApiError>
}

export const countOutcomes = (results: ReadonlyArray<ElementOutcome>): OutcomeCounts => {
  const duplicates: Array<MessageView> = []
  const errors: Array<ApiError> = []
  for (const { outcome } of results) {
    if (Result.isFailure(outcome)) errors.push(outcome.failure)
    else if (outcome.success.duplicate) duplicates.push(outcome.success.view)
  }
  return {
    accepted: results.length - duplicates.length - errors.length,
    duplicate: duplicates.length,
    rejected: errors.length,
    duplicates,
    errors,
  }
}

/** A repeat could accept more, so the response is not stored. Source: IDEM-7. */
export const isRepeatable = ({ errors }: OutcomeCounts): boolean => errors.some(isTemporary)

/**
 * The error that concerns the whole request, if there is one: then nothing was created. An unknown
 * outcome of an element counts before a certain refusal of another one.
 */
export const failureOf = ({ accepted, duplicate, errors }: OutcomeCounts): ApiError | null => {
  const forAll = errors.find(
    ({ code }) => code === 'hub_daily_limit_reached' || code === 'idempotency_conflict',
  )
  if (forAll !== undefined || accepted + duplicate > 0) return forAll ?? null
  if (errors.some(({ outcome }) => outcome === 'unknown')) return RECORD_UNKNOWN
  return errors.find(({ code }) => code === 'internal_error' || code === 'overloaded') ?? null
}

/** The earlier batch of all duplicates; `null`: they do not share one. */
export const sharedBatch = ({ duplicates }: OutcomeCounts): string | null => {
  const batches = new Set(duplicates.map(({ batch }) => batch))
  const [only = null] = batches
  return batches.size === 1 ? only : null
}

/** The batch in the response. */
export interface BatchSummary {
  readonly id: string | null
  /** Milliseconds since the epoch. */
  readonly createdAt: number | null
  readonly closed: boolean
}

/** A repeat without a batch is closed if none of the repeated messages is open. */
export const areFinal = ({ duplicates }: OutcomeCounts): boolean =>
  duplicates.every(({ status }) => isFinal(status))

const resultOf = (
  { element, outcome }: ElementOutcome,
  errorObject: (error: ApiError) => ErrorObject,
): BatchResult => {
  const { clientRef, index } = element
  if (Result.isFailure(outcome)) {
    const error = errorObject(outcome.failure) as Extract<BatchResult, { result: 'rejected' }>['error']
    return { index, client_ref: clientRef, result: 'rejected', error }
  }
  const { duplicate, view } = outcome.success
  return duplicate
    ? {
        index,
        client_ref: clientRef ?? '',
        result: 'duplicate',
        message_id: view.id,
        message_url: `/v1/messages/${view.id}`,
      }
    : { index, client_ref: clientRef ?? '', result: 'accepted', message: acceptedBody(view, false) }
}

export const batchBody = (
  batch: BatchSummary,
  results: ReadonlyArray<ElementOutcome>,
  counts: OutcomeCounts,
  errorObject: (error: ApiError) => ErrorObject,
): AcceptedBatch => ({
  object: 'batch',
  id: batch.id,
  created_at: batch.createdAt === null ? null : toTimestamp(batch.createdAt),
  closed: batch.closed,
  counts: {
    total: results.length,
    accepted: counts.accepted,
    duplicate: counts.duplicate,
    rejected: counts.rejected,
    delivered: 0,
    undelivered: 0,
    expired: 0,
  },
  results: results.map((one) => resultOf(one, errorObject)),
})
