/** How far each consumer is behind the ends of the topics that it reads. */
import {
  describeGroup,
  type KafkaConnection,
  type OffsetRange,
  readOffsetRanges,
  type TopicNames,
  topicNames,
} from '@hub/kafka'
import { type Queries, ReadCheckpoints, WebhooksPositions } from '@hub/store'
import { Effect } from 'effect'
import { query } from './sql.ts'

interface StoredPosition {
  readonly topic: string
  readonly partition: number
  readonly position: number
}

interface Reader {
  readonly topics: (names: TopicNames) => ReadonlyArray<string>
  /** The positions in PostgreSQL; `null`: the consumer commits them to its group. */
  readonly stored:
    | ((q: Queries, names: TopicNames, prefix: string) => Promise<ReadonlyArray<StoredPosition>>)
    | null
}

export type Consumer = 'dispatcher' | 'projector' | 'webhook-fanout'

const READERS: Readonly<Record<Consumer, Reader>> = {
  dispatcher: {
    // Without the log: its low-water mark depends on open messages, so it does not measure lag.
    topics: ({ acceptedOtp, acceptedService, operatorReports }) => [
      acceptedOtp,
      acceptedService,
      operatorReports,
    ],
    stored: null,
  },
  projector: {
    topics: ({ acceptedOtp, acceptedService, messages }) => [acceptedOtp, acceptedService, messages],
    stored: async (q, _, prefix) =>
      (await ReadCheckpoints.readPositions(q)).map((row) => ({ ...row, topic: `${prefix}${row.topic}` })),
  },
  'webhook-fanout': {
    topics: ({ webhooks }) => [webhooks],
    stored: async (q, { webhooks }) =>
      (await WebhooksPositions.readAll(q)).map((row) => ({ ...row, topic: webhooks })),
  },
}

export const CONSUMERS = Object.keys(READERS) as ReadonlyArray<Consumer>

/** Whether the lag of a consumer depends on PostgreSQL. */
export const keepsPositionsInPostgresql = (consumer: Consumer): boolean => READERS[consumer].stored !== null

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

const positionsOf = (stored: ReadonlyArray<StoredPosition>): Positions =>
  new Map(
    [...Map.groupBy(stored, ({ topic }) => topic)].map(([topic, own]) => [
      topic,
      new Map(own.map(({ partition, position }) => [partition, Math.max(0, position)])),
    ]),
  )

/** The consumer group, and the positions of its consumer. `prefix`: of topics and consumer groups. */
const readGroup = Effect.fnUntraced(function* (
  connection: KafkaConnection,
  prefix: string,
  consumer: Consumer,
) {
  const { stored } = READERS[consumer]
  const [group, positions] = yield* Effect.all(
    [
      describeGroup(connection, `${prefix}hub.${consumer}`),
      stored === null ? Effect.succeed(null) : query((q) => stored(q, topicNames(prefix), prefix)),
    ],
    { concurrency: 'unbounded' },
  )
  return { group, positions: positions === null ? group.committed : positionsOf(positions) }
})

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

const totalOf = (shards: ReadonlyArray<ShardLag>): number => shards.reduce((sum, { lag }) => sum + lag, 0)

/** The members of a consumer and its lag. `prefix`: of topics and consumer groups. */
export const readConsumer = Effect.fnUntraced(function* (
  connection: KafkaConnection,
  prefix: string,
  consumer: Consumer,
) {
  const topics = READERS[consumer].topics(topicNames(prefix))
  const [ranges, { group, positions }] = yield* Effect.all(
    [readOffsetRanges(connection, topics), readGroup(connection, prefix, consumer)],
    { concurrency: 'unbounded' },
  )
  return { members: group.members, state: group.state, lag: totalOf(shardsOf(ranges, topics, positions)) }
})

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
  const topics = new Set(CONSUMERS.flatMap((consumer) => READERS[consumer].topics(names)))
  const [ranges, groups] = yield* Effect.all(
    [
      readOffsetRanges(connection, [...topics, ...others]),
      Effect.forEach(
        CONSUMERS,
        (consumer) =>
          Effect.map(readGroup(connection, prefix, consumer), (found) => ({ consumer, ...found })),
        { concurrency: 'unbounded' },
      ),
    ],
    { concurrency: 'unbounded' },
  )
  const consumers = groups.map(({ consumer, group, positions }): ConsumerLag => {
    const shards = shardsOf(ranges, READERS[consumer].topics(names), positions)
    return { consumer, members: group.members, lag: totalOf(shards), shards }
  })
  return { consumers, ranges }
})
