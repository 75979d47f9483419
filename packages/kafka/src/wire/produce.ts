/** Produce requests of version 7, and their answers. Brokers from 2.1 on support it. */
import type { OutgoingRecord } from '../port.ts'
import { ByteReader, ByteWriter } from './bytes.ts'
import { errorOf, type ProtocolRequest } from './protocol.ts'
import { writeRecordBatch } from './record-batch.ts'

const API_KEY = 0
const API_VERSION = 7
/** All replicas in sync have the records. */
const ACKS_ALL = -1

/** The records of one partition, in their order. */
export interface PartitionRecords {
  readonly partition: number
  readonly records: ReadonlyArray<OutgoingRecord>
}

export interface ProduceRequest {
  readonly topics: ReadonlyMap<string, ReadonlyArray<PartitionRecords>>
  /** The timestamp of the records, milliseconds since the epoch. */
  readonly at: number
  /** How long the broker waits for the replicas, ms. */
  readonly timeoutMs: number
  /** An estimate. The buffer grows when it is too small. */
  readonly bytes: number
}

/** The offset of the first record of each partition. */
export interface Produced {
  readonly topic: string
  readonly partition: number
  readonly baseOffset: number
}

/** The request. Its answer is an error if any partition has one. */
export const produceRequest = (request: ProduceRequest): ProtocolRequest<ReadonlyArray<Produced>> => ({
  apiKey: API_KEY,
  apiVersion: API_VERSION,
  apiName: 'Produce',
  encode: () => {
    const writer = new ByteWriter(request.bytes)
    // No transaction.
    writer.string(null)
    writer.int16(ACKS_ALL)
    writer.int32(request.timeoutMs)
    writer.int32(request.topics.size)
    for (const [topic, partitions] of request.topics) {
      writer.string(topic)
      writer.int32(partitions.length)
      for (const { partition, records } of partitions) {
        writer.int32(partition)
        const lengthAt = writer.at
        writer.int32(0)
        writeRecordBatch(writer, records, request.at)
        writer.setInt32(lengthAt, writer.at - lengthAt - 4)
      }
    }
    return writer.written
  },
  decode: (payload) => {
    const reader = new ByteReader(payload)
    const produced: Array<Produced> = []
    for (let topics = reader.int32(); topics > 0; topics--) {
      const topic = reader.string()
      for (let partitions = reader.int32(); partitions > 0; partitions--) {
        const partition = reader.int32()
        const errorCode = reader.int16()
        const baseOffset = reader.int64()
        // The append time and the start of the log.
        reader.skip(16)
        if (errorCode !== 0) throw errorOf(errorCode)
        produced.push({ topic, partition, baseOffset })
      }
    }
    return { answer: produced, throttleMs: reader.int32() }
  },
})
