/**
 * Buffers fetched records by partition until a transaction applies them. `ingest` adds records as
 * Kafka returns them; `takeBatch` removes the next transaction batch. Plain state without
 * concurrency: each call is synchronous.
 */
import type { IncomingRecord } from '@hub/kafka'
import type { Checkpoint } from '../store/projection-store.port.ts'

/** A partition that this member owns. A later ownership is another object. */
export interface OwnedPartition {
  /** The topic in Kafka, with the prefix of the deployment. */
  readonly source: string
  /** The topic without the prefix. */
  readonly topic: string
  readonly partition: number
  readonly epoch: number
  /** The next offset to apply, as in the checkpoint. */
  position: number
  fence: number
  /** The next offset to ingest. */
  nextOffset: number
  /** Ingested and not yet in a transaction batch. */
  buffered: Array<IncomingRecord>
}

/** The records of one partition in a transaction batch. */
export interface PartitionRecords {
  readonly owned: OwnedPartition
  readonly records: ReadonlyArray<IncomingRecord>
  /** The position of the checkpoint after the batch. */
  readonly to: number
}

/** The records that one transaction applies. */
export type TransactionBatch = ReadonlyArray<PartitionRecords>

export const recordCount = (batch: TransactionBatch): number =>
  batch.reduce((sum, { records }) => sum + records.length, 0)

/** Splits a batch of two or more records into halves. The first is applied before the second. */
export const bisect = (batch: TransactionBatch): readonly [TransactionBatch, TransactionBatch] => {
  let left = recordCount(batch) >> 1
  const first: Array<PartitionRecords> = []
  const second: Array<PartitionRecords> = []
  for (const part of batch) {
    const count = Math.min(left, part.records.length)
    left -= count
    if (count === part.records.length) {
      first.push(part)
      continue
    }
    const rest = part.records.slice(count)
    const cut = rest[0]?.offset ?? part.to
    if (count > 0) first.push({ owned: part.owned, records: part.records.slice(0, count), to: cut })
    second.push({ owned: part.owned, records: rest, to: part.to })
  }
  return [first, second]
}

const keyOf = (source: string, partition: number) => `${source}/${partition}`

type IngestResult =
  | 'buffered'
  /** The member does not own the partition. Its owner reads the records from the checkpoint. */
  | 'not_owned'
  /** The records do not continue at `nextOffset`: records before them are missing. */
  | 'gap'

export class RecordBuffer {
  readonly #partitions = new Map<string, OwnedPartition>()
  #size = 0

  /** The number of buffered records. */
  get size(): number {
    return this.#size
  }

  get partitions(): ReadonlyArray<OwnedPartition> {
    return [...this.#partitions.values()]
  }

  partitionOf(source: string, partition: number): OwnedPartition | undefined {
    return this.#partitions.get(keyOf(source, partition))
  }

  owns(owned: OwnedPartition): boolean {
    return this.partitionOf(owned.source, owned.partition) === owned
  }

  /** Removes all partitions. Their records are read again from the checkpoints. */
  clear(): void {
    this.#partitions.clear()
    this.#size = 0
  }

  /** Adds a partition. `from`: the checkpoint, or a later offset if records have expired. */
  addPartition(source: string, checkpoint: Checkpoint, from: number): void {
    this.#partitions.set(keyOf(source, checkpoint.partition), {
      ...checkpoint,
      source,
      nextOffset: from,
      buffered: [],
    })
  }

  ingest(source: string, partition: number, records: ReadonlyArray<IncomingRecord>): IngestResult {
    const owned = this.partitionOf(source, partition)
    if (owned === undefined) return 'not_owned'
    const fresh = records.filter((record) => record.offset >= owned.nextOffset)
    const first = fresh[0]
    const last = fresh.at(-1)
    if (first === undefined || last === undefined) return 'buffered'
    if (first.offset > owned.nextOffset) return 'gap'
    owned.buffered = owned.buffered.length === 0 ? fresh : owned.buffered.concat(fresh)
    owned.nextOffset = last.offset + 1
    this.#size += fresh.length
    return 'buffered'
  }

  /**
   * Removes the next batch of at most `limit` records, and none at or after `end` of its partition.
   * Records that were appended first come first, as far as producer clocks agree. So the lane
   * record and the log records of a message usually share a batch: one row write instead of two.
   */
  takeBatch(
    limit: number,
    end: (owned: OwnedPartition) => number = () => Number.POSITIVE_INFINITY,
  ): TransactionBatch {
    const ready = this.partitions.map((owned) => {
      const before = end(owned)
      const appendedAt = (index: number): number => {
        const record = owned.buffered[index]
        return record === undefined || record.offset >= before ? Number.POSITIVE_INFINITY : record.appendedAt
      }
      return { owned, count: 0, next: appendedAt(0), appendedAt }
    })
    for (let left = limit; left > 0; left--) {
      let oldest: (typeof ready)[number] | undefined
      for (const one of ready) if (one.next < (oldest?.next ?? Number.POSITIVE_INFINITY)) oldest = one
      if (oldest === undefined) break
      oldest.count += 1
      oldest.next = oldest.appendedAt(oldest.count)
    }
    return ready
      .filter(({ count }) => count > 0)
      .map(({ owned, count }) => {
        const records = owned.buffered.slice(0, count)
        owned.buffered = owned.buffered.slice(count)
        this.#size -= count
        return { owned, records, to: (records.at(-1)?.offset ?? owned.position) + 1 }
      })
  }
}
