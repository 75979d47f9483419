/**
 * What a message costs a shard while others are open: record of the lane in, claim out and acknowledged, answer of the operator,
 * `MessageSent` out and acknowledged, report in, `MessageDelivered` out and acknowledged, its own facts read back. Encoding and decoding
 * included; Kafka, PostgreSQL and the sealed payload are not. Run alone (`node benchmarks/open-messages.ts 1000 100000 9`), or by the bench in a
 * process of its own with the dispatcher's flags: what else a process has in its heap is collected with it.
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
} from '@hub/dispatcher'
import { DEFAULT_LIFETIMES, encodeId, newId } from '@hub/domain'
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
import { accepted } from './bare.ts'
import { median } from './numbers.ts'

const SERVICE = 1
const OPERATOR = 'bench'
const topics = topicNames('bench.')
const account = encodeId('acc', '0193a1b2-0000-7000-8000-000000000001')

/** One shard and everything around it, in memory. */
export class Lone {
  readonly shard: DispatcherShard
  now = Date.now()
  #log = 0
  #lane = 0
  #reports = 0
  #pending: Array<readonly [OutgoingRecord, (offset: number) => void]> = []
  #submitted: Array<Message> = []
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
        metrics: makeMetrics(Context.empty()),
        traces: new MessageTraces(Context.get(Context.empty(), Tracing), ''),
        now: () => this.now,
        limits: { buffer: 2000, open: 1_000_000, finished: 1_000_000 },
        population: { count: 0, limit: 10_000_000 },
        routes: [OPERATOR],
        operatorFor: () => OPERATOR,
        dedupes: () => false,
        submit: (_, message) => this.#submitted.push(message),
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

  /** Accepts and hands over; answers what reports would be about. */
  handOver(records: ReadonlyArray<OutgoingRecord>): ReadonlyArray<Message> {
    for (const record of records) this.shard.onLane(SERVICE, incoming(record, this.#lane++, this.now))
    for (let message = this.shard.messages.take(SERVICE, OPERATOR); message !== null;) {
      this.shard.messages.claim(message)
      message = this.shard.messages.take(SERVICE, OPERATOR)
    }
    this.#acknowledge()
    const submitted = this.#submitted
    this.#submitted = []
    for (const message of submitted) {
      const deadline = this.now + DEFAULT_LIFETIMES.report.service
      this.shard.messages.answered(message, { type: 'accepted', operatorIds: [`op-${message.id}`] }, deadline)
    }
    this.#acknowledge()
    return submitted
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

  /** A second passes: what is due is done, and marks are committed. */
  pass(ms: number): void {
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
/** Records of a lane, `count` of them, accepted now. */
export const laneRecords = (count: number, now: number): ReadonlyArray<OutgoingRecord> =>
  Array.from({ length: count }, () => {
    const fact = accepted(made++)
    const messageId = newId('msg', now, randomBytes(10))
    return acceptedRecord(topics, { ...fact, messageId, account, at: now, expiresAt: now + 86_400_000 })
  })

const CHUNK = 500

/** A shard with so many open messages. */
const standing = (open: number): Lone => {
  const lone = new Lone()
  for (let i = 0; i < open; i += CHUNK) lone.handOver(laneRecords(Math.min(CHUNK, open - i), lone.now))
  return lone
}

/** Microseconds of a message from lane to report, on a shard that has stood for a while. */
const costOf = (lone: Lone, messages: number): number => {
  let spent = 0
  for (let i = 0; i < messages; i += CHUNK) {
    const records = laneRecords(CHUNK, lone.now)
    const begun = performance.now()
    lone.report(lone.handOver(records))
    lone.pass(1000)
    spent += performance.now() - begun
  }
  return (1000 * spent) / messages
}

export interface Flatness {
  readonly few: number
  readonly many: number
  /** µs a message, the median of the rounds. */
  readonly atFew: number
  readonly atMany: number
}

/** The two shards take turns, so that a busy neighbour disturbs both alike. */
const flatness = (few: number, many: number, rounds: number): Flatness => {
  const small = standing(few)
  const large = standing(many)
  const atFew: Array<number> = []
  const atMany: Array<number> = []
  // What is remembered of finished messages reaches its steady state first.
  for (let round = 0; round < rounds + 3; round++) {
    const one = costOf(small, 20 * CHUNK)
    const other = costOf(large, 20 * CHUNK)
    if (round < 3) continue
    atFew.push(one)
    atMany.push(other)
  }
  return { few, many, atFew: median(atFew), atMany: median(atMany) }
}

/** In a process that runs as a dispatcher does. */
export const flatnessApart = async (few: number, many: number, rounds: number): Promise<Flatness> => {
  const { stdout } = await promisify(execFile)(process.execPath, [
    ...nodeFlags('dispatcher'),
    import.meta.filename,
    ...[few, many, rounds].map(String),
  ])
  return JSON.parse(stdout) as Flatness
}

if (import.meta.main) {
  const [few = 1000, many = 100_000, rounds = 9] = process.argv.slice(2).map(Number)
  console.log(JSON.stringify(flatness(few, many, rounds)))
}
