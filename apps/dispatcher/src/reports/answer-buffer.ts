/**
 * Raw answers of operators that wait for Kafka. Hub staff can read them for 90 days
 * (docs/decisions/smpp.md#raw-answers). No message waits for them: while Kafka is unavailable, the buffer
 * fills, and further answers are dropped and counted.
 */
import { type EventLog, kafkaCrashPoint, operatorAnswerRecord, type TopicNames } from '@hub/kafka'
import type { OperatorAnswer } from '@hub/operator'
import { answerContext, type PayloadKey } from '@hub/store'
import { Clock, Effect, Latch, type Scope } from 'effect'
import { truncateRaw } from '../payload/report-payload.ts'

/** Some hundred bytes each: the answers of half a minute of a busy operator. */
const MAX_BYTES = 16 * 1024 * 1024
/** The memory of an answer in addition to its bytes. */
const OVERHEAD_BYTES = 200
/** Answers wait this long for others. The end of a process by force loses those of this time. */
const GATHER_MS = 500
/** Answers of one append. */
const APPENDED_AT_ONCE = 1000
/** At the end of the process, for the last answers. */
const LAST_APPEND = '2 seconds'

const atAnswersStored = kafkaCrashPoint('dispatcher.answers-stored')

interface Waiting extends OperatorAnswer {
  readonly receivedAt: number
}

interface AnswerBufferOptions<E> {
  readonly topics: TopicNames
  readonly log: EventLog['Service']
  /** Returns the payload key of a recipient hash. */
  readonly keys: Effect.Effect<(recipient: string) => PayloadKey, E>
  readonly onDropped: (count: number) => void
}

/** Returns the function that keeps answers. It appends them until the scope closes. */
export const makeAnswerBuffer = <E>(
  options: AnswerBufferOptions<E>,
): Effect.Effect<(answers: ReadonlyArray<OperatorAnswer>) => void, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { keys, log, onDropped, topics } = options
    const clock = yield* Clock.Clock
    let waiting: Array<Waiting> = []
    let bytes = 0
    /** Open while answers wait. */
    const some = Latch.makeUnsafe(false)
    const sizeOf = ({ raw }: OperatorAnswer) => raw.length + OVERHEAD_BYTES

    const append = Effect.gen(function* () {
      some.closeUnsafe()
      while (waiting.length > 0) {
        const next = waiting.slice(0, APPENDED_AT_ONCE)
        const keyOf = yield* keys
        const records = next.map((answer, number) => {
          const { operator, recipient, receivedAt, reference: messageId } = answer
          const key = keyOf(recipient)
          return operatorAnswerRecord(
            topics,
            {
              type: 'OperatorAnswerReceived',
              operator,
              messageId,
              recipient,
              receivedAt,
              rawKey: key.id,
              rawCiphertext: key.encrypt(answerContext({ operator, messageId }), answer.raw),
            },
            number,
          )
        })
        yield* atAnswersStored(log.append(records))
        waiting = waiting.slice(next.length)
        for (const answer of next) bytes -= sizeOf(answer)
      }
    }).pipe(
      Effect.catchCause((cause) =>
        Effect.logDebug('dispatcher: answers of operators were not stored; retrying', cause),
      ),
      Effect.tap(() => Effect.sync(() => (waiting.length > 0 ? some.openUnsafe() : undefined))),
    )
    // The fiber ends before the last append, so no answer is appended twice.
    yield* Effect.addFinalizer(() => Effect.timeoutOption(append, LAST_APPEND))
    yield* some.await.pipe(
      Effect.andThen(Effect.sleep(GATHER_MS)),
      Effect.andThen(append),
      Effect.forever,
      Effect.forkScoped,
    )

    return (answers) => {
      const receivedAt = clock.currentTimeMillisUnsafe()
      let dropped = 0
      for (const answer of answers) {
        // A copy: the octets may be part of a larger buffer of the socket.
        const raw = Uint8Array.from(truncateRaw(answer.raw))
        const one = { ...answer, raw, receivedAt }
        if (bytes + sizeOf(one) > MAX_BYTES) {
          dropped++
          continue
        }
        bytes += sizeOf(one)
        waiting.push(one)
        some.openUnsafe()
      }
      if (dropped > 0) onDropped(dropped)
    }
  })
