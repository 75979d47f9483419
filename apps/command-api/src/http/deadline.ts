/**
 * The deadline of a request. It covers all waits for servers, and leaves time for the answer. The time in
 * which the body arrives does not count: its client decides how long that takes.
 * Source: AVL-4; docs/architecture.md, "What must stay true".
 */
import { type ApiError, apiError } from '@hub/contract'
import { Clock, Duration, Effect } from 'effect'
import { RECORD_UNKNOWN } from '../accept/errors.ts'
import { RETRY_AFTER } from './answer.ts'

const ANSWER_WITHIN = {
  /** The contract promises an answer within 3 s after the request has arrived. */
  default: Duration.millis(2800),
  /** The contract promises an answer within 10 s. */
  batch: Duration.millis(9700),
  /** A test delivery waits for the client's receiver, which has 10 s. */
  receiver: Duration.seconds(19),
} as const
export type AnswerDeadline = keyof typeof ANSWER_WITHIN
/** The longest time until the answer, after the body has arrived. */
export const LONGEST_ANSWER: Duration.Duration = Object.values(ANSWER_WITHIN).reduce(Duration.max)

const DEADLINE_REASON = 'the request was not finished at its deadline'

/** The deadline of a request that arrives now. */
export const makeDeadline = (answerDeadline: AnswerDeadline) =>
  Effect.map(Clock.currentTimeMillis, (now) => {
    let startedAt = now
    let remains = false
    const late = Effect.suspend(() =>
      Effect.fail(
        remains
          ? RECORD_UNKNOWN
          : apiError('internal_error', { retryAfter: RETRY_AFTER, reason: DEADLINE_REASON }),
      ),
    )
    return {
      /** When the checks began, milliseconds since the epoch, moved by the time that does not count. */
      startedAt: (): number => startedAt,
      /** The work may have left something behind when the time is over. */
      mayRemain: (): void => {
        remains = true
      },
      /** The time since `before` does not count. */
      skipSince: (before: number): Effect.Effect<void> =>
        Effect.map(Clock.currentTimeMillis, (after) => {
          startedAt += after - before
        }),
      /** Runs `work` within the time that is left. */
      bounded: <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E | ApiError, R> =>
        Effect.flatMap(Clock.currentTimeMillis, (at) =>
          Effect.timeoutOrElse(work, {
            duration: Duration.millis(startedAt + Duration.toMillis(ANSWER_WITHIN[answerDeadline]) - at),
            orElse: () => late,
          }),
        ),
    }
  })
export type Deadline = Effect.Success<ReturnType<typeof makeDeadline>>
