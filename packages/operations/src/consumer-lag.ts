/** How far each consumer is behind the ends of the topics that it reads. */
import {
  describeGroup,
  type KafkaConnection,
  type OffsetRange,
  readOffsetRanges,
  type TopicNames,
  topicNames,
} from '@hub/kafka'
import { ReadCheckpoints, WebhooksPositions } from '@hub/store'
import { Effect } from 'effect'
import { query } from './sql.ts'

/** The topics of each consumer. */
const READERS = {
  // Without the log: its low-water mark depends on open messages, so it does not measure lag.
  dispatcher: ({ acceptedOtp, acceptedService, operatorReports }: TopicNames) => [
    acceptedOtp,
    acceptedService,
    operatorReports,
  ],
  projector: ({ acceptedOtp, acceptedService, messages }: TopicNames) => [
    acceptedOtp,
    acceptedService,
    messages,
  ],
  'webhook-fanout': ({ webhooks }: TopicNames) => [webhooks],
} as const
type Consumer = keyof typeof READERS

export const CONSUMERS = Object.keys(READERS) as ReadonlyArray<Consumer>

interface ShardLag {
  readonly topic: string
  readonly shard: number
  readonly lag: number
}

export interface ConsumerLag {
  readonly consumer: Consumer
  /** Members of the consumer group. */
  readonly members: number
  /** Records that it has not read or applied. */
  readonly lag: number
  /** The shards with a lag, the largest first. */
  readonly shards: ReadonlyArray<ShardLag>
}

/** The next offset of a reader, by topic and partition. */
type Positions = ReadonlyMap<string, ReadonlyMap<number, number>>

interface StoredPosition {
  readonly topic: string
  readonly partition: number
  readonly position: number
}

const positionsOf = (stored: ReadonlyArray<StoredPosition>): Positions =>
  new Map(
    [...Map.groupBy(stored, ({ topic }) => topic)].map(([topic, own]) => [
      topic,
      new Map(own.map(({ partition, position }) => [partition, Math.max(0, position)])),
    ]),
  )

/** The positions that consumers keep in PostgreSQL instead of their group. */
const storedPositions = (prefix: string, names: TopicNames) =>
  query(async (q): Promise<Readonly<Partial<Record<Consumer, Positions>>>> => ({
    projector: positionsOf(
      (await ReadCheckpoints.readPositions(q)).map((row) => ({ ...row, topic: `${prefix}${row.topic}` })),
    ),
    'webhook-fanout': positionsOf(
      (await WebhooksPositions.readAll(q)).map((row) => ({ ...row, topic: names.webhooks })),
    ),
  }))

const shardsOf = (
  ranges: ReadonlyMap<string, ReadonlyArray<OffsetRange>>,
  topics: ReadonlyArray<string>,
  positions: Positions,
): ReadonlyArray<ShardLag> =>
  topics
    .flatMap((topic) =>
      (ranges.get(topic) ?? []).map(({ high, low, partition }) => ({
        topic,
        shard: partition,
        lag: Math.max(0, high - Math.max(low, positions.get(topic)?.get(partition) ?? low)),
      })),
    )
    .filter(({ lag }) => lag > 0)
    .toSorted((a, b) => b.lag - a.lag)

/**
 * The lag of each consumer, and the offset ranges of its topics and of `others`. `prefix`: of topics and
 * consumer groups.
 */
export const readConsumers = Effect.fnUntraced(function* (
  connection: KafkaConnection,
  prefix: string,
  others: ReadonlyArray<string> = [],
) {
  const names = topicNames(prefix)
  const topics = [...new Set(CONSUMERS.flatMap((consumer) => READERS[consumer](names)))]
  const [stored, ranges, ...groups] = yield* Effect.all(
    [
      storedPositions(prefix, names),
      readOffsetRanges(connection, [...topics, ...others]),
      ...CONSUMERS.map((consumer) => describeGroup(connection, `${prefix}hub.${consumer}`)),
    ],
    { concurrency: 'unbounded' },
  )
  const consumers = CONSUMERS.map((consumer, place): ConsumerLag => {
    const group = groups[place]
    const positions = stored[consumer] ?? group?.committed ?? new Map()
    const shards = shardsOf(ranges, READERS[consumer](names), positions)
    return {
      consumer,
      members: group?.members ?? 0,
      lag: shards.reduce((sum, { lag }) => sum + lag, 0),
      shards,
    }
  })
  return { consumers, ranges }
})
