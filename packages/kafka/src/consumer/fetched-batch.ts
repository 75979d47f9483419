/** The records of one partition from one fetch, in the form that kafkajs passes on. */
import type { IncomingRecord } from '../port.ts'
import type { FetchedPartition } from '../wire/fetch.ts'

export class FetchedBatch {
  readonly topic: string
  readonly partition: number
  /** The requested offset. The log has no record between it and the first record. */
  readonly from: number
  readonly records: ReadonlyArray<IncomingRecord>
  /** The next offset to read. */
  readonly next: number
  /** The revocations before the fetch. */
  readonly revocations: number
  readonly highWatermark: string

  constructor(
    { from, highWatermark, next, partition, records, topic }: FetchedPartition,
    revocations: number,
  ) {
    this.topic = topic
    this.partition = partition
    this.from = from
    this.records = records
    this.next = next
    this.revocations = revocations
    this.highWatermark = String(highWatermark)
  }

  // ---- what kafkajs reads for its own events

  get messages(): ReadonlyArray<IncomingRecord> {
    return this.records
  }

  firstOffset(): string {
    return String(this.from)
  }

  lastOffset(): string {
    return String(this.next - 1)
  }

  offsetLag(): string {
    return String(Math.max(0, Number(this.highWatermark) - this.next))
  }

  offsetLagLow(): string {
    return String(Math.max(0, Number(this.highWatermark) - 1 - this.from))
  }

  /** A batch without records moves the position, too: control records, or compaction. */
  isEmpty(): boolean {
    return false
  }

  isEmptyDueToFiltering(): boolean {
    return false
  }
}
