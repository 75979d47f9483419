/**
 * The catalogue of topics: the one place that says which exist, how long they keep and how safe they are.
 * Architecture, Topics.
 */
import { settings } from '@hub/config'
import { Config, Data, Duration, Effect, Schedule } from 'effect'
import kafkajs, { type Admin, type ITopicConfig, type RetryOptions } from 'kafkajs'
import { makeKafka, reasonOf, type KafkaConnection } from '../connection/client.ts'
import { KafkaUnavailable } from '../port.ts'

const DAY = 24 * 60 * 60 * 1000

/**
 * 13 months (of 31 days and a bit): the longest a public answer about a message may have to be rebuilt from
 * the log, with a month to spare.
 */
const THIRTEEN_MONTHS = 400 * DAY

/**
 * The largest record batch that a broker takes. One produce's records for one partition are one batch; the
 * adapter splits above half of this.
 */
const MAX_BATCH_BYTES = 2 * 1024 * 1024

const BASES = {
  acceptedOtp: { name: 'hub.accepted.otp.v1', retentionMs: THIRTEEN_MONTHS },
  acceptedService: { name: 'hub.accepted.service.v1', retentionMs: THIRTEEN_MONTHS },
  messages: { name: 'hub.messages.v1', retentionMs: THIRTEEN_MONTHS },
  operatorReports: { name: 'hub.operator-reports.v1', retentionMs: 90 * DAY },
  webhooks: { name: 'hub.webhooks.v1', retentionMs: 30 * DAY },
} as const

/** Dead letters are for people: long enough to notice, read and repeat. */
const DEAD_LETTER_RETENTION_MS = 90 * DAY

/** Topic names with the deployment's prefix. */
export interface TopicNames {
  /** The lane of class `otp`. Key: recipient hash. */
  readonly acceptedOtp: string
  /** The lane of class `service`. Key: recipient hash. */
  readonly acceptedService: string
  /** The log. Key: recipient hash; batch id for `BatchSealed`. */
  readonly messages: string
  /** Key: recipient hash. */
  readonly operatorReports: string
  /** Key: `acc_…:live` or `acc_…:test`. */
  readonly webhooks: string
}

/** The names of the topics under a prefix (`HUB_TOPIC_PREFIX`; empty in production). */
export const topicNames = (prefix = ''): TopicNames => ({
  acceptedOtp: prefix + BASES.acceptedOtp.name,
  acceptedService: prefix + BASES.acceptedService.name,
  messages: prefix + BASES.messages.name,
  operatorReports: prefix + BASES.operatorReports.name,
  webhooks: prefix + BASES.webhooks.name,
})

/** Where records of a topic go that cannot be read or applied. */
export const deadLetterTopic = (topic: string): string => `${topic}.dead-letter`

/** One topic as it should be. */
export interface TopicSpec {
  readonly topic: string
  readonly partitions: number
  readonly replicationFactor: number
  /** Topic settings by the broker's own names. */
  readonly config: Readonly<Record<string, string>>
}

export interface CatalogueOptions {
  readonly prefix: string
  /** The same for every topic, so that partition *p* of each belongs to shard *p*. */
  readonly partitions: number
  /** 1 locally; 3 in production, which then wants two replicas in every acknowledgement. */
  readonly replicationFactor: number
}

/** Every topic of a deployment. */
export const topicCatalogue = (options: CatalogueOptions): ReadonlyArray<TopicSpec> => {
  const spec = (topic: string, retentionMs: number): TopicSpec => ({
    topic,
    partitions: options.partitions,
    replicationFactor: options.replicationFactor,
    config: {
      'cleanup.policy': 'delete',
      'retention.ms': String(retentionMs),
      // acks=all means this many: with three replicas one may be down, and none that answered can be lost alone.
      'min.insync.replicas': String(Math.max(1, options.replicationFactor - 1)),
      // A replica that has missed records never becomes leader: waiting is allowed, losing is not.
      'unclean.leader.election.enable': 'false',
      'max.message.bytes': String(MAX_BATCH_BYTES),
      // The producer's clock is the record's; the broker's own is not asked for.
      'message.timestamp.type': 'CreateTime',
    },
  })
  return Object.values(BASES).flatMap(({ name, retentionMs }) => [
    spec(options.prefix + name, retentionMs),
    spec(deadLetterTopic(options.prefix + name), DEAD_LETTER_RETENTION_MS),
  ])
}

/** The catalogue as the environment has it. */
export const catalogueConfig: Config.Config<CatalogueOptions> = Config.all({
  prefix: settings.topicPrefix.config,
  partitions: settings.partitions.config,
  replicationFactor: settings.replicationFactor.config,
})

/** A setting of an existing topic that is not as the catalogue has it. It is left as it is. */
export interface TopicDifference {
  readonly topic: string
  readonly setting: string
  readonly wanted: string
  readonly found: string
}

export interface TopicReport {
  /** Topics that were not there before; this call or another at the same time created them. */
  readonly created: ReadonlyArray<string>
  readonly differences: ReadonlyArray<TopicDifference>
}

/** What the broker says a topic must not be like (for example a replication factor above its number of brokers). */
export class KafkaRequestRejected extends Data.TaggedError('KafkaRequestRejected')<{
  readonly detail: string
}> {}

/** How long `createTopics` waits for a broker that is starting. */
const CREATE_WITHIN = Duration.seconds(60)

/**
 * Creates the topics that are missing and tells how the existing ones differ. Nothing is deleted or altered, so
 * it is safe at every start and by several processes at once. While the broker is starting it is tried again, for
 * a minute at most.
 */
export const createTopics = Effect.fn('createTopics')(function* (
  connection: KafkaConnection,
  catalogue: ReadonlyArray<TopicSpec>,
) {
  // An attempt may create a topic and fail after it; the next must still say that it was not there before.
  const absent = new Set<string>()
  const report = yield* withAdmin(connection, (admin) => ensure(admin, catalogue, absent)).pipe(
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
    yield* Effect.logWarning('a topic differs from the catalogue').pipe(
      Effect.annotateLogs({ topic, setting, wanted, found }),
    )
  }
  return report
})

/** A request of the admin client waits no longer than this. */
const ADMIN_TIMEOUT_MS = 10_000

/** Asks with an admin client of its own, which is gone afterwards. For this package only. */
export const withAdmin = <A>(
  connection: KafkaConnection,
  use: (admin: Admin) => Promise<A>,
  retry: RetryOptions = { retries: 0 },
) =>
  Effect.acquireUseRelease(
    Effect.map(
      makeKafka(connection, { requestTimeoutMs: ADMIN_TIMEOUT_MS, retry }),
      ({ kafka, destroy }) => ({
        admin: kafka.admin(),
        destroy,
      }),
    ),
    ({ admin }) =>
      Effect.tryPromise({
        try: async () => {
          await admin.connect()
          return await use(admin)
        },
        catch: (cause) => {
          const { reason, detail, fatal } = reasonOf(cause)
          return fatal ? new KafkaRequestRejected({ detail }) : new KafkaUnavailable({ reason, detail })
        },
      }),
    ({ destroy }) => Effect.sync(destroy),
  )

/** The end of each partition of a topic: the offset that its next record will get, in the order of partitions. */
export const topicEndOffsets = (
  connection: KafkaConnection,
  topic: string,
): Effect.Effect<ReadonlyArray<number>, KafkaUnavailable | KafkaRequestRejected> =>
  withAdmin(connection, async (admin) =>
    (await admin.fetchTopicOffsets(topic))
      .toSorted((a, b) => a.partition - b.partition)
      .map(({ high }) => Number(high)),
  )

/** Looked at again in a moment: another process is creating the same topics. */
class CreatedByAnother extends Error {
  override readonly name = 'CreatedByAnother'
}

const ensure = async (
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
    if (!created) throw new CreatedByAnother()
  }
  for (const topic of absent) await untilLed(admin, topic)
  return {
    created: [...absent],
    differences: catalogue.length === 0 ? [] : await compare(admin, catalogue),
  }
}

/** Partitions are led a few milliseconds after the metadata says so. */
const LED_WITHIN_MS = 10_000
const LOOK_AGAIN_MS = 20

const untilLed = async (admin: Admin, topic: string): Promise<void> => {
  const limit = performance.now() + LED_WITHIN_MS
  for (;;) {
    try {
      // The leader answers this, nobody else.
      await admin.fetchTopicOffsets(topic)
      return
    } catch (error) {
      if (performance.now() > limit) throw error
      await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS))
    }
  }
}

/** How existing topics differ; all of them must exist. For this package only. */
export const compare = async (
  admin: Admin,
  catalogue: ReadonlyArray<TopicSpec>,
): Promise<ReadonlyArray<TopicDifference>> => {
  const { topics } = await admin.fetchTopicMetadata({ topics: catalogue.map(({ topic }) => topic) })
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: catalogue.map(({ topic, config }) => ({
      type: kafkajs.ConfigResourceTypes.TOPIC,
      name: topic,
      configNames: Object.keys(config),
    })),
  })
  const differences: Array<TopicDifference> = []
  for (const { topic, partitions, replicationFactor, config } of catalogue) {
    const found = topics.find(({ name }) => name === topic)?.partitions ?? []
    const wanted = {
      partitions: String(partitions),
      'replication factor': String(replicationFactor),
      ...config,
    }
    const actual: Record<string, string> = {
      partitions: String(found.length),
      'replication factor': String(found[0]?.replicas.length ?? 0),
    }
    for (const entry of resources.find(({ resourceName }) => resourceName === topic)?.configEntries ?? []) {
      actual[entry.configName] = entry.configValue
    }
    for (const [setting, value] of Object.entries(wanted)) {
      const is = actual[setting] ?? 'unset'
      if (is !== value) differences.push({ topic, setting, wanted: value, found: is })
    }
  }
  return differences
}
