/** The messages of one request, from the lanes: only the records of acceptances have request ids. */
import type { MessageAccepted } from '@hub/domain'
import { catalogueConfig, decodeFact, type IncomingRecord, topicNames, TopicReader } from '@hub/kafka'
import { Duration, Effect, Result } from 'effect'

/**
 * The records of a request are in the lanes at most 10 s after it arrived, unless they waited for Kafka.
 * The rest is for the differences of clocks.
 */
const BEFORE_MS = 5000
const AFTER_MS = 20_000
/** People wait for the page. All partitions have to be read, usually in less than a second. */
const DEADLINE = Duration.seconds(8)

const acceptanceIn = (record: IncomingRecord): MessageAccepted | null => {
  const decoded = decodeFact(record)
  return Result.isSuccess(decoded) && decoded.success.type === 'MessageAccepted' ? decoded.success : null
}

/**
 * The acceptances of a request (`req_…`) that arrived at `at`, milliseconds since the epoch, in the order
 * of their ids; `null`: Kafka does not answer in time.
 */
export const readRequest = Effect.fnUntraced(
  function* (id: string, at: number) {
    const { prefix } = yield* catalogueConfig
    const reader = yield* TopicReader
    const { acceptedOtp, acceptedService } = topicNames(prefix)
    const bytes = Buffer.from(id)
    const records = yield* Effect.forEach(
      [acceptedOtp, acceptedService],
      (topic) =>
        reader.readPeriod({
          topic,
          // Kafka takes negative times for other questions.
          from: Math.max(0, at - BEFORE_MS),
          to: at + AFTER_MS,
          // Most records are of other requests. Decoding them takes longer than the search for bytes.
          wanted: ({ value }) => Buffer.from(value.buffer, value.byteOffset, value.length).includes(bytes),
        }),
      { concurrency: 'unbounded' },
    )
    const facts = records
      .flat()
      .flatMap((record) => acceptanceIn(record) ?? [])
      .filter(({ request }) => request === id)
    // The hub may have appended a record twice.
    return [...new Map(facts.map((fact) => [fact.messageId, fact])).values()].toSorted((a, b) =>
      a.messageId < b.messageId ? -1 : 1,
    )
  },
  (effect) =>
    effect.pipe(
      Effect.timeoutOrElse({ duration: DEADLINE, orElse: () => Effect.succeed(null) }),
      Effect.catchTag('KafkaUnavailable', () => Effect.succeed(null)),
    ),
)
