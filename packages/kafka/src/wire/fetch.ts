/** Fetch requests of version 11, and their answers. Brokers from 2.3 on support it. */
import type { IncomingRecord } from '../port.ts'
import { ByteReader, ByteWriter } from './bytes.ts'
import { errorOf, outOfRange, type ProtocolRequest } from './protocol.ts'
import { readRecordBatches } from './record-batch.ts'

const API_KEY = 1
const API_VERSION = 11
/** Not a replica, but a consumer. */
const CONSUMER = -1
/** The hub writes no transactions. */
const READ_UNCOMMITTED = 0
/** A fetch outside of a fetch session (KIP-227). */
const NO_SESSION = { id: 0, epoch: -1 } as const
/** Kafka's code of a position that is not in the log. */
const OFFSET_OUT_OF_RANGE = 1

export interface PartitionPosition {
  readonly topic: string
  readonly partition: number
  /** The first offset to read. */
  readonly position: number
}

export interface FetchRequest<P extends PartitionPosition> {
  /** In the order of their turns: the broker fills its answer in this order. */
  readonly partitions: ReadonlyArray<P>
  /** Called with the end of the log of each answered partition, also of those without records. */
  readonly onEnd?: (partition: P, highWatermark: number) => void
  /** How long the broker waits for a first record, ms. */
  readonly maxWaitMs: number
  readonly maxBytes: number
  readonly maxBytesPerPartition: number
}

/** What an answer contains of one partition. Partitions without records are left out. */
export interface FetchedPartition {
  readonly topic: string
  readonly partition: number
  /** The requested offset. The log has no record between it and the first record. */
  readonly from: number
  readonly records: ReadonlyArray<IncomingRecord>
  /** The next offset to read. */
  readonly next: number
  /** The end of the log when the broker answered. */
  readonly highWatermark: number
}

const keyOf = (topic: string, partition: number) => `${topic}/${partition}`

/** The request. Its answer is an error if any partition has one. */
export const fetchRequest = <P extends PartitionPosition>(
  request: FetchRequest<P>,
): ProtocolRequest<ReadonlyArray<FetchedPartition>> => {
  const requested = new Map<string, P>()
  return {
    apiKey: API_KEY,
    apiVersion: API_VERSION,
    apiName: 'Fetch',
    encode: () => {
      const writer = new ByteWriter(256 + 32 * request.partitions.length)
      writer.int32(CONSUMER)
      writer.int32(request.maxWaitMs)
      // One byte: the broker answers with the first record.
      writer.int32(1)
      writer.int32(request.maxBytes)
      writer.int8(READ_UNCOMMITTED)
      writer.int32(NO_SESSION.id)
      writer.int32(NO_SESSION.epoch)
      const topics = Map.groupBy(request.partitions, ({ topic }) => topic)
      writer.int32(topics.size)
      for (const [topic, partitions] of topics) {
        writer.string(topic)
        writer.int32(partitions.length)
        for (const one of partitions) {
          const { partition, position } = one
          requested.set(keyOf(topic, partition), one)
          writer.int32(partition)
          // The leader epoch and the start of the log are unknown.
          writer.int32(-1)
          writer.int64(position)
          writer.int64(-1)
          writer.int32(request.maxBytesPerPartition)
        }
      }
      // No topic leaves a session, and the rack is unknown.
      writer.int32(0)
      writer.string('')
      return writer.written
    },
    decode: (payload) => {
      const reader = new ByteReader(payload)
      const throttleMs = reader.int32()
      const errorCode = reader.int16()
      if (errorCode !== 0) throw errorOf(errorCode)
      reader.skip(4)
      const fetched: Array<FetchedPartition> = []
      for (let topics = reader.int32(); topics > 0; topics--) {
        const topic = reader.string()
        for (let partitions = reader.int32(); partitions > 0; partitions--) {
          const partition = reader.int32()
          const partitionError = reader.int16()
          const highWatermark = reader.int64()
          // The last stable offset and the start of the log.
          reader.skip(16)
          // Aborted transactions, which do not matter to an uncommitted read.
          reader.skip(16 * Math.max(0, reader.int32()))
          // The preferred replica.
          reader.skip(4)
          const bytes = reader.slice(Math.max(0, reader.int32()))
          if (partitionError === OFFSET_OUT_OF_RANGE) throw outOfRange(topic, partition)
          if (partitionError !== 0) throw errorOf(partitionError)
          const one = requested.get(keyOf(topic, partition))
          if (one !== undefined) request.onEnd?.(one, highWatermark)
          if (bytes.length === 0) continue
          const from = one?.position ?? 0
          const { nextOffset, records } = readRecordBatches(bytes, topic, partition, from)
          if (nextOffset === null || nextOffset <= from) continue
          fetched.push({ topic, partition, from, records, next: nextOffset, highWatermark })
        }
      }
      return { answer: fetched, throttleMs }
    },
  }
}
