/**
 * CPU cost of a message in a shard that has few or many open messages: lane record, handover claim,
 * operator's answer, `MessageSent`, delivery report, `MessageDelivered`, and the shard's own facts
 * read back from the log. It includes encoding and decoding, but not Kafka, PostgreSQL and payload
 * encryption. `dispatching.ts` runs it in a process with the dispatcher's Node flags, because
 * garbage collection depends on the whole heap. Alone: `node scripts/run.mjs
 * benchmarks/shard-cost.ts 1000 100000 9`.
 */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import { Fence } from '@hub/actor'
import {
  type DispatcherShard,
  makeDispatcherShard,
  makeMetrics,
  type Message,
  MessageTraces,
  type PreparedSubmission,
} from '@hub/dispatcher'
import { DEFAULT_LIFETIMES, encodeId, type MessageAccepted, newId } from '@hub/domain'
import {
  acceptedRecord,
  deliveryReportRecord,
  type IncomingRecord,
  type OutgoingRecord,
  topicNames,
} from '@hub/kafka'
import { nodeFlags } from '@hub/local-stack'
import { Tracing } from '@hub/telemetry'
import { Context } from 'effect'
import { accepted } from './bare-kafka.ts'
import { median } from './numbers.ts'

const SERVICE = 1
const OPERATOR = 'bench'
const topics = topicNames('bench.')
const account = encodeId('acc', '0193a1b2-0000-7000-8000-000000000001')

/** The submit request of a message, without the decryption of its payload. */
const prepared = (accepted: MessageAccepted, reference: string, recipient: string) => ({
  request: {
    reference,
    recipient,
    to: '',
    text: '',
    sender: accepted.sender,
    parts: accepted.parts,
    encoding: 'gsm7' as const,
    validitySeconds: 1,
    urgent: false,
  },
  acceptedAt: accepted.at,
  expiresAt: accepted.expiresAt,
  mode: accepted.mode,
})

/** One shard with Kafka, operator and clock in memory. */
class StandaloneShard {
  readonly shard: DispatcherShard
  now = Date.now()
  #log = 0
  #lane = 0
  #reports = 0
  #pending: Array<readonly [OutgoingRecord, (offset: number) => void]> = []
  #submitted: Array<readonly [Message, PreparedSubmission]> = []
  readonly #fence = new Fence()

  constructor() {
    this.shard = makeDispatcherShard(
      {
        shard: 0,
        isCurrent: () => true,
        hasLease: () => true,
        append: (record, onAppended) => this.#pending.push([record, onAppended]),
      },
      {
        topics,
        lifetimes: DEFAULT_LIFETIMES,
        metrics: makeMetrics(Context.empty()),
        traces: new MessageTraces(Context.get(Context.empty(), Tracing), ''),
        now: () => this.now,
        limits: { buffer: 2000, open: 1_000_000, finished: 1_000_000 },
        memoryBudget: { used: 0, limit: 10_000_000 },
        operators: { test: OPERATOR, live: OPERATOR },
        apply: (change) => change(),
        prepare: ({ id, key, laneRecord }, onPrepared) => {
          if (laneRecord !== null) onPrepared({ type: 'prepared', submission: prepared(laneRecord, id, key) })
        },
        onLiveMessage: () => {},
        dedupes: () => false,
        onReady: () => {},
        enqueueClaimed: (_, message, submission) => this.#submitted.push([message, submission]),
        resume: () => {},
        onDeadLetter: () => {},
      },
    )
    this.#fence.observe(0, { epoch: 1, member: 'bench' })
    this.shard.onOpened({ epoch: 1, now: this.now, laneEnds: [0, 0], logPosition: 0 })
  }

  #acknowledge(): void {
    const pending = this.#pending
    this.#pending = []
    for (const [record, onAppended] of pending) {
      const offset = this.#log++
      onAppended(offset)
      this.shard.onLog(incoming(record, offset, this.now), this.#fence)
    }
  }

  /** Accepts and submits messages. Returns the messages for which reports may follow. */
  submit(records: ReadonlyArray<OutgoingRecord>): ReadonlyArray<Message> {
    for (const record of records) this.shard.onLane(SERVICE, incoming(record, this.#lane++, this.now))
    const take = () => this.shard.messages.handovers.take(SERVICE, OPERATOR, account)
    for (let message = take(); message !== null; message = take()) this.shard.start(message)
    this.#acknowledge()
    const submitted = this.#submitted
    this.#submitted = []
    for (const [message, submission] of submitted) {
      this.shard.submitAnswered(message, { type: 'accepted', operatorIds: [`op-${message.id}`] }, submission)
    }
    this.#acknowledge()
    return submitted.map(([message]) => message)
  }

  report(messages: ReadonlyArray<Message>): void {
    for (const { id, key } of messages) {
      const record = deliveryReportRecord(topics, {
        type: 'DeliveryReportReceived',
        operator: OPERATOR,
        operatorId: `op-${id}`,
        reference: null,
        recipient: key,
        outcome: 'delivered',
        reason: null,
        at: this.now,
        receivedAt: this.now,
        rawKey: null,
        rawSealed: null,
      })
      this.shard.onReport(incoming(record, this.#reports++, this.now))
    }
    this.#acknowledge()
  }

  /** Advances the clock, runs due timers and commits the low-water marks. */
  advance(ms: number): void {
    this.now += ms
    this.shard.onTick(this.now)
    this.#acknowledge()
    const { lanes } = this.shard.lowestPinned()
    this.shard.onCommitted([0, lanes[SERVICE] ?? this.#lane], this.#log, this.now)
    this.#acknowledge()
  }
}

export const incoming = (record: OutgoingRecord, offset: number, now: number): IncomingRecord => ({
  topic: record.topic,
  partition: 0,
  offset,
  key: record.key,
  type: record.type,
  id: record.id,
  occurredAt: record.occurredAt,
  traceparent: null,
  appendedAt: now,
  value: record.value,
})

let made = 0
const laneRecords = (count: number, now: number): ReadonlyArray<OutgoingRecord> =>
  Array.from({ length: count }, () => {
    const fact = accepted(made++)
    const messageId = newId('msg', now, randomBytes(10))
    return acceptedRecord(topics, { ...fact, messageId, account, at: now, expiresAt: now + 86_400_000 })
  })

const CHUNK = 500

const shardWith = (open: number): StandaloneShard => {
  const standalone = new StandaloneShard()
  for (let i = 0; i < open; i += CHUNK)
    standalone.submit(laneRecords(Math.min(CHUNK, open - i), standalone.now))
  return standalone
}

/** Microseconds per message from lane to report. */
const costOf = (standalone: StandaloneShard, messages: number): number => {
  let spent = 0
  for (let i = 0; i < messages; i += CHUNK) {
    const records = laneRecords(CHUNK, standalone.now)
    const started = performance.now()
    standalone.report(standalone.submit(records))
    standalone.advance(1000)
    spent += performance.now() - started
  }
  return (1000 * spent) / messages
}

interface ShardCost {
  readonly few: number
  readonly many: number
  /** µs per message, the median of the rounds. */
  readonly atFew: number
  readonly atMany: number
}

/** The two shards take turns, so that other work on the machine affects both equally. */
const compareShards = (few: number, many: number, rounds: number): ShardCost => {
  const small = shardWith(few)
  const large = shardWith(many)
  const atFew: Array<number> = []
  const atMany: Array<number> = []
  // Three rounds first, until the number of remembered finished messages is constant.
  for (let round = 0; round < rounds + 3; round++) {
    const one = costOf(small, 20 * CHUNK)
    const other = costOf(large, 20 * CHUNK)
    if (round < 3) continue
    atFew.push(one)
    atMany.push(other)
  }
  return { few, many, atFew: median(atFew), atMany: median(atMany) }
}

/** Runs the comparison in a process with the dispatcher's Node flags. */
export const measureShardCost = async (few: number, many: number, rounds: number): Promise<ShardCost> => {
  const { stdout } = await promisify(execFile)(process.execPath, [
    ...nodeFlags('dispatcher'),
    import.meta.filename,
    ...[few, many, rounds].map(String),
  ])
  return JSON.parse(stdout) as ShardCost
}

if (import.meta.main) {
  const [few = 1000, many = 100_000, rounds = 9] = process.argv.slice(2).map(Number)
  console.log(JSON.stringify(compareShards(few, many, rounds)))
}
