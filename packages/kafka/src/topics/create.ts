/** Creates the missing topics of the catalogue. It never deletes or alters a topic. */
import { Duration, Effect, Schedule } from 'effect'
import type { Admin, ITopicConfig } from 'kafkajs'
import type { KafkaConnection } from '../connection/client.ts'
import { KafkaUnavailable } from '../port.ts'
import { withAdmin } from './admin.ts'
import type { TopicSpec } from './catalogue.ts'
import { type TopicDifference, topicDifferences } from './differences.ts'

interface TopicReport {
  /** Topics that did not exist before. This call, or a concurrent one, created them. */
  readonly created: ReadonlyArray<string>
  readonly differences: ReadonlyArray<TopicDifference>
}

/** How long `createTopics` retries while the broker starts. A busy machine needs more than a minute. */
const CREATE_WITHIN = Duration.minutes(3)

/**
 * Creates the missing topics, and logs how existing ones differ from the catalogue. It is safe at
 * every start. Retries for at most three minutes while the broker starts.
 */
export const createTopics = Effect.fn('createTopics')(function* (
  connection: KafkaConnection,
  catalogue: ReadonlyArray<TopicSpec>,
) {
  // An attempt may create a topic and then fail. The next attempt must still report it as created.
  const absent = new Set<string>()
  const report = yield* withAdmin(connection, (admin) => ensureTopics(admin, catalogue, absent)).pipe(
    Effect.retry({
      while: (error) => error._tag === 'KafkaUnavailable',
      schedule: Schedule.spaced('300 millis'),
    }),
    Effect.timeoutOrElse({
      duration: CREATE_WITHIN,
      orElse: () => Effect.fail(new KafkaUnavailable({ reason: 'timeout', detail: 'creating topics' })),
    }),
  )
  for (const { topic, setting, wanted, found } of report.differences) {
    yield* Effect.logWarning('topics: a topic differs from the catalogue; it is not changed').pipe(
      Effect.annotateLogs({ topic, setting, wanted, found }),
    )
  }
  return report
})

/** Causes a retry: another process is creating the same topics. */
class CreatedConcurrently extends Error {
  override readonly name = 'CreatedConcurrently'
}

const ensureTopics = async (
  admin: Admin,
  catalogue: ReadonlyArray<TopicSpec>,
  absent: Set<string>,
): Promise<TopicReport> => {
  const existing = new Set(await admin.listTopics())
  const missing = catalogue.filter(({ topic }) => !existing.has(topic))
  for (const { topic } of missing) absent.add(topic)
  if (missing.length > 0) {
    const created = await admin.createTopics({
      waitForLeaders: true,
      topics: missing.map(({ topic, partitions, replicationFactor, config }): ITopicConfig => ({
        topic,
        numPartitions: partitions,
        replicationFactor,
        configEntries: Object.entries(config).map(([name, value]) => ({ name, value })),
      })),
    })
    if (!created) throw new CreatedConcurrently()
  }
  for (const topic of absent) await awaitLeaders(admin, topic)
  return { created: [...absent], differences: await topicDifferences(admin, catalogue) }
}

/** A leader answers a few milliseconds after the metadata names it. */
const LEADERS_WITHIN_MS = 10_000
const RETRY_INTERVAL_MS = 20

const awaitLeaders = async (admin: Admin, topic: string): Promise<void> => {
  const limit = performance.now() + LEADERS_WITHIN_MS
  for (;;) {
    try {
      // Only leaders answer this request.
      await admin.fetchTopicOffsets(topic)
      return
    } catch (error) {
      if (performance.now() > limit) throw error
      await new Promise((resolve) => setTimeout(resolve, RETRY_INTERVAL_MS))
    }
  }
}
