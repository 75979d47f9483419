/**
 * What has been read and is not applied yet, by partition. Plain state, touched by one fiber at a time in one tick:
 * batches go in as Kafka gives them, polls come out as the transactions want them.
 */
import type { IncomingRecord } from '@hub/kafka'
import type { Checkpoint } from '../tables/all.ts'

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

  /**
   * Takes out at most `limit` records, none at or behind `end` of its partition: those first that were appended first, as far as the clocks of
   * their producers agree (within a second). So what lanes and log say of a message comes in one poll, also when there is much to catch up
   * with: one row to write instead of two.
   */
  take(limit: number, end: (claim: Claim) => number = () => Number.POSITIVE_INFINITY): Poll {
    const ready = [...this.#claims.values()].map((claim) => {
      const before = end(claim)
      const appendedAt = (place: number): number => {
        const record = claim.waiting[place]
        return record === undefined || record.offset >= before ? Number.POSITIVE_INFINITY : record.appendedAt
      }
      return { claim, count: 0, next: appendedAt(0), appendedAt }
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
      .map(({ claim, count }) => {
        const records = claim.waiting.slice(0, count)
        claim.waiting = claim.waiting.slice(count)
        this.#waiting -= count
        return { claim, records, to: (records.at(-1)?.offset ?? claim.position) + 1 }
      })
  }
}
