/**
 * Applies one transaction batch after the other. Records that arrive meanwhile join the next one.
 */
import { Duration, Effect, Latch } from 'effect'
import { RecordBuffer, type TransactionBatch } from './record-buffer.ts'

/**
 * Records of one transaction at most. Three round trips and a commit cost little per row, and the
 * journal heads are locked for some tens of milliseconds only.
 */
export const MAX_BATCH_RECORDS = 2000

/**
 * How long a small batch waits for more records. At everyday rates the four records of a message
 * arrive one by one, and each would cost a commit. Before it is visible, reads use the ledger.
 */
const LINGER = Duration.millis(50)
/**
 * The same while accounts with webhooks get events: their servers wait for them. The records of one fetch
 * arrive in this time. `GatherTime` decides how many these are.
 */
const SHORT_LINGER = Duration.millis(1)
/** Transactions of a worker between two with such events: many records, such as claims, have none. */
const PUBLISHING_TRANSACTIONS = 50
/** From this size on, the commit is a small part of the cost, and the batch does not wait. */
const LINGER_BELOW = 200

/** Full batches to buffer: one is fetched while another is applied. */
const BUFFERED_BATCHES = 1

export class Worker {
  readonly buffer = new RecordBuffer()
  readonly #maxBatchRecords: number
  /** Transactions since the last one that recorded events for webhooks. */
  #sincePublished = Infinity
  /** Open while records are buffered. */
  readonly #work = Latch.makeUnsafe(false)
  /** Open while the buffer may grow. */
  readonly #room = Latch.makeUnsafe(true)
  /** Open while no transaction is in progress. */
  readonly #idle = Latch.makeUnsafe(true)
  #ending = false

  constructor(maxBatchRecords: number) {
    this.#maxBatchRecords = maxBatchRecords
  }

  /** Waits until more records may be ingested. */
  get awaitRoom(): Effect.Effect<void> {
    return this.#room.await
  }

  /** Waits until no transaction is in progress. */
  get awaitIdle(): Effect.Effect<void> {
    return this.#idle.await
  }

  /** Opens or closes the latches. Call it after each change of the buffer. */
  updateLatches(): void {
    if (this.buffer.size > 0) this.#work.openUnsafe()
    else if (!this.#ending) this.#work.closeUnsafe()
    if (this.buffer.size >= BUFFERED_BATCHES * this.#maxBatchRecords) this.#room.closeUnsafe()
    else this.#room.openUnsafe()
  }

  /** Forgets all partitions and their records. */
  clear(): void {
    this.buffer.clear()
    this.updateLatches()
  }

  /** Accounts with webhooks get events at present. */
  get isPublishing(): boolean {
    return this.#sincePublished < PUBLISHING_TRANSACTIONS
  }

  /** A transaction was applied. `published`: it recorded events for webhooks. */
  onApplied(published: boolean): void {
    this.#sincePublished = published ? 0 : this.#sincePublished + 1
  }

  /** Ends the loop after the transaction in progress. */
  end(): void {
    this.#ending = true
    this.#work.openUnsafe()
  }

  /** Whether the process runs and the member still owns the partitions of a batch. */
  isWanted(batch: TransactionBatch): boolean {
    return !this.#ending && batch.every(({ owned }) => this.buffer.owns(owned))
  }

  /** Applies batches until `end` is called. */
  run<R>(apply: (batch: TransactionBatch) => Effect.Effect<void, never, R>): Effect.Effect<void, never, R> {
    const linger = Effect.suspend(() =>
      this.buffer.size >= LINGER_BELOW
        ? Effect.void
        : Effect.sleep(this.isPublishing ? SHORT_LINGER : LINGER),
    )
    const applyNext = Effect.suspend(() => {
      const batch = this.buffer.takeBatch(this.#maxBatchRecords)
      this.updateLatches()
      if (batch.length === 0) return Effect.void
      this.#idle.closeUnsafe()
      return Effect.ensuring(
        apply(batch),
        Effect.sync(() => this.#idle.openUnsafe()),
      )
    })
    return Effect.whileLoop({
      while: () => !this.#ending,
      body: () => Effect.andThen(Effect.andThen(this.#work.await, linger), applyNext),
      step: () => {},
    })
  }
}
