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
import { type Candidate, candidateOf } from '../accept/candidate.ts'
import { Flusher } from '../accept/flush.ts'
import { countOutcome } from '../accept/outcomes.ts'
import { type Outcome, STORAGE_DOWN } from '../accept/waiting.ts'
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
} from '../batches/answer.ts'
import { Batches } from '../batches/batches.ts'
import { storedAnswer } from '../idempotency/step.ts'
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
  const flusher = yield* Flusher

  const sent = (outcome: Outcome): Result.Result<Answer, ApiError> =>
    Result.map(outcome, ({ duplicate, view }) => jsonAnswer(202, acceptedBody(view, duplicate)))

  const sendMessage: Operation = Effect.fnUntraced(function* ({ body, caller, claim, trace }) {
    const send = yield* Effect.fromResult(Result.flatMap(parseBody(body), (json) => decodeSendRequest(json)))
    const settings = yield* accounts.settings(caller)
    const template = yield* accounts.template(caller, send.template)
    const messageId = claim?.messageId ?? null
    const candidate = candidateOf(send, { owner: caller, settings, template, hashSecret, messageId })
    // A refusal of a send without a reference or a remembered id can be no duplicate: it needs no look at the ledger.
    if (candidate.clientRef === null && messageId === null && Result.isFailure(candidate.draft)) {
      countOutcome(candidate.class, Result.fail(candidate.draft.failure))
      return yield* candidate.draft.failure
    }
    const accepted = yield* flusher.accept(
      [candidate],
      claim === null
        ? { trace }
        : {
            trace,
            lease: claim.lease,
            answer: ([outcome]) => {
              const answer = outcome === undefined ? null : Result.getOrNull(sent(outcome))
              return answer === null ? null : storedAnswer(answer)
            },
          },
    )
    if (claim !== null) claim.stored = accepted.stored
    const [outcome] = accepted.outcomes
    if (outcome !== undefined) countOutcome(candidate.class, outcome)
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
    return elements.flatMap(({ path, send }): ReadonlyArray<Candidate> => {
      if (Result.isFailure(send)) return []
      const template = templates.get(send.success.template) ?? null
      return [candidateOf(send.success, { owner: caller, settings, template, hashSecret, batch, path })]
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
    const { body, caller, claim, errorObject, trace } = call
    const settings = yield* accounts.settings(caller)
    const elements = yield* Effect.fromResult(
      Result.flatMap(parseBody(body), (json) => decodeBatch(json, settings.batchMax)),
    )
    const id = freshId('bat', yield* Clock.currentTimeMillis)
    const candidates = yield* candidatesOf(caller, settings, elements, id)

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
      malformed: elements.length - candidates.length,
    }
    if (trace !== null) trace.attributes['hub.batch_id'] = id
    const accepted = yield* flusher.accept(candidates, {
      batch,
      trace,
      ...(claim === null
        ? undefined
        : {
            lease: claim.lease,
            answer: (outcomes: ReadonlyArray<Outcome>, createdAt: number) => {
              const results = pair(elements, outcomes)
              const tally = tallyOf(results)
              const isLast = tally.accepted > 0 && failureOf(tally) === null && !isRepeatable(tally)
              return isLast ? storedAnswer(created(results, tally, createdAt)) : null
            },
          }),
    })
    for (const [i, outcome] of accepted.outcomes.entries()) countOutcome(candidates[i]!.class, outcome)
    if (claim !== null) claim.stored = accepted.stored
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
