/** The operations that accept messages, and those that read what was accepted together. */
import {
  type ApiError,
  apiError,
  type BatchElement,
  decodeBatch,
  decodeMessagesQuery,
  decodeSendRequest,
  parseBody,
} from '@hub/contract'
import { type AccountSettings, batchObject } from '@hub/domain'
import { Clock, Effect, Result } from 'effect'
import { type CheckedSend, checkSend } from '../accept/checked-send.ts'
import { BatchingAcceptor } from '../accept/acceptor.ts'
import { countOutcome } from '../accept/outcome-metrics.ts'
import { type SendOutcome, STORAGE_DOWN } from '../accept/pending-send.ts'
import type { Caller, Owner } from '../accounts/account.ts'
import { Accounts } from '../accounts/accounts.ts'
import {
  areFinal,
  batchBody,
  type ElementOutcome,
  failureOf,
  isRepeatable,
  pair,
  sharedBatch,
  type Tally,
  tallyOf,
} from '../batches/batch-response.ts'
import { Batches } from '../batches/batches.ts'
import { storedAnswer } from '../idempotency/idempotency.ts'
import { freshId } from '../ids.ts'
import { acceptedBody, messageBody } from '../messages/message.ts'
import { type Answer, jsonAnswer, listAnswer } from './answer.ts'
import type { Call, Operation } from './pipeline.ts'

const orNotFound = <A>(found: A | null): Effect.Effect<A, ApiError> =>
  found === null ? Effect.fail(apiError('not_found')) : Effect.succeed(found)

/** Templates of one request that are looked up at a time: most of the pool stays for others. */
const TEMPLATES_AT_ONCE = 4

export interface AcceptingOptions {
  /** Secret of the recipient hash. */
  readonly hashSecret: string | Uint8Array
}

export const acceptingOperations = Effect.fnUntraced(function* ({ hashSecret }: AcceptingOptions) {
  const accounts = yield* Accounts
  const batches = yield* Batches
  const acceptor = yield* BatchingAcceptor

  const sent = (outcome: SendOutcome): Result.Result<Answer, ApiError> =>
    Result.map(outcome, ({ duplicate, view }) => jsonAnswer(202, acceptedBody(view, duplicate)))

  const sendMessage: Operation = Effect.fnUntraced(function* ({ body, caller, idempotency, trace }) {
    const send = yield* Effect.fromResult(Result.flatMap(parseBody(body), (json) => decodeSendRequest(json)))
    const settings = yield* accounts.settings(caller)
    const template = yield* accounts.template(caller, send.template)
    const messageId = idempotency?.messageId ?? null
    const checked = checkSend(send, { owner: caller, settings, template, hashSecret, messageId })
    // A refusal of a send without a reference or a remembered id can be no duplicate: it needs no look at the ledger.
    if (checked.clientRef === null && messageId === null && Result.isFailure(checked.draft)) {
      countOutcome(checked.class, Result.fail(checked.draft.failure))
      return yield* checked.draft.failure
    }
    const accepted = yield* acceptor.accept(
      [checked],
      idempotency === null
        ? { trace }
        : {
            trace,
            lock: idempotency.lock,
            answer: ([outcome]) => {
              const answer = outcome === undefined ? null : Result.getOrNull(sent(outcome))
              return answer === null ? null : storedAnswer(answer)
            },
          },
    )
    if (idempotency !== null) idempotency.stored = accepted.stored
    const [outcome] = accepted.outcomes
    if (outcome !== undefined) countOutcome(checked.class, outcome)
    if (trace !== null && outcome !== undefined && Result.isSuccess(outcome)) {
      trace.attributes['hub.message_id'] = outcome.success.view.id
    }
    return outcome === undefined ? yield* apiError('internal_error') : yield* Effect.fromResult(sent(outcome))
  })

  const candidatesOf = Effect.fnUntraced(function* (
    caller: Caller,
    settings: AccountSettings,
    elements: ReadonlyArray<BatchElement>,
    batch: string,
  ) {
    const names = new Set(
      elements.flatMap(({ send }) => (Result.isSuccess(send) ? [send.success.template] : [])),
    )
    const templates = new Map(
      yield* Effect.forEach(
        names,
        (name) => Effect.map(accounts.template(caller, name), (template) => [name, template] as const),
        { concurrency: TEMPLATES_AT_ONCE },
      ),
    )
    return elements.flatMap(({ path, send }): ReadonlyArray<CheckedSend> => {
      if (Result.isFailure(send)) return []
      const template = templates.get(send.success.template) ?? null
      return [checkSend(send.success, { owner: caller, settings, template, hashSecret, batch, path })]
    })
  })

  /** Which batch a repeat is about that accepts nothing new. */
  const earlier = Effect.fnUntraced(function* (owner: Owner, tally: Tally) {
    const id = sharedBatch(tally)
    const found = id === null ? null : yield* batches.read(owner, id)
    return found === null
      ? { id: null, createdAt: null, closed: areFinal(tally) }
      : { id, createdAt: found.createdAt, closed: found.closed }
  })

  const sendBatch: Operation = Effect.fnUntraced(function* (call: Call) {
    const { body, caller, idempotency, errorObject, trace } = call
    const settings = yield* accounts.settings(caller)
    const elements = yield* Effect.fromResult(
      Result.flatMap(parseBody(body), (json) => decodeBatch(json, settings.batchMax)),
    )
    const id = freshId('bat', yield* Clock.currentTimeMillis)
    const checkedSends = yield* candidatesOf(caller, settings, elements, id)

    const answerOf = (
      about: { readonly id: string | null; readonly createdAt: number | null; readonly closed: boolean },
      results: ReadonlyArray<ElementOutcome>,
      tally: Tally,
    ): Answer => ({
      ...jsonAnswer(202, batchBody(about, results, tally, errorObject)),
      ...(isRepeatable(tally) ? { repeatable: true as const } : undefined),
    })
    /** The answer of a request that has created its batch. */
    const created = (results: ReadonlyArray<ElementOutcome>, tally: Tally, createdAt: number): Answer =>
      answerOf({ id, createdAt, closed: tally.accepted === 0 }, results, tally)

    const batch = {
      id,
      owner: caller,
      total: elements.length,
      malformed: elements.length - checkedSends.length,
    }
    if (trace !== null) trace.attributes['hub.batch_id'] = id
    const accepted = yield* acceptor.accept(checkedSends, {
      batch,
      trace,
      ...(idempotency === null
        ? undefined
        : {
            lock: idempotency.lock,
            answer: (outcomes: ReadonlyArray<SendOutcome>, createdAt: number) => {
              const results = pair(elements, outcomes)
              const tally = tallyOf(results)
              const isLast = tally.accepted > 0 && failureOf(tally) === null && !isRepeatable(tally)
              return isLast ? storedAnswer(created(results, tally, createdAt)) : null
            },
          }),
    })
    for (const [i, outcome] of accepted.outcomes.entries()) countOutcome(checkedSends[i]!.class, outcome)
    if (idempotency !== null) idempotency.stored = accepted.stored
    const results = pair(elements, accepted.outcomes)
    const tally = tallyOf(results)
    const failure = failureOf(tally)
    if (failure !== null) return yield* failure
    if (tally.accepted === 0 && tally.duplicate > 0) {
      return answerOf(yield* earlier(caller, tally), results, tally)
    }
    // Nothing was accepted, and not even that could be recorded.
    if (accepted.batchCreatedAt === null) return yield* STORAGE_DOWN
    return created(results, tally, accepted.batchCreatedAt)
  })

  const readBatch: Operation = Effect.fnUntraced(function* ({ caller, params }) {
    const found = yield* batches.read(caller, params['id'] ?? '')
    return jsonAnswer(200, batchObject(yield* orNotFound(found)))
  })

  const listMessages: Operation = Effect.fnUntraced(function* ({ caller, query }) {
    const page = yield* Effect.fromResult(decodeMessagesQuery(query))
    const { data, hasMore } = yield* Effect.flatMap(batches.messages(caller, page.batch, page), orNotFound)
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
