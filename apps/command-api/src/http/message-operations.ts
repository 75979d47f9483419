/** The operations that accept messages and batches, and read batches. */
import {
  type ApiError,
  apiError,
  type BatchElement,
  decodeBatch,
  decodeMessagesQuery,
  decodeSendRequest,
  type LongestTtl,
  type MessagesPage,
  parseBody,
} from '@hub/contract'
import { type AccountSettings, batchObject } from '@hub/domain'
import { Clock, Effect, Result } from 'effect'
import { type CheckedSend, checkSend } from '../accept/check/checked-send.ts'
import { BatchingAcceptor } from '../accept/acceptor.ts'
import { templatesOf } from '../accept/check/estimate.ts'
import { countOutcome } from '../accept/outcome-metrics.ts'
import { STORAGE_DOWN } from '../accept/errors.ts'
import type { SendOutcome } from '../accept/send.ts'
import type { Caller, Owner } from '../accounts/account.ts'
import { Accounts } from '../accounts/accounts.ts'
import {
  areFinal,
  batchBody,
  type BatchSummary,
  type ElementOutcome,
  failureOf,
  isRepeatable,
  pair,
  sharedBatch,
  type OutcomeCounts,
  countOutcomes,
} from '../batches/batch-response.ts'
import { makeBatches } from '../batches/batches.ts'
import { freshId } from '../ids/ids.ts'
import { acceptedBody, messageBody } from '../messages/message.ts'
import { makeMessageLists } from '../messages/message-lists.ts'
import { type Answer, jsonAnswer, listAnswer } from './answer.ts'
import { toStoredResponse } from './idempotency.ts'
import { orNotFound, orUnknownCursor, templatesByName } from './lookups.ts'
import type { Call, Operation } from './pipeline.ts'

interface MessageOperationsOptions {
  /** The secret of the recipient hash. */
  readonly hashSecret: string | Uint8Array
  /** The longest `ttl_seconds` of each class. */
  readonly longestTtl: LongestTtl
}

export const messageOperations = Effect.fnUntraced(function* ({
  hashSecret,
  longestTtl,
}: MessageOperationsOptions) {
  const accounts = yield* Accounts
  const batches = yield* makeBatches
  const lists = yield* makeMessageLists
  const acceptor = yield* BatchingAcceptor

  const sendAnswer = (outcome: SendOutcome): Result.Result<Answer, ApiError> =>
    Result.map(outcome, ({ duplicate, view }) => jsonAnswer(202, acceptedBody(view, duplicate)))

  const sendMessage: Operation = Effect.fnUntraced(function* (call) {
    const { body, caller, idempotency, mayRemain, requestId, startedAt, ticket, trace } = call
    const send = yield* Effect.fromResult(
      Result.flatMap(parseBody(body), (json) => decodeSendRequest(json, '', { longestTtl })),
    )
    const settings = yield* accounts.settings(caller)
    const template = yield* accounts.template(caller, send.template)
    const messageId = idempotency?.messageId ?? null
    const checked = checkSend(send, { owner: caller, settings, template, hashSecret, messageId })
    // Without a `client_ref` or a remembered id, a refused send cannot be a duplicate.
    if (checked.clientRef === null && messageId === null && Result.isFailure(checked.draft)) {
      countOutcome(checked.class, Result.fail(checked.draft.failure))
      return yield* checked.draft.failure
    }
    mayRemain()
    const origin = { request: requestId, apiKey: caller.key }
    const accepted = yield* acceptor.accept(
      [checked],
      idempotency === null
        ? { startedAt, ticket, trace, origin, weight: settings.weight }
        : {
            startedAt,
            ticket,
            trace,
            origin,
            weight: settings.weight,
            lock: idempotency.lock,
            response: ([outcome]) => {
              const answer = outcome === undefined ? null : Result.getOrNull(sendAnswer(outcome))
              return answer === null ? null : toStoredResponse(answer)
            },
          },
    )
    if (idempotency !== null) idempotency.responseStored = accepted.responseStored
    const [outcome] = accepted.outcomes
    if (outcome !== undefined) countOutcome(checked.class, outcome)
    if (trace !== null && outcome !== undefined && Result.isSuccess(outcome)) {
      trace.attributes['hub.message_id'] = outcome.success.view.id
    }
    return outcome === undefined
      ? yield* apiError('internal_error')
      : yield* Effect.fromResult(sendAnswer(outcome))
  })

  const checkElements = Effect.fnUntraced(function* (
    caller: Caller,
    settings: AccountSettings,
    elements: ReadonlyArray<BatchElement>,
    batch: string,
  ) {
    const templates = yield* templatesByName(accounts, caller, templatesOf({ kind: 'many', elements }))
    return elements.flatMap(({ path, send }): ReadonlyArray<CheckedSend> => {
      if (Result.isFailure(send)) return []
      const template = templates.get(send.success.template) ?? null
      return [checkSend(send.success, { owner: caller, settings, template, hashSecret, batch, path })]
    })
  })

  /** The earlier batch of a request that contains only duplicates. */
  const earlierBatch = Effect.fnUntraced(function* (owner: Owner, counts: OutcomeCounts) {
    const id = sharedBatch(counts)
    const found = id === null ? null : yield* batches.read(owner, id)
    return found === null
      ? { id: null, createdAt: null, closed: areFinal(counts) }
      : { id, createdAt: found.createdAt, closed: found.closed }
  })

  const sendBatch: Operation = Effect.fnUntraced(function* (call: Call) {
    const { body, caller, idempotency, errorObject, mayRemain, requestId, startedAt, ticket, trace } = call
    const settings = yield* accounts.settings(caller)
    const elements = yield* Effect.fromResult(
      Result.flatMap(parseBody(body), (json) => decodeBatch(json, settings.batchMax, longestTtl)),
    )
    const id = freshId('bat', yield* Clock.currentTimeMillis)
    const checkedSends = yield* checkElements(caller, settings, elements, id)

    const answerOf = (
      about: BatchSummary,
      results: ReadonlyArray<ElementOutcome>,
      counts: OutcomeCounts,
    ): Answer => ({
      ...jsonAnswer(202, batchBody(about, results, counts, errorObject)),
      ...(isRepeatable(counts) ? { repeatable: true as const } : undefined),
    })
    /** The answer to a request that has created its batch. */
    const createdAnswer = (
      results: ReadonlyArray<ElementOutcome>,
      counts: OutcomeCounts,
      createdAt: number,
    ): Answer => answerOf({ id, createdAt, closed: counts.accepted === 0 }, results, counts)

    const batch = {
      id,
      owner: caller,
      total: elements.length,
      malformed: elements.length - checkedSends.length,
    }
    if (trace !== null) trace.attributes['hub.batch_id'] = id
    mayRemain()
    const accepted = yield* acceptor.accept(checkedSends, {
      batch,
      startedAt,
      ticket,
      trace,
      origin: { request: requestId, apiKey: caller.key },
      weight: settings.weight,
      ...(idempotency === null
        ? undefined
        : {
            lock: idempotency.lock,
            response: (outcomes: ReadonlyArray<SendOutcome>, createdAt: number) => {
              const results = pair(elements, outcomes)
              const counts = countOutcomes(results)
              const isLast = counts.accepted > 0 && failureOf(counts) === null && !isRepeatable(counts)
              return isLast ? toStoredResponse(createdAnswer(results, counts, createdAt)) : null
            },
          }),
    })
    for (const [i, outcome] of accepted.outcomes.entries()) countOutcome(checkedSends[i]!.class, outcome)
    if (idempotency !== null) idempotency.responseStored = accepted.responseStored
    const results = pair(elements, accepted.outcomes)
    const counts = countOutcomes(results)
    const failure = failureOf(counts)
    if (failure !== null) return yield* failure
    if (counts.accepted === 0 && counts.duplicate > 0) {
      return answerOf(yield* earlierBatch(caller, counts), results, counts)
    }
    // The database recorded nothing, not even a batch without accepted elements.
    if (accepted.batchCreatedAt === null) return yield* STORAGE_DOWN
    return createdAnswer(results, counts, accepted.batchCreatedAt)
  })

  const readBatch: Operation = Effect.fnUntraced(function* ({ caller, params }) {
    const found = yield* batches.read(caller, params['id'] ?? '')
    return jsonAnswer(200, batchObject(yield* orNotFound(found)))
  })

  const readPage = (owner: Owner, page: MessagesPage) => {
    switch (page.by) {
      case 'batch':
        return batches.messages(owner, page.batch, page)
      case 'client_ref':
        return lists.byReference(owner, page)
      case 'newest':
        return lists.newest(owner, page)
    }
  }

  const listMessages: Operation = Effect.fnUntraced(function* ({ caller, query }) {
    const page = yield* Effect.fromResult(decodeMessagesQuery(query))
    const found = yield* readPage(caller, page)
    // A page of a batch has a cursor to blame only if the batch exists.
    const isBatchKnown =
      found !== null || page.by !== 'batch' || (yield* batches.read(caller, page.batch)) !== null
    if (!isBatchKnown) return yield* apiError('not_found', { param: 'batch' })
    const { data, hasMore } = yield* orUnknownCursor(found)
    return listAnswer({
      elements: data.map(({ content, view }) => JSON.stringify(messageBody(view, content))),
      hasMore,
      lastId: data.at(-1)?.view.id ?? null,
      startingAfter: page.startingAfter,
    })
  })

  const operations: Readonly<Record<string, Operation>> = {
    'messages.send': sendMessage,
    'messages.sendBatch': sendBatch,
    'messages.list': listMessages,
    'batches.read': readBatch,
  }
  return operations
})
