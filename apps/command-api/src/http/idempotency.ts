/**
 * Runs a request under its `Idempotency-Key`: lock, run, then store the response or release.
 *
 * All responses are stored, except those to which a repeat may get another one (`isTemporary`, and
 * batches with such an element). These release the lock, so that a repeat runs as a new request. If PostgreSQL does not answer, storing and
 * releasing continue in the background until the lock expires.
 *
 * A request under a key runs to its end also if its client disconnects. So the lock lasts exactly
 * as long as the processing, and a repeat then gets the response.
 *
 * Source: IDEM-4 to IDEM-16.
 */
import { type ApiError, apiError } from '@hub/contract'
import type { StorageError } from '@hub/store'
import { Clock, Context, Duration, Effect, Fiber, Layer, Schedule } from 'effect'
import type { Caller } from '../accounts/account.ts'
import { freshId } from '../ids/ids.ts'
import {
  fingerprintOf,
  IdempotencyKeys,
  type IdempotencyLock,
  LOCK_SECONDS,
  newToken,
  type StoredResponse,
} from '../idempotency/idempotency-keys.port.ts'
import type { Answer } from './answer.ts'

/** What an operation knows about its idempotency key. */
export interface IdempotencyContext {
  readonly lock: IdempotencyLock
  /** `msg_…`: the id for a send without `client_ref`. Each repeat gets the same one. */
  readonly messageId: string
  /** The operation sets this if its transaction has stored the response. */
  responseStored: boolean
}

export interface KeyedRequest {
  readonly caller: Caller
  readonly key: string
  readonly method: string
  /** Path with query, as received. */
  readonly url: string
  readonly body: Uint8Array
}

/** How long a response waits for `finish`, which then continues in the background. */
const WAIT = Duration.millis(250)
const RETRY_EVERY = Duration.seconds(1)
/**
 * Releases after an acquisition with unknown result: after 0, 0.5, 1.5, 3.5, 7.5 and 15.5 seconds.
 * A statement that hung may acquire the lock only when PostgreSQL is back.
 */
const LATE_ACQUISITION = Schedule.exponential('500 millis')
const LATE_ACQUISITION_RETRIES = 5
/** Background updates at a time. Without PostgreSQL, the locks of other requests expire. */
const MAX_IN_BACKGROUND = 2000

export const toStoredResponse = ({ body, contentType, headers, status }: Answer): StoredResponse => ({
  status,
  contentType,
  headers: headers ?? {},
  body,
})

export class Idempotency extends Context.Service<Idempotency>()('@hub/command-api/Idempotency', {
  make: Effect.gen(function* () {
    const keys = yield* IdempotencyKeys
    const scope = yield* Effect.scope
    let inBackground = 0

    /** Waits for `work` for a short time, and lets it continue in the background. */
    const finish = Effect.fnUntraced(function* (
      action: 'store' | 'release',
      work: Effect.Effect<void, StorageError>,
    ) {
      if (inBackground >= MAX_IN_BACKGROUND) return
      inBackground++
      const fiber = yield* work.pipe(
        Effect.retry({ schedule: Schedule.spaced(RETRY_EVERY), times: LOCK_SECONDS }),
        Effect.catchCause((cause) =>
          Effect.annotateLogs(
            Effect.logWarning('idempotency: a key was not updated; it is free when its lock expires', cause),
            { action },
          ),
        ),
        Effect.ensuring(Effect.sync(() => inBackground--)),
        Effect.forkIn(scope),
      )
      yield* Effect.timeoutOption(Fiber.await(fiber), WAIT)
    })
    const release = (lock: IdempotencyLock) => finish('release', Effect.asVoid(keys.release(lock)))
    /** Releases in the fiber that ends: at the end of the process, the scope starts no fiber. */
    const releaseNow = (lock: IdempotencyLock) => Effect.catch(keys.release(lock), () => release(lock))

    /**
     * Releases a lock whose acquisition has an unknown result. A statement that hangs can succeed
     * long after its timeout, so the release is repeated until it finds the lock.
     */
    const releaseIfAcquired = (lock: IdempotencyLock) =>
      finish(
        'release',
        Effect.asVoid(
          Effect.repeat(keys.release(lock), {
            until: (released) => released,
            schedule: LATE_ACQUISITION,
            times: LATE_ACQUISITION_RETRIES,
          }),
        ),
      )

    return {
      /** Runs `work` under the key, or returns the stored response of the first request. */
      run: Effect.fnUntraced(function* (
        { body, caller, key, method, url }: KeyedRequest,
        work: (context: IdempotencyContext) => Effect.Effect<Answer, ApiError | StorageError>,
        toAnswer: (error: ApiError | StorageError) => Effect.Effect<Answer>,
      ) {
        const token = newToken()
        const lock: IdempotencyLock = {
          accountUuid: caller.accountUuid,
          mode: caller.mode,
          key,
          token,
        }
        const messageId = freshId('msg', yield* Clock.currentTimeMillis)
        const wanted = { owner: caller, key, fingerprint: fingerprintOf(method, url, body), messageId }
        /** The lock, or an answer without it. Its statement is bounded, so it always ends here. */
        const acquire = keys
          .acquire(wanted, token)
          .pipe(Effect.onError(() => Effect.forkIn(releaseIfAcquired(lock), scope)))
        const runFirst = Effect.fnUntraced(function* (messageId: string) {
          const context: IdempotencyContext = { lock, messageId, responseStored: false }
          const answer = yield* Effect.catch(work(context), toAnswer)
          if (context.responseStored) return answer
          yield* answer.repeatable === true
            ? release(lock)
            : finish('store', keys.store(lock, toStoredResponse(answer)))
          return answer
        })
        const all = Effect.uninterruptibleMask((restore) =>
          Effect.gen(function* () {
            const acquired = yield* acquire
            switch (acquired.type) {
              case 'reused':
                return yield* apiError('idempotency_key_reused')
              case 'running':
                return yield* apiError('idempotency_conflict', { retryAfter: acquired.retryAfterSeconds })
              case 'replay': {
                const { response } = acquired
                return { ...response, headers: { ...response.headers, 'idempotent-replayed': 'true' } }
              }
              case 'first':
                return yield* restore(runFirst(acquired.messageId)).pipe(
                  // A defect, or the end of the process. A repeat finds what was done.
                  Effect.onError(() => releaseNow(lock)),
                )
            }
          }),
        )
        // In the scope of the process: a client that disconnects ends only the wait.
        return yield* Fiber.join(yield* Effect.forkIn(all, scope))
      }),
    }
  }),
}) {
  static readonly layer = Layer.effect(this, this.make)
}
