/** Reads all topics without the codec of the hub. */
import { readTopic } from '../read-topic.ts'
import { decodeValue, type TopicRecord } from './decode-value.ts'

/** All records of the hub, ordered within each partition. */
export interface Topics {
  readonly lanes: ReadonlyArray<TopicRecord>
  readonly log: ReadonlyArray<TopicRecord>
  readonly webhooks: ReadonlyArray<TopicRecord>
  /** The number of records in each dead-letter topic. */
  readonly deadLetters: ReadonlyMap<string, number>
}

const TOPICS = {
  otp: 'hub.accepted.otp.v1',
  service: 'hub.accepted.service.v1',
  log: 'hub.messages.v1',
  reports: 'hub.operator-reports.v1',
  webhooks: 'hub.webhooks.v1',
} as const

/** Reads all topics of a hub from their beginning. */
export const readTopics = async (brokers: ReadonlyArray<string>, withinMs: number): Promise<Topics> => {
  const read = async (topic: string): Promise<ReadonlyArray<TopicRecord>> =>
    (await readTopic(brokers, topic, withinMs)).map(({ offset, partition, value }) => ({
      partition,
      offset,
      ...decodeValue(value),
    }))
  const count = async (topic: string): Promise<readonly [string, number]> => [
    topic,
    (await readTopic(brokers, topic, withinMs)).length,
  ]
  // Joining the group of each reader takes longer than the read, so they run concurrently.
  const [otp, service, log, webhooks, ...deadLetters] = await Promise.all([
    read(TOPICS.otp),
    read(TOPICS.service),
    read(TOPICS.log),
    read(TOPICS.webhooks),
    ...Object.values(TOPICS).map((topic) => count(`${topic}.dead-letter`)),
  ])
  return { lanes: [...otp, ...service], log, webhooks, deadLetters: new Map(deadLetters) }
}
