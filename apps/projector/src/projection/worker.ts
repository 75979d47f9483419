/**
 * Applies one transaction batch after the other. Records that arrive meanwhile join the next one.
 */
import { Effect, Latch } from 'effect'
import { RecordBuffer, type TransactionBatch } from './record-buffer.ts'

/**
 * Records of one transaction at most. Three round trips and a commit cost little per row, and the
 * journal heads are locked for some tens of milliseconds only.
 */
export const MAX_BATCH_RECORDS = 2000

/** Full batches to buffer: one is fetched while another is applied. */
const BUFFERED_BATCHES = 1

export class Worker {
  readonly buffer = new RecordBuffer()
  readonly #maxBatchRecords: number
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
      // The partitions of a fetch arrive in the same turn of the event loop.
      body: () => Effect.andThen(Effect.andThen(this.#work.await, Effect.yieldNow), applyNext),
      step: () => {},
    })
  }
}
