/**
 * The kafkajs adapter of the port `EventLog`. It sends one produce request at a time with
 * `acks=all`, and never retries. kafkajs' idempotent producer is off, because it loses acknowledged
 * records after a timeout (docs/decisions/0002).
 */
import { Effect, Layer } from 'effect'
import kafkajs, { type Producer, type RecordMetadata } from 'kafkajs'
import { makeKafka, type Fork, type KafkaClient, type KafkaConnection } from '../connection/client.ts'
import { reasonOf } from '../connection/errors.ts'
import { waitAtMost } from '../consumer/timing.ts'
import { partitionKey } from '../partition-key.ts'
import { partitionFor } from './partitioner.ts'
import { KafkaUnavailable, EventLog, type OutgoingRecord, type Position } from '../port.ts'

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
/** Records of one request. kafkajs groups them in quadratic time, which is slow above this. */
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
interface AppendSlice {
  readonly append: PendingAppend
  readonly from: number
  readonly to: number
}

/** A producer with its connections. The first failure replaces it. */
interface ProducerConnection extends KafkaClient {
  readonly producer: Producer
  readonly connected: Promise<void>
  /** Topics to which this producer has written. */
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
  #nextSlices(connection: ProducerConnection): ReadonlyArray<AppendSlice> {
    const slices: Array<AppendSlice> = []
    const perPartition = new Map<string, number>()
    let bytes = 0
    let count = 0
    for (const append of this.#queue) {
      const isNewTopic = append.records.some(({ topic }) => !connection.knownTopics.has(topic))
      if (isNewTopic && slices.length > 0) break
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
      if (to > from) slices.push({ append, from, to })
      if (to < append.records.length || isNewTopic) break
    }
    for (const { append, from, to } of slices) {
      append.sent = to
      this.#queuedRecords -= to - from
    }
    let done = 0
    while (done < this.#queue.length && this.#queue[done]!.sent === this.#queue[done]!.records.length) done++
    this.#queue.splice(0, done)
    return slices
  }

  async #produce(): Promise<void> {
    const connection = (this.#connection ??= this.#openConnection())
    const slices = this.#nextSlices(connection)
    const deadline = Math.max(...slices.map(({ append }) => append.deadline))
    const sent = connection.connected.then(async () => {
      // While it was connecting, some callers may have got their failure: theirs must not be sent.
      const live = slices.filter(({ append }) => !append.isSettled)
      if (live.length === 0) return null
      for (const { append } of live) append.produced = true
      const byTopic = messagesByTopic(live)
      const answer = await connection.producer.sendBatch({
        acks: -1,
        timeout: Math.max(1, Math.ceil(deadline - now())),
        topicMessages: [...byTopic].map(([topic, messages]) => ({ topic, messages })),
      })
      return { live, topics: byTopic.keys(), answer }
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
      for (const { append } of slices) this.#fail(append, reason, detail)
    }
  }

  #deliver(slices: ReadonlyArray<AppendSlice>, answer: ReadonlyArray<RecordMetadata>): void {
    const next = new Map<string, number>()
    for (const { topicName, partition, baseOffset } of answer) {
      next.set(partitionKey(topicName, partition), Number(baseOffset))
    }
    for (const { append, from, to } of slices) {
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
    const producer = client.kafka.producer({
      idempotent: false,
      allowAutoTopicCreation: false,
      // Every record has a partition. This setting only prevents a warning of kafkajs.
      createPartitioner: kafkajs.Partitioners.DefaultPartitioner,
      retry: { retries: 0 },
    })
    return { ...client, producer, connected: producer.connect(), knownTopics: new Set() }
  }

  #dropConnection(): void {
    const connection = this.#connection
    this.#connection = undefined
    connection?.destroy()
  }
}

const messageOf = (record: OutgoingRecord, partition: number) => ({
  key: record.key,
  partition,
  value: Buffer.from(record.value.buffer, record.value.byteOffset, record.value.byteLength),
  headers: {
    type: record.type,
    id: record.id,
    occurred_at: String(record.occurredAt),
    ...(record.traceparent === undefined ? {} : { traceparent: record.traceparent }),
    ...record.headers,
  },
})

const messagesByTopic = (slices: ReadonlyArray<AppendSlice>) => {
  const byTopic = new Map<string, Array<ReturnType<typeof messageOf>>>()
  for (const { append, from, to } of slices) {
    for (let i = from; i < to; i++) {
      const record = append.records[i]!
      const messages = byTopic.get(record.topic)
      const message = messageOf(record, append.partitions[i]!)
      if (messages === undefined) byTopic.set(record.topic, [message])
      else messages.push(message)
    }
  }
  return byTopic
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
