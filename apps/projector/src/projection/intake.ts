/**
 * What has been read and is not applied yet, by partition. Plain state, touched by one fiber at a time in one tick:
 * batches go in as Kafka gives them, polls come out as the transactions want them.
 */
import type { IncomingRecord } from '@hub/kafka'
import type { Checkpoint } from '../sql.ts'

/** A partition that this member has claimed. It ends with the claim; the next claim makes another. */
export interface Claim {
  /** Topic with the deployment's prefix. */
  readonly source: string
  /** Topic without. */
  readonly topic: string
  readonly partition: number
  readonly epoch: number
  /** Next offset to apply, as the checkpoint says; moves with it. */
  position: number
  fence: number
  /** Next offset to take in. */
  next: number
  /** Taken in, not applied. */
  waiting: Array<IncomingRecord>
}

/** Records of one partition in a poll, and where its checkpoint goes when they are applied. */
export interface Chunk {
  readonly claim: Claim
  readonly records: ReadonlyArray<IncomingRecord>
  readonly to: number
}

/** What one transaction applies. */
export type Poll = ReadonlyArray<Chunk>

export const sizeOf = (poll: Poll): number => poll.reduce((sum, chunk) => sum + chunk.records.length, 0)

/** Cuts a poll of two records or more in two, so that the first can be applied before the second. */
export const bisect = (poll: Poll): readonly [Poll, Poll] => {
  let left = sizeOf(poll) >> 1
  const first: Array<Chunk> = []
  const second: Array<Chunk> = []
  for (const chunk of poll) {
    const count = Math.min(left, chunk.records.length)
    left -= count
    if (count === chunk.records.length) {
      first.push(chunk)
      continue
    }
    const rest = chunk.records.slice(count)
    const cut = rest[0]?.offset ?? chunk.to
    if (count > 0) first.push({ claim: chunk.claim, records: chunk.records.slice(0, count), to: cut })
    second.push({ claim: chunk.claim, records: rest, to: chunk.to })
  }
  return [first, second]
}

const keyOf = (source: string, partition: number) => `${source}/${partition}`

export type Taken =
  /** In the intake. */
  | 'taken'
  /** Not claimed (any more): whoever claims the partition reads it again from its checkpoint. */
  | 'not_claimed'
  /** Records before these have not been seen. */
  | 'gap'

export class Intake {
  readonly #claims = new Map<string, Claim>()
  #waiting = 0
  /** Rotates, so that no partition is always last when a poll is full. */
  #turn = 0

  /** Number of records taken in and not yet in a poll. */
  get waiting(): number {
    return this.#waiting
  }

  get claims(): ReadonlyArray<Claim> {
    return [...this.#claims.values()]
  }

  holds(claim: Claim): boolean {
    return this.#claims.get(keyOf(claim.source, claim.partition)) === claim
  }

  /** Forgets everything: what is not applied will be read again. */
  clear(): void {
    this.#claims.clear()
    this.#waiting = 0
  }

  /** Opens a claimed partition. `from` is where reading begins, which is the checkpoint unless it has expired. */
  open(source: string, checkpoint: Checkpoint, from: number): void {
    this.#claims.set(keyOf(source, checkpoint.partition), {
      ...checkpoint,
      source,
      next: from,
      waiting: [],
    })
  }

  add(source: string, partition: number, records: ReadonlyArray<IncomingRecord>): Taken {
    const claim = this.#claims.get(keyOf(source, partition))
    if (claim === undefined) return 'not_claimed'
    const fresh = records.filter((record) => record.offset >= claim.next)
    const first = fresh[0]
    const last = fresh.at(-1)
    if (first === undefined || last === undefined) return 'taken'
    if (first.offset > claim.next) return 'gap'
    claim.waiting = claim.waiting.length === 0 ? fresh : claim.waiting.concat(fresh)
    claim.next = last.offset + 1
    this.#waiting += fresh.length
    return 'taken'
  }

  /** Takes out at most `limit` records, of as many partitions as have any; each gives its share first. */
  take(limit: number): Poll {
    const ready = [...this.#claims.values()].filter((claim) => claim.waiting.length > 0)
    if (ready.length === 0) return []
    const start = this.#turn++ % ready.length
    const order = [...ready.slice(start), ...ready.slice(0, start)]
    const counts = new Map<Claim, number>()
    let left = limit
    const share = Math.max(1, Math.floor(limit / order.length))
    for (const claim of order) {
      const count = Math.min(share, claim.waiting.length, left)
      counts.set(claim, count)
      left -= count
    }
    for (const claim of order) {
      const more = Math.min(left, claim.waiting.length - (counts.get(claim) ?? 0))
      counts.set(claim, (counts.get(claim) ?? 0) + more)
      left -= more
    }
    const poll: Array<Chunk> = []
    for (const [claim, count] of counts) {
      if (count === 0) continue
      const records = claim.waiting.slice(0, count)
      claim.waiting = claim.waiting.slice(count)
      this.#waiting -= count
      poll.push({ claim, records, to: (records.at(-1)?.offset ?? claim.position) + 1 })
    }
    return poll
  }
}
