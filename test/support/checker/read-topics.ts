/**
 * Reads all topics without the codec of the hub: it parses the wire format itself and decodes
 * values with the `.avsc` file of their schema id.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '@hub/local-stack'
import avro from 'avsc'
import { readTopic } from '../read-topic.ts'

/** A record, decoded with its own schema. Field names are those of the schema. */
export interface TopicRecord {
  readonly partition: number
  readonly offset: number
  /** The name of the record type, such as `MessageSent`. */
  readonly type: string
  readonly value: Readonly<Record<string, any>>
}

/** All records of the hub, ordered within each partition. */
export interface Topics {
  readonly lanes: ReadonlyArray<TopicRecord>
  readonly log: ReadonlyArray<TopicRecord>
  readonly webhooks: ReadonlyArray<TopicRecord>
  /** The number of records in each dead-letter topic. */
  readonly deadLetters: ReadonlyMap<string, number>
}

const SCHEMAS = join(ROOT, 'packages/kafka/schemas')
const readJson = (file: string): any => JSON.parse(readFileSync(join(SCHEMAS, file), 'utf8'))

const types = new Map<number, { readonly name: string; readonly type: avro.Type }>()
for (const [name, versions] of Object.entries<ReadonlyArray<{ id: number; version: number }>>(
  readJson('ids.json'),
)) {
  for (const { id, version } of versions) {
    types.set(id, { name, type: avro.Type.forSchema(readJson(`${name}.v${version}.avsc`)) })
  }
}

/** Decodes the wire format: magic byte, schema id, Avro. */
const decode = (bytes: Uint8Array): Pick<TopicRecord, 'type' | 'value'> => {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const found = buffer[0] === 0 ? types.get(buffer.readUInt32BE(1)) : undefined
  if (found === undefined) throw new Error('the record has an unknown schema id')
  return { type: found.name, value: found.type.fromBuffer(buffer.subarray(5)) }
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
      ...decode(value),
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
