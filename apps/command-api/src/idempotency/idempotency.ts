/**
 * The step of a request that comes with an `Idempotency-Key`: claim, run, and then store or release.
 *
 * Stored is every answer but 409, 429, 5xx and those that ask to be repeated; these free the key at once, so that a repeat
 * runs as new. What cannot be stored or released now is tried again behind the answer, until the lock ends by itself.
 *
 * Source: specification, Idempotency; contract, General (idempotency).
 */
import { type ApiError, apiError } from '@hub/contract'
import type { StorageError } from '@hub/store'
import { Clock, Context, Duration, Effect, Exit, Fiber, Layer, Schedule } from 'effect'
import type { Caller } from '../accounts/account.ts'
import type { Answer } from '../http/answer.ts'
import { freshId } from '../ids.ts'
import { fingerprintOf, type IdempotencyLock, LOCK_SECONDS, type StoredAnswer } from './idempotency-lock.ts'
import { IdempotencyKeys, newToken } from './idempotency-keys.ts'

/** What an operation may know of its claim. */
export interface IdempotencyContext {
  readonly lock: IdempotencyLock
  /** `msg_…`: for a send without a `client_ref`, the same one for each repeat. */
  readonly messageId: string
  /** Set by the operation whose transaction has stored the answer. */
  stored: boolean
}

export interface KeyedRequest {
  readonly caller: Caller
  readonly key: string
  readonly method: string
  /** Path with query, as it was sent. */
  readonly url: string
  readonly body: Uint8Array
}

/** For how long an answer waits for its key to be freed or its answer to be stored; both go on behind it. */
const WAIT = Duration.millis(250)
const TRY_EVERY = Duration.seconds(1)
/** When a claim that nobody answered for is looked for once PostgreSQL is there again: after 0, 0.5, 1.5, 3.5, 7.5 and 15.5 seconds. */
const LATE_CLAIM = Schedule.exponential('500 millis')
const LATE_CLAIM_LOOKS = 5
/** Requests whose key is still to be stored or freed while PostgreSQL is away; the others' locks end by themselves. */
const MAX_BEHIND = 2000

const isKept = (status: number): boolean => status < 500 && status !== 409 && status !== 429

export const storedAnswer = ({ body, contentType, headers, status }: Answer): StoredAnswer => ({
  status,
  contentType,
  headers: headers ?? {},
  body,
})

export class Idempotency extends Context.Service<
  Idempotency,
  {
    /**
     * Runs `work` under the key, or answers as the first request was answered. `toAnswer`: a refusal as it will be sent.
     */
    readonly run: (
      request: KeyedRequest,
      work: (context: IdempotencyContext) => Effect.Effect<Answer, ApiError | StorageError>,
      toAnswer: (error: ApiError | StorageError) => Effect.Effect<Answer>,
    ) => Effect.Effect<Answer, ApiError | StorageError>
  }
>()('@hub/command-api/Idempotency') {
  static readonly layer: Layer.Layer<Idempotency, never, IdempotencyKeys> = Layer.effect(
    Idempotency,
    Effect.gen(function* () {
      const keys = yield* IdempotencyKeys
      const scope = yield* Effect.scope
      let behind = 0

      /** Does it now, or behind the answer. */
      const settle = Effect.fnUntraced(function* (what: string, work: Effect.Effect<void, StorageError>) {
        if (behind >= MAX_BEHIND) return
        behind++
        const fiber = yield* work.pipe(
          Effect.retry({ schedule: Schedule.spaced(TRY_EVERY), times: LOCK_SECONDS }),
          Effect.catchCause((cause) =>
            Effect.annotateLogs(
              Effect.logWarning('an idempotency key waits for the end of its lock', cause),
              {
                what,
              },
            ),
          ),
          Effect.ensuring(Effect.sync(() => behind--)),
          Effect.forkIn(scope),
        )
        yield* Effect.timeoutOption(Fiber.await(fiber), WAIT)
      })
      const release = (lock: IdempotencyLock) => settle('release', Effect.asVoid(keys.release(lock)))

      /**
       * Frees a key that may have been taken although nobody said so. A statement that hangs can be carried out when its
       * requester has long given up, even after a release that came over another connection: so it is looked for again.
       */
      const releaseIfTaken = (lock: IdempotencyLock) =>
        settle(
          'release',
          Effect.asVoid(
            Effect.repeat(keys.release(lock), {
              until: (freed) => freed,
              schedule: LATE_CLAIM,
              times: LATE_CLAIM_LOOKS,
            }),
          ),
        )

      return {
        run: Effect.fnUntraced(function* (request, work, toAnswer) {
          const { body, caller, key, method, url } = request
          const token = newToken()
          const lock: IdempotencyLock = { accountUuid: caller.accountUuid, mode: caller.mode, key, token }
          const messageId = freshId('msg', yield* Clock.currentTimeMillis)
          const wanted = { owner: caller, key, fingerprint: fingerprintOf(method, url, body), messageId }
          const acquired = yield* keys
            .acquire(wanted, token)
            .pipe(Effect.tapCause(() => Effect.forkIn(releaseIfTaken(lock), scope)))
          switch (acquired.type) {
            case 'reused':
              return yield* apiError('idempotency_key_reused')
            case 'running':
              return yield* apiError('idempotency_conflict', { retryAfter: acquired.retryAfterSeconds })
            case 'replay': {
              const { answer } = acquired
              return { ...answer, headers: { ...answer.headers, 'idempotent-replayed': 'true' } }
            }
            case 'first':
              break
          }
          const context: IdempotencyContext = { lock, messageId: acquired.messageId, stored: false }
          const answer = yield* work(context).pipe(
            Effect.catch(toAnswer),
            // A defect, or a client that has gone: what was done is found by the repeat.
            Effect.onExit((exit) => (Exit.isFailure(exit) ? release(lock) : Effect.void)),
          )
          if (!context.stored) {
            yield* isKept(answer.status) && answer.repeatable !== true
              ? settle('store', keys.store(lock, storedAnswer(answer)))
              : release(lock)
          }
          return answer
        }),
      }
    }),
  )
}
