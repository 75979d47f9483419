/**
 * The catalogue of topics: their names, partitions, retention and replication. `create.ts` creates
 * the topics, `inspect.ts` compares them with the catalogue.
 */
import { settings } from '@hub/config'
import { Config } from 'effect'
import { FILE_DELETE_DELAY_MS, PAYLOAD_KEY_PERIODS } from '../payload-keys/periods.ts'

const DAY = 24 * 60 * 60 * 1000

/**
 * The longest 13 months, from 1 January to 1 February of the next year with 29 February between: nothing
 * is deleted early, and nothing is kept longer than the contract says. For so long a rebuild of the read
 * models may need the records of a message. Source: docs/security.md, Retention.
 */
export const THIRTEEN_MONTHS_DAYS = 397
const THIRTEEN_MONTHS = THIRTEEN_MONTHS_DAYS * DAY

/**
 * The largest record batch that a broker accepts. The records of one produce request for one
 * partition are one batch. `event-log.ts` splits batches above half of this size.
 */
const MAX_BATCH_BYTES = 2 * 1024 * 1024

const BASES = {
  acceptedOtp: { name: 'hub.accepted.otp.v1', retentionMs: THIRTEEN_MONTHS },
  acceptedService: { name: 'hub.accepted.service.v1', retentionMs: THIRTEEN_MONTHS },
  messages: { name: 'hub.messages.v1', retentionMs: THIRTEEN_MONTHS },
  operatorReports: { name: 'hub.operator-reports.v1', retentionMs: 90 * DAY },
  webhooks: { name: 'hub.webhooks.v1', retentionMs: 30 * DAY },
} as const

/** The topics of the payload keys: short segments, so that Kafka deletes the keys on time. */
const KEY_BASES = {
  otpKeys: { name: 'hub.sealing-keys.otp.v1', periods: PAYLOAD_KEY_PERIODS.otp },
  serviceKeys: { name: 'hub.sealing-keys.service.v1', periods: PAYLOAD_KEY_PERIODS.service },
} as const

/** The erasures: Kafka keeps the last one of each recipient for ever. */
const ERASURES = 'hub.erasures.v1'

/** The database of the hub: Kafka keeps the last record for ever. */
const DATABASE = 'hub.database.v1'

/**
 * The outcomes of messages, for analysts: Kafka keeps the last one of each message. No group of the hub
 * reads them, so they have no shards and no dead letters.
 */
const OUTCOMES = { name: 'hub.message-outcomes.v1', retentionMs: THIRTEEN_MONTHS } as const

/** Staff must have time to notice, read and retry dead letters. */
const DEAD_LETTER_RETENTION_MS = 90 * DAY

/** Topic names with the prefix of the deployment. */
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
  /** The payload keys of class `otp`. One partition. Key: the id of the payload key. */
  readonly otpKeys: string
  /** The payload keys of class `service`, in the same form. */
  readonly serviceKeys: string
  /** The last erasure of each recipient. One partition. Key: recipient hash. */
  readonly erasures: string
  /** The database of the hub. One partition. Key: `database`. */
  readonly database: string
  /** The outcomes of messages. Key: the message id. */
  readonly outcomes: string
}

/** The topic names with a prefix (`HUB_TOPIC_PREFIX`; empty in production). */
export const topicNames = (prefix = ''): TopicNames => ({
  acceptedOtp: prefix + BASES.acceptedOtp.name,
  acceptedService: prefix + BASES.acceptedService.name,
  messages: prefix + BASES.messages.name,
  operatorReports: prefix + BASES.operatorReports.name,
  webhooks: prefix + BASES.webhooks.name,
  otpKeys: prefix + KEY_BASES.otpKeys.name,
  serviceKeys: prefix + KEY_BASES.serviceKeys.name,
  erasures: prefix + ERASURES,
  database: prefix + DATABASE,
  outcomes: prefix + OUTCOMES.name,
})

/** The topics that groups read in shards. They have dead-letter topics. */
export const shardedTopics = (topics: TopicNames): ReadonlyArray<string> => [
  topics.acceptedOtp,
  topics.acceptedService,
  topics.messages,
  topics.operatorReports,
  topics.webhooks,
]

/** The topic for records of `topic` that cannot be decoded or applied. */
export const deadLetterTopic = (topic: string): string => `${topic}.dead-letter`

/** The required state of a topic. */
export interface TopicSpec {
  readonly topic: string
  readonly partitions: number
  readonly replicationFactor: number
  /** Topic settings, by Kafka's names. */
  readonly config: Readonly<Record<string, string>>
}

interface CatalogueOptions {
  readonly prefix: string
  /**
   * Equal for every topic that is not read as a whole, so that partition *p* of each topic belongs
   * to shard *p*.
   */
  readonly partitions: number
  /** 1 locally; 3 in production, where each acknowledgement then requires two replicas. */
  readonly replicationFactor: number
}

export const topicCatalogue = (options: CatalogueOptions): ReadonlyArray<TopicSpec> => {
  const spec = (topic: string, retentionMs: number): TopicSpec => ({
    topic,
    partitions: options.partitions,
    replicationFactor: options.replicationFactor,
    config: {
      'cleanup.policy': 'delete',
      'retention.ms': String(retentionMs),
      // The replicas that `acks=all` waits for: with three replicas, one may be down or be lost.
      'min.insync.replicas': String(Math.max(1, options.replicationFactor - 1)),
      // A replica that lacks records never becomes the leader: unavailability is better than loss.
      'unclean.leader.election.enable': 'false',
      'max.message.bytes': String(MAX_BATCH_BYTES),
      'message.timestamp.type': 'CreateTime',
    },
  })
  const keySpec = ({ name, periods }: (typeof KEY_BASES)[keyof typeof KEY_BASES]): TopicSpec => {
    const general = spec(options.prefix + name, periods.retentionMs)
    return {
      ...general,
      // Readers read the whole topic. It has some hundred records.
      partitions: 1,
      config: {
        ...general.config,
        'segment.ms': String(periods.segmentMs),
        'file.delete.delay.ms': String(FILE_DELETE_DELAY_MS),
        // The clock of a producer must not prolong the life of a key.
        'message.timestamp.type': 'LogAppendTime',
      },
    }
  }
  const keptSpec = (name: string): TopicSpec => {
    const kept = spec(options.prefix + name, -1)
    return { ...kept, partitions: 1, config: { ...kept.config, 'cleanup.policy': 'compact' } }
  }
  const outcomes = spec(options.prefix + OUTCOMES.name, OUTCOMES.retentionMs)
  return [
    ...Object.values(BASES).flatMap(({ name, retentionMs }) => [
      spec(options.prefix + name, retentionMs),
      spec(deadLetterTopic(options.prefix + name), DEAD_LETTER_RETENTION_MS),
    ]),
    ...Object.values(KEY_BASES).map(keySpec),
    ...[ERASURES, DATABASE].map(keptSpec),
    { ...outcomes, config: { ...outcomes.config, 'cleanup.policy': 'compact,delete' } },
  ]
}

/** The options that the environment configures. */
export const catalogueConfig: Config.Config<CatalogueOptions> = Config.all({
  prefix: settings.topicPrefix.config,
  partitions: settings.partitions.config,
  replicationFactor: settings.replicationFactor.config,
})
