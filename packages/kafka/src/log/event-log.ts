/**
 * The event log over kafkajs: one produce at a time, acks=all, nothing retried. The settings are what was measured
 * against a broker that dies and one that hangs; kafkajs' idempotence is off because it loses acknowledged
 * records after a timeout (docs/decisions).
 */
import { Effect, Layer } from 'effect'
import kafkajs, { type Producer, type RecordMetadata } from 'kafkajs'
import {
  kafkaWith,
  reasonOf,
  type CuttableKafka,
  type Fork,
  type KafkaConnection,
} from '../connection/client.ts'
import { partitionFor } from './partitioner.ts'
import { KafkaUnavailable, EventLog, type OutgoingRecord, type Position } from '../port.ts'

export interface EventLogOptions {
  readonly connection: KafkaConnection
  /** Partitions of every topic (`HUB_PARTITIONS`). */
  readonly partitions: number
  /** How long an append may take, waiting included, unless the call says otherwise. Default 1000 ms. */
  readonly deadlineMs?: number
  /** Records that may wait. Beyond it an append is refused at once. Default 20,000: what a second of full speed takes. */
  readonly maxWaitingRecords?: number
}

const DEADLINE_MS = 1000
const MAX_WAITING_RECORDS = 20_000

/** Bytes of one partition in one produce, which are one record batch: below `MAX_BATCH_BYTES` of the topics with its headers. */
const MAX_PARTITION_BYTES = 1024 * 1024
/** Bytes of one produce; the broker's `socket.request.max.bytes` is 100 MiB, and a smaller one answers sooner. */
const MAX_PRODUCE_BYTES = 8 * 1024 * 1024
/** Records of one produce. kafkajs groups them in quadratic time, which begins to show above this. */
const MAX_PRODUCE_RECORDS = 2000
/** Names, ids and framing of a record beside its key and value. */
const RECORD_OVERHEAD_BYTES = 250
/** kafkajs' own limit of a request. The deadlines here are shorter; it only ends what nobody waits for any more. */
const REQUEST_TIMEOUT_MS = 10_000

/** One `append` under way. Its records may need several produces where they are very many. */
interface Call {
  readonly records: ReadonlyArray<OutgoingRecord>
  readonly partitions: ReadonlyArray<number>
  readonly positions: Array<Position>
  /** By the monotonic clock. */
  readonly deadline: number
  readonly settle: (result: Effect.Effect<ReadonlyArray<Position>, KafkaUnavailable>) => void
  timer: NodeJS.Timeout | undefined
  settled: boolean
  /** Records before this one are taken into a produce. */
  taken: number
}

/** The part of a call that is in a produce. */
interface Share {
  readonly call: Call
  readonly from: number
  readonly to: number
}

/** A producer and what is known of its cluster. Thrown away at the first failure. */
interface Link extends CuttableKafka {
  readonly producer: Producer
  readonly connected: Promise<void>
  /** Topics that took a record from this producer. */
  readonly proven: Set<string>
}

const sizeOf = (record: OutgoingRecord) => record.value.length + record.key.length + RECORD_OVERHEAD_BYTES
const now = () => performance.now()

class Lane {
  readonly #options: EventLogOptions
  readonly #fork: Fork
  readonly #maxWaiting: number
  readonly #waiting: Array<Call> = []
  #waitingRecords = 0
  #sending: Promise<void> | undefined
  #link: Link | undefined
  #links = 0
  #closed = false

  constructor(options: EventLogOptions, fork: Fork) {
    this.#options = options
    this.#fork = fork
    this.#maxWaiting = options.maxWaitingRecords ?? MAX_WAITING_RECORDS
  }

  /** Takes a call; answers how to withdraw it. */
  push(
    records: ReadonlyArray<OutgoingRecord>,
    deadlineMs: number,
    resume: (result: Effect.Effect<ReadonlyArray<Position>, KafkaUnavailable>) => void,
  ): () => void {
    const refuse = (reason: KafkaUnavailable['reason'], detail: string) => {
      resume(Effect.fail(new KafkaUnavailable({ reason, detail })))
      return () => {}
    }
    if (this.#closed) return refuse('refused', 'closed')
    if (this.#waitingRecords + records.length > this.#maxWaiting)
      return refuse('refused', 'too many records wait')
    const tooLarge = records.find((record) => sizeOf(record) > MAX_PARTITION_BYTES)
    if (tooLarge !== undefined)
      return refuse('rejected', `a ${tooLarge.type} of ${tooLarge.value.length} bytes`)
    const call: Call = {
      records,
      partitions: records.map(
        (record) => record.partition ?? partitionFor(record.key, this.#options.partitions),
      ),
      positions: [],
      deadline: now() + deadlineMs,
      settle: resume,
      timer: undefined,
      settled: false,
      taken: 0,
    }
    call.timer = afterDeadline(deadlineMs, () =>
      this.#fail(call, 'timeout', 'not acknowledged within the deadline'),
    )
    this.#waiting.push(call)
    this.#waitingRecords += records.length
    this.#sending ??= this.#pump()
    return () => this.#finish(call)
  }

  /** Connects before there is anything to append, so that the first append need not wait for it. A failure shows there. */
  warmUp(): void {
    if (this.#closed || this.#link !== undefined) return
    const link = (this.#link = this.#connect())
    link.connected.catch(() => {
      if (this.#link === link && this.#sending === undefined) this.#dropLink()
    })
  }

  /** Connects before anybody waits for it. That it does not come about is for the next append to find out. */
  warm(): void {
    const link = (this.#link ??= this.#connect())
    link.connected.catch(() => {
      if (this.#link === link) this.#dropLink()
    })
  }

  /** Refuses what waits, lets what is under way end within its deadline, and disconnects. */
  async close(): Promise<void> {
    this.#closed = true
    for (const call of this.#waiting.filter(({ taken }) => taken === 0)) this.#fail(call, 'refused', 'closed')
    await this.#sending
    this.#dropLink()
  }

  #finish(call: Call): void {
    if (call.settled) return
    call.settled = true
    clearTimeout(call.timer)
    this.#withdraw(call)
  }

  /** Takes a call's remaining records out of the queue. */
  #withdraw(call: Call): void {
    const index = this.#waiting.indexOf(call)
    if (index < 0) return
    this.#waiting.splice(index, 1)
    this.#waitingRecords -= call.records.length - call.taken
  }

  #fail(call: Call, reason: KafkaUnavailable['reason'], detail: string): void {
    if (call.settled) return
    this.#finish(call)
    call.settle(Effect.fail(new KafkaUnavailable({ reason, detail })))
  }

  async #pump(): Promise<void> {
    // Callers of the same tick go together.
    await Promise.resolve()
    while (this.#waiting.length > 0) await this.#produce()
    this.#sending = undefined
  }

  /**
   * The next produce: calls in their order, as many as fit. A topic that this producer has not written to yet goes
   * alone with its caller, so that a topic that does not exist fails nobody else.
   */
  #take(link: Link): ReadonlyArray<Share> {
    const shares: Array<Share> = []
    const perPartition = new Map<string, number>()
    let bytes = 0
    let count = 0
    for (const call of this.#waiting) {
      const unproven = call.records.some(({ topic }) => !link.proven.has(topic))
      if (unproven && shares.length > 0) break
      const from = call.taken
      let to = from
      for (; to < call.records.length; to++) {
        const record = call.records[to]!
        const size = sizeOf(record)
        const place = `${record.topic}/${call.partitions[to]}`
        const inPartition = (perPartition.get(place) ?? 0) + size
        if (count > 0 && (count >= MAX_PRODUCE_RECORDS || bytes + size > MAX_PRODUCE_BYTES)) break
        if (inPartition > MAX_PARTITION_BYTES) break
        perPartition.set(place, inPartition)
        bytes += size
        count++
      }
      if (to > from) shares.push({ call, from, to })
      if (to < call.records.length || unproven) break
    }
    for (const { call, from, to } of shares) {
      call.taken = to
      this.#waitingRecords -= to - from
    }
    let done = 0
    while (done < this.#waiting.length && this.#waiting[done]!.taken === this.#waiting[done]!.records.length)
      done++
    this.#waiting.splice(0, done)
    return shares
  }

  async #produce(): Promise<void> {
    const link = (this.#link ??= this.#connect())
    const shares = this.#take(link)
    const deadline = Math.max(...shares.map(({ call }) => call.deadline))
    const byTopic = new Map<string, Array<ReturnType<typeof messageOf>>>()
    for (const { call, from, to } of shares) {
      for (let i = from; i < to; i++) {
        const record = call.records[i]!
        const messages = byTopic.get(record.topic)
        const message = messageOf(record, call.partitions[i]!)
        if (messages === undefined) byTopic.set(record.topic, [message])
        else messages.push(message)
      }
    }
    const sent = link.connected.then(() =>
      link.producer.sendBatch({
        acks: -1,
        timeout: Math.max(1, Math.ceil(deadline - now())),
        topicMessages: [...byTopic].map(([topic, messages]) => ({ topic, messages })),
      }),
    )
    try {
      const answer = await within(sent, deadline)
      for (const topic of byTopic.keys()) link.proven.add(topic)
      this.#deliver(shares, answer)
    } catch (error) {
      // Whatever failed, the next produce must not queue behind it, nor trust what this client believes.
      this.#dropLink()
      const { reason, detail } =
        error === LATE ? { reason: 'timeout' as const, detail: 'no answer' } : reasonOf(error)
      for (const { call } of shares) this.#fail(call, reason, detail)
    }
  }

  #deliver(shares: ReadonlyArray<Share>, answer: ReadonlyArray<RecordMetadata>): void {
    const next = new Map<string, number>()
    for (const { topicName, partition, baseOffset } of answer) {
      next.set(`${topicName}/${partition}`, Number(baseOffset))
    }
    for (const { call, from, to } of shares) {
      for (let i = from; i < to; i++) {
        const { topic } = call.records[i]!
        const partition = call.partitions[i]!
        const place = `${topic}/${partition}`
        const offset = next.get(place) ?? Number.NaN
        next.set(place, offset + 1)
        call.positions.push({ topic, partition, offset })
      }
      if (call.settled || to < call.records.length) continue
      if (call.positions.some(({ offset }) => !Number.isSafeInteger(offset))) {
        this.#fail(call, 'rejected', 'the answer names no offset')
        continue
      }
      this.#finish(call)
      call.settle(Effect.succeed(call.positions))
    }
  }

  #connect(): Link {
    const client = kafkaWith(
      this.#options.connection,
      {
        requestTimeoutMs: REQUEST_TIMEOUT_MS,
        startAt: this.#links++,
        // Only connecting and metadata are tried again, at the next broker.
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
      // Every record says its partition; this only silences a warning about the choice.
      createPartitioner: kafkajs.Partitioners.DefaultPartitioner,
      retry: { retries: 0 },
    })
    return { ...client, producer, connected: producer.connect(), proven: new Set() }
  }

  #dropLink(): void {
    const link = this.#link
    this.#link = undefined
    link?.destroy()
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

const LATE = Symbol('late')

/**
 * Acts after so long, when the sockets have been looked at once more: a process that was busy for longer than the deadline finds the timer and
 * the answer waiting together, and must not call Kafka away.
 */
const afterDeadline = (ms: number, act: () => void): NodeJS.Timeout => setTimeout(() => setImmediate(act), ms)

/** The promise's answer, or `LATE` at the deadline; then its own end no longer matters to anyone. */
const within = <A>(promise: Promise<A>, deadline: number): Promise<A> =>
  new Promise((resolve, reject) => {
    const timer = afterDeadline(Math.max(1, deadline - now()), () => reject(LATE))
    promise.then(resolve, reject).finally(() => clearTimeout(timer))
  })

const make = Effect.fnUntraced(function* (options: EventLogOptions) {
  const context = yield* Effect.context<never>()
  const lane = new Lane(options, Effect.runForkWith(context))
  lane.warm()
  yield* Effect.addFinalizer(() => Effect.promise(() => lane.close()))
  lane.warmUp()
  const deadline = options.deadlineMs ?? DEADLINE_MS
  return EventLog.of({
    append: (records, call) =>
      records.length === 0
        ? Effect.succeed([])
        : Effect.callback((resume) => {
            const withdraw = lane.push(records, call?.deadlineMs ?? deadline, resume)
            return Effect.sync(withdraw)
          }),
    partitionOf: (key) => partitionFor(key, options.partitions),
  })
})

/**
 * The event log on a cluster, to which it connects at once. It starts without one: an append then fails, and the first
 * after Kafka is back connects. Closing waits for what is under way (at most its deadline).
 */
export const layerEventLog = (options: EventLogOptions): Layer.Layer<EventLog> =>
  Layer.effect(EventLog, make(options))
