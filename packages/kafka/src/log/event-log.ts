/**
 * The adapter of the port `EventLog`. It sends one produce request at a time with `acks=all`, and never
 * retries, over the connections of kafkajs. There is no idempotent producer, because kafkajs loses
 * acknowledged records after a timeout (docs/decisions/kafka.md#producer-without-idempotence).
 */
import { Effect, Layer } from 'effect'
import { makeKafka, type Fork, type KafkaClient, type KafkaConnection } from '../connection/client.ts'
import { reasonOf } from '../connection/errors.ts'
import { waitAtMost } from '../consumer/timing.ts'
import type { InnerCluster } from '../kafkajs-patches/internals.ts'
import { createCluster } from '../kafkajs-patches/leave-group-for.ts'
import { partitionKey } from '../partition-key.ts'
import { partitionFor } from './partitioner.ts'
import { KafkaUnavailable, EventLog, type OutgoingRecord, type Position } from '../port.ts'
import { type Produced, produceRequest } from '../wire/produce.ts'
import { sendRequest } from '../wire/protocol.ts'

interface EventLogOptions {
  readonly connection: KafkaConnection
  /** Partitions of every topic (`HUB_PARTITIONS`). */
  readonly partitions: number
  /** Deadline of an append, including its time in the queue. Default 5000 ms. */
  readonly deadlineMs?: number
  /** Maximum of queued records. Default 20,000, which is one second at full throughput. */
  readonly maxQueuedRecords?: number
}

/**
 * Of appends for which no client waits. A missed deadline means a repeat, which appends the records
 * twice if Kafka is only slow. A dead connection ends earlier (`silent-connections.ts`).
 */
const DEADLINE_MS = 5000
const MAX_QUEUED_RECORDS = 20_000

/** Bytes of one record batch (one partition of a request): half of `max.message.bytes`. */
const MAX_PARTITION_BYTES = 1024 * 1024
/** Bytes of one request. The broker accepts 100 MiB, but answers a smaller request sooner. */
const MAX_PRODUCE_BYTES = 8 * 1024 * 1024
/** Records of one request. The records of later appends wait for its answer. */
const MAX_PRODUCE_RECORDS = 2000
/** Headers and framing of a record, in addition to its key and value. */
const RECORD_OVERHEAD_BYTES = 250
/** kafkajs' timeout. Deadlines are shorter, so it only ends requests without a caller. */
const REQUEST_TIMEOUT_MS = 10_000
/** How long the end of a process waits for the request in progress. */
const CLOSE_WITHIN_MS = 2000

/** An `append` in progress. Many records need several produce requests. */
interface PendingAppend {
  readonly records: ReadonlyArray<OutgoingRecord>
  readonly partitions: ReadonlyArray<number>
  readonly positions: Array<Position>
  /** Monotonic clock. */
  readonly deadline: number
  readonly settle: (result: Effect.Effect<ReadonlyArray<Position>, KafkaUnavailable>) => void
  timer: NodeJS.Timeout | undefined
  isSettled: boolean
  /** Number of records that are in a produce request. */
  sent: number
  /** True once a connected producer has got records of it, which may reach the broker. */
  produced: boolean
}

/** The records of an append that are in one produce request. */
interface AppendRange {
  readonly append: PendingAppend
  readonly from: number
  readonly to: number
}

/** A producer with its connections. The first failure replaces it. */
interface ProducerConnection extends KafkaClient {
  readonly cluster: InnerCluster
  readonly connected: Promise<void>
  /** Topics whose metadata is loaded. */
  readonly knownTopics: Set<string>
}

const sizeOf = (record: OutgoingRecord) => record.value.length + record.key.length + RECORD_OVERHEAD_BYTES
const now = () => performance.now()

/** The produce queue of a process. */
class ProduceQueue {
  readonly #options: EventLogOptions
  readonly #fork: Fork
  readonly #maxQueued: number
  readonly #queue: Array<PendingAppend> = []
  #queuedRecords = 0
  #sending: Promise<void> | undefined
  #connection: ProducerConnection | undefined
  #connections = 0
  #isClosed = false

  constructor(options: EventLogOptions, fork: Fork) {
    this.#options = options
    this.#fork = fork
    this.#maxQueued = options.maxQueuedRecords ?? MAX_QUEUED_RECORDS
  }

  /** Queues an append. Returns a function that cancels it. */
  push(
    records: ReadonlyArray<OutgoingRecord>,
    deadlineMs: number,
    resume: (result: Effect.Effect<ReadonlyArray<Position>, KafkaUnavailable>) => void,
  ): () => void {
    const refuse = (reason: KafkaUnavailable['reason'], detail: string) => {
      resume(Effect.fail(new KafkaUnavailable({ reason, detail, notAppended: true })))
      return () => {}
    }
    if (this.#isClosed) return refuse('refused', 'the event log is closed')
    if (this.#queuedRecords + records.length > this.#maxQueued)
      return refuse('refused', 'the produce queue is full')
    const tooLarge = records.find((record) => sizeOf(record) > MAX_PARTITION_BYTES)
    if (tooLarge !== undefined)
      return refuse('rejected', `a ${tooLarge.type} of ${tooLarge.value.length} bytes is too large`)
    const append: PendingAppend = {
      records,
      partitions: records.map(
        (record) => record.partition ?? partitionFor(record.key, this.#options.partitions),
      ),
      positions: [],
      deadline: now() + deadlineMs,
      settle: resume,
      timer: undefined,
      isSettled: false,
      sent: 0,
      produced: false,
    }
    append.timer = afterDeadline(deadlineMs, () =>
      this.#fail(append, 'timeout', 'not acknowledged within the deadline'),
    )
    this.#queue.push(append)
    this.#queuedRecords += records.length
    this.#sending ??= this.#sendQueue()
    return () => this.#finish(append)
  }

  /** Connects before the first append. After a failure the next append connects. */
  connect(): void {
    const connection = (this.#connection ??= this.#openConnection())
    connection.connected.catch(() => {
      if (this.#connection === connection) this.#dropConnection()
    })
  }

  /** Rejects queued appends, awaits the request in progress for some time, and disconnects. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const append of this.#queue.filter(({ sent }) => sent === 0))
      this.#fail(append, 'refused', 'the event log is closed')
    if (this.#sending !== undefined) await waitAtMost(CLOSE_WITHIN_MS, this.#sending)
    this.#dropConnection()
  }

  #finish(append: PendingAppend): void {
    if (append.isSettled) return
    append.isSettled = true
    clearTimeout(append.timer)
    this.#withdraw(append)
  }

  /** Removes the remaining records of an append from the queue. */
  #withdraw(append: PendingAppend): void {
    const index = this.#queue.indexOf(append)
    if (index < 0) return
    this.#queue.splice(index, 1)
    this.#queuedRecords -= append.records.length - append.sent
  }

  #fail(append: PendingAppend, reason: KafkaUnavailable['reason'], detail: string): void {
    if (append.isSettled) return
    this.#finish(append)
    const notAppended = append.produced ? {} : { notAppended: true as const }
    append.settle(Effect.fail(new KafkaUnavailable({ reason, detail, ...notAppended })))
  }

  async #sendQueue(): Promise<void> {
    // The appends of one tick share a request.
    await Promise.resolve()
    while (this.#queue.length > 0) await this.#produce()
    this.#sending = undefined
  }

  /**
   * Removes the records of the next request from the queue, as many as fit. An append to a new
   * topic gets a request of its own, so that a missing topic fails no other caller.
   */
  #nextRanges(connection: ProducerConnection): ReadonlyArray<AppendRange> {
    const ranges: Array<AppendRange> = []
    const perPartition = new Map<string, number>()
    let bytes = 0
    let count = 0
    for (const append of this.#queue) {
      const isNewTopic = append.records.some(({ topic }) => !connection.knownTopics.has(topic))
      if (isNewTopic && ranges.length > 0) break
      const from = append.sent
      let to = from
      for (; to < append.records.length; to++) {
        const record = append.records[to]!
        const size = sizeOf(record)
        const key = partitionKey(record.topic, append.partitions[to]!)
        const inPartition = (perPartition.get(key) ?? 0) + size
        if (count > 0 && (count >= MAX_PRODUCE_RECORDS || bytes + size > MAX_PRODUCE_BYTES)) break
        if (inPartition > MAX_PARTITION_BYTES) break
        perPartition.set(key, inPartition)
        bytes += size
        count++
      }
      if (to > from) ranges.push({ append, from, to })
      if (to < append.records.length || isNewTopic) break
    }
    for (const { append, from, to } of ranges) {
      append.sent = to
      this.#queuedRecords -= to - from
    }
    let done = 0
    while (done < this.#queue.length && this.#queue[done]!.sent === this.#queue[done]!.records.length) done++
    this.#queue.splice(0, done)
    return ranges
  }

  async #produce(): Promise<void> {
    const connection = (this.#connection ??= this.#openConnection())
    const ranges = this.#nextRanges(connection)
    const deadline = Math.max(...ranges.map(({ append }) => append.deadline))
    const sent = connection.connected.then(async () => {
      // While it was connecting, some callers may have got their failure: theirs must not be sent.
      const live = ranges.filter(({ append }) => !append.isSettled)
      if (live.length === 0) return null
      for (const { append } of live) append.produced = true
      const topics = new Set(live.flatMap(({ append, from, to }) => topicsOf(append.records, from, to)))
      for (const topic of topics)
        if (!connection.knownTopics.has(topic)) await connection.cluster.addTargetTopic(topic)
      const answer = await send(connection.cluster, live, Math.max(1, Math.ceil(deadline - now())))
      return { live, topics, answer }
    })
    try {
      // At their deadlines, callers get their failures. A slow broker keeps its connection: a new one
      // would be as slow, and needs several round trips. A dead one is destroyed when it is silent.
      const produced = await sent
      if (produced === null) return
      for (const topic of produced.topics) connection.knownTopics.add(topic)
      this.#deliver(produced.live, produced.answer)
    } catch (error) {
      // The next request must not use outdated metadata.
      this.#dropConnection()
      const { reason, detail } = reasonOf(error)
      for (const { append } of ranges) this.#fail(append, reason, detail)
    }
  }

  #deliver(ranges: ReadonlyArray<AppendRange>, answer: ReadonlyArray<Produced>): void {
    const next = new Map<string, number>()
    for (const { baseOffset, partition, topic } of answer)
      next.set(partitionKey(topic, partition), baseOffset)
    for (const { append, from, to } of ranges) {
      for (let i = from; i < to; i++) {
        const { topic } = append.records[i]!
        const partition = append.partitions[i]!
        const key = partitionKey(topic, partition)
        const offset = next.get(key) ?? Number.NaN
        next.set(key, offset + 1)
        append.positions.push({ topic, partition, offset })
      }
      if (append.isSettled || to < append.records.length) continue
      if (append.positions.some(({ offset }) => !Number.isSafeInteger(offset))) {
        this.#fail(append, 'rejected', 'the answer contains no offset')
        continue
      }
      this.#finish(append)
      append.settle(Effect.succeed(append.positions))
    }
  }

  #openConnection(): ProducerConnection {
    const client = makeKafka(
      this.#options.connection,
      {
        requestTimeoutMs: REQUEST_TIMEOUT_MS,
        firstBrokerIndex: this.#connections++,
        // kafkajs retries only connecting and metadata, with the next broker.
        retry: {
          retries: this.#options.connection.brokers.length - 1,
          initialRetryTime: 5,
          maxRetryTime: 20,
        },
      },
      this.#fork,
    )
    const cluster = createCluster(client.kafka)
    return { ...client, cluster, connected: cluster.connect(), knownTopics: new Set() }
  }

  #dropConnection(): void {
    const connection = this.#connection
    this.#connection = undefined
    connection?.destroy()
  }
}

const topicsOf = (records: ReadonlyArray<OutgoingRecord>, from: number, to: number): ReadonlyArray<string> =>
  from + 1 === to ? [records[from]!.topic] : [...new Set(records.slice(from, to).map(({ topic }) => topic))]

/** The records for one broker. */
interface BrokerRecords {
  readonly topics: Map<string, Array<{ partition: number; records: Array<OutgoingRecord> }>>
  bytes: number
}

/** Sends records to the leaders of their partitions, in one request for each broker. */
const send = async (
  cluster: InnerCluster,
  ranges: ReadonlyArray<AppendRange>,
  timeoutMs: number,
): Promise<ReadonlyArray<Produced>> => {
  await cluster.refreshMetadataIfNecessary()
  const at = Date.now()
  const requests = [...byLeader(cluster, ranges)].map(async ([nodeId, { bytes, topics }]) => {
    const broker = await cluster.findBroker({ nodeId })
    return await sendRequest(broker, produceRequest({ topics, at, timeoutMs, bytes }))
  })
  return (await Promise.all(requests)).flat()
}

/** The records by the node id of the leader of their partition, in their order. */
const byLeader = (
  cluster: InnerCluster,
  ranges: ReadonlyArray<AppendRange>,
): ReadonlyMap<string, BrokerRecords> => {
  const brokers = new Map<string, BrokerRecords>()
  for (const { append, from, to } of ranges) {
    for (let i = from; i < to; i++) {
      const record = append.records[i]!
      const partition = append.partitions[i]!
      const nodeId = leaderOf(cluster, record.topic, partition)
      // Without an offset in the answer, the append of the record fails, and no other one.
      if (nodeId === null) continue
      let broker = brokers.get(nodeId)
      if (broker === undefined) brokers.set(nodeId, (broker = { topics: new Map(), bytes: 0 }))
      broker.bytes += sizeOf(record)
      let partitions = broker.topics.get(record.topic)
      if (partitions === undefined) broker.topics.set(record.topic, (partitions = []))
      const ofPartition = partitions.find((one) => one.partition === partition)
      if (ofPartition === undefined) partitions.push({ partition, records: [record] })
      else ofPartition.records.push(record)
    }
  }
  return brokers
}

/** The node id; `null`: there is no such partition. */
const leaderOf = (cluster: InnerCluster, topic: string, partition: number): string | null => {
  const metadata = cluster.findTopicPartitionMetadata(topic)
  // Partitions are listed in any order, usually in theirs.
  const found =
    metadata[partition]?.partitionId === partition
      ? metadata[partition]
      : metadata.find(({ partitionId }) => partitionId === partition)
  return found === undefined ? null : String(found.leader)
}

/**
 * Acts at the deadline, after the sockets were read once more: a process that was busy finds the
 * timer and the answer at the same time, and must not report a timeout.
 */
const afterDeadline = (ms: number, act: () => void): NodeJS.Timeout => setTimeout(() => setImmediate(act), ms)

const make = Effect.fnUntraced(function* (options: EventLogOptions) {
  const context = yield* Effect.context<never>()
  const queue = new ProduceQueue(options, Effect.runForkWith(context))
  queue.connect()
  yield* Effect.addFinalizer(() => Effect.promise(() => queue.close()))
  const deadline = options.deadlineMs ?? DEADLINE_MS
  return EventLog.of({
    append: (records, call) =>
      records.length === 0
        ? Effect.succeed([])
        : Effect.callback((resume) => {
            const withdraw = queue.push(records, call?.deadlineMs ?? deadline, resume)
            return Effect.sync(withdraw)
          }),
    partitionOf: (key) => partitionFor(key, options.partitions),
  })
})

/**
 * The event log of a cluster. It connects at once, but starts without Kafka too: then appends fail
 * until one can connect. Closing awaits the request in progress.
 */
export const layerEventLog = (options: EventLogOptions): Layer.Layer<EventLog> =>
  Layer.effect(EventLog, make(options))
