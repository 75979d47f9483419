/**
 * The kafkajs adapter of the port `TopicReader`. It asks the leaders of the partitions directly,
 * because a consumer group would have to be joined first, and shares partitions among its members.
 */
import { backoffSchedule, QUICK } from '@hub/flow'
import { Effect, Layer } from 'effect'
import { type Fork, type KafkaClient, type KafkaConnection, makeKafka } from '../connection/client.ts'
import { hasLeaderMoved, reasonOf } from '../connection/errors.ts'
import type { InnerCluster } from '../kafkajs-patches/internals.ts'
import { createCluster } from '../kafkajs-patches/leave-group-for.ts'
import {
  type IncomingRecord,
  KafkaUnavailable,
  type KeyQuery,
  type PeriodQuery,
  TopicReader,
} from '../port.ts'
import { partitionsOf } from '../topics/offset-ranges.ts'
import { fetchRequest } from '../wire/fetch.ts'
import { sendRequest } from '../wire/protocol.ts'

interface TopicReaderOptions {
  readonly connection: KafkaConnection
  /** Deadline of a read, ms. Default 3000. */
  readonly deadlineMs?: number
}

/** Reading some hundred records takes milliseconds. */
const DEADLINE_MS = 3000
/** A partition of a busy hub has some hundred thousand records in a day. */
const PERIOD_DEADLINE_MS = 60_000
/** Bytes of one fetch. Larger topics need several. */
const MAX_FETCH_BYTES = 8 * 1024 * 1024
/** The records exist already, so the broker has nothing to wait for. */
const MAX_WAIT_MS = 100

interface ClusterConnection extends KafkaClient {
  readonly cluster: InnerCluster
  readonly connected: Promise<void>
}

/** The connections of a process. The first failure replaces them. */
class Connections {
  readonly #options: TopicReaderOptions
  readonly #fork: Fork
  #open: ClusterConnection | undefined

  constructor(options: TopicReaderOptions, fork: Fork) {
    this.#options = options
    this.#fork = fork
  }

  readAll(topic: string): Promise<ReadonlyArray<IncomingRecord>> {
    return this.#read((cluster) => readAll(cluster, topic))
  }

  readKey({ key, partition, ...period }: KeyQuery): Promise<ReadonlyArray<IncomingRecord>> {
    const query = { ...period, wanted: (record: IncomingRecord) => record.key === key }
    return this.#read((cluster) => readPeriod(cluster, query, [partition]))
  }

  readPeriod(query: PeriodQuery): Promise<ReadonlyArray<IncomingRecord>> {
    return this.#read((cluster) => readPeriod(cluster, query))
  }

  async #read(
    read: (cluster: InnerCluster) => Promise<ReadonlyArray<IncomingRecord>>,
  ): Promise<ReadonlyArray<IncomingRecord>> {
    const open = (this.#open ??= this.#connect())
    try {
      await open.connected
      return await read(open.cluster)
    } catch (error) {
      // The leaders may have changed, so the next read loads the metadata again.
      if (this.#open === open) this.close()
      throw error
    }
  }

  close(): void {
    const open = this.#open
    this.#open = undefined
    open?.destroy()
  }

  #connect(): ClusterConnection {
    const { connection, deadlineMs = DEADLINE_MS } = this.#options
    const client = makeKafka(
      connection,
      {
        requestTimeoutMs: deadlineMs,
        retry: { retries: connection.brokers.length - 1, initialRetryTime: 5, maxRetryTime: 20 },
      },
      this.#fork,
    )
    const cluster = createCluster(client.kafka)
    return { ...client, cluster, connected: cluster.connect() }
  }
}

/** Reads the offsets from `from` to `to` − 1 of a partition. */
const readOffsets = async (
  cluster: InnerCluster,
  topic: string,
  partition: number,
  { from, to }: { readonly from: number; readonly to: number },
  onRecord: (record: IncomingRecord) => void,
): Promise<void> => {
  const [nodeId] = Object.keys(cluster.findLeaderForPartitions(topic, [partition]))
  if (nodeId === undefined) return
  const broker = await cluster.findBroker({ nodeId })
  let next = from
  while (next < to) {
    const [fetched] = await sendRequest(
      broker,
      fetchRequest({
        partitions: [{ topic, partition, position: next }],
        maxWaitMs: MAX_WAIT_MS,
        maxBytes: MAX_FETCH_BYTES,
        maxBytesPerPartition: MAX_FETCH_BYTES,
      }),
    )
    // Compaction may have removed the records at the end.
    if (fetched === undefined) break
    for (const record of fetched.records) if (record.offset < to) onRecord(record)
    next = fetched.next
  }
}

/** Asks for an offset of each partition: the first, the next, or the first since a time. */
const offsetsOf = async (
  cluster: InnerCluster,
  topic: string,
  partitions: ReadonlyArray<number>,
  which: { readonly fromBeginning: boolean } | { readonly fromTimestamp: number },
): Promise<ReadonlyMap<number, number>> => {
  const asked = partitions.map((partition) => ({ partition }))
  const [answer] = await cluster.fetchTopicsOffset([{ topic, partitions: asked, ...which }])
  return new Map(answer?.partitions.map(({ offset, partition }) => [partition, Number(offset)]))
}

/** The records of all partitions, from their first offsets to their current ends. */
const readAll = async (cluster: InnerCluster, topic: string): Promise<ReadonlyArray<IncomingRecord>> => {
  await cluster.addTargetTopic(topic)
  const partitions = partitionsOf(cluster, topic)
  const [starts, ends] = await Promise.all([
    offsetsOf(cluster, topic, partitions, { fromBeginning: true }),
    offsetsOf(cluster, topic, partitions, { fromBeginning: false }),
  ])
  const records: Array<IncomingRecord> = []
  for (const partition of partitions) {
    const range = { from: starts.get(partition) ?? 0, to: ends.get(partition) ?? 0 }
    await readOffsets(cluster, topic, partition, range, (record) => records.push(record))
  }
  return records
}

/** The wanted records of a period, from the given partitions, or from all of them. */
const readPeriod = async (
  cluster: InnerCluster,
  { from, to, topic, wanted }: PeriodQuery,
  given?: ReadonlyArray<number>,
): Promise<ReadonlyArray<IncomingRecord>> => {
  await cluster.addTargetTopic(topic)
  const partitions = given ?? partitionsOf(cluster, topic)
  const [since, until, ends] = await Promise.all([
    offsetsOf(cluster, topic, partitions, { fromTimestamp: from }),
    offsetsOf(cluster, topic, partitions, { fromTimestamp: to }),
    offsetsOf(cluster, topic, partitions, { fromBeginning: false }),
  ])
  const records: Array<IncomingRecord> = []
  for (const partition of partitions) {
    /** No record is as young: the end of the partition. */
    const orEnd = (offset = -1) => (offset < 0 ? (ends.get(partition) ?? 0) : offset)
    const range = { from: orEnd(since.get(partition)), to: orEnd(until.get(partition)) }
    await readOffsets(cluster, topic, partition, range, (record) => {
      if (wanted(record)) records.push(record)
    })
  }
  return records
}

const unavailable = (error: unknown): KafkaUnavailable => {
  const { detail, reason } = reasonOf(error)
  return new KafkaUnavailable({ reason, detail })
}

/** Connects at the first read. */
export const layerTopicReader = (options: TopicReaderOptions): Layer.Layer<TopicReader> =>
  Layer.effect(
    TopicReader,
    Effect.gen(function* () {
      const context = yield* Effect.context<never>()
      const connections = new Connections(options, Effect.runForkWith(context))
      yield* Effect.addFinalizer(() => Effect.sync(() => connections.close()))
      const within = (
        deadlineMs: number,
        read: () => Promise<ReadonlyArray<IncomingRecord>>,
      ): Effect.Effect<ReadonlyArray<IncomingRecord>, KafkaUnavailable> =>
        Effect.tryPromise({ try: read, catch: (error) => error }).pipe(
          Effect.retry({ while: hasLeaderMoved, schedule: backoffSchedule(QUICK) }),
          Effect.mapError(unavailable),
          Effect.timeoutOrElse({
            duration: deadlineMs,
            orElse: () =>
              Effect.suspend(() => {
                connections.close()
                return Effect.fail(new KafkaUnavailable({ reason: 'timeout', detail: 'reading a topic' }))
              }),
          }),
        )
      return TopicReader.of({
        readAll: (topic) => within(options.deadlineMs ?? DEADLINE_MS, () => connections.readAll(topic)),
        readKey: (query) => within(PERIOD_DEADLINE_MS, () => connections.readKey(query)),
        readPeriod: (query) => within(PERIOD_DEADLINE_MS, () => connections.readPeriod(query)),
      })
    }),
  )
