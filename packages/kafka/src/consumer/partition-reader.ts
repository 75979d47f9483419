/**
 * The assigned partitions of a group member, with their positions. It passes fetched batches to the
 * handler, in order and without gaps, and delivers a failed batch again after a delay. The fetches
 * themselves are in `fetcher.ts`.
 */
import { backoffMs, PATIENT } from '@hub/flow'
import { Cause, type Effect, Exit } from 'effect'
import { partitionKey } from '../partition-key.ts'
import type { GroupHandler, IncomingRecord, Position } from '../port.ts'
import { beforeNewer, newerSchemaOf } from '../records/newer-schema.ts'
import type { FetchedBatch } from './fetched-batch.ts'
import { now } from './timing.ts'

export interface PartitionState {
  readonly topic: string
  readonly partition: number
  /** The next offset to deliver; `undefined` before a seek or the first batch. */
  position: number | undefined
  /** Rises with every seek, so that a batch in progress does not overwrite the new position. */
  seeks: number
  /** By the handler. */
  isPaused: boolean
  /** Set while a failed batch waits for its retry. */
  retryTimer: NodeJS.Timeout | undefined
  failures: number
  /** When the position last changed, or reading began; monotonic. */
  progressAt: number
  /** The end of the log, as the last answered fetch of the partition had it. `knownAt`: monotonic. */
  end: { readonly offset: number; readonly knownAt: number } | undefined
  /** When a rebalance stopped it; `undefined` once it is read again. Monotonic. */
  stoppedAt: number | undefined
}

/** A batch in the handler. */
interface RunningBatch {
  readonly abort: () => void
  readonly ended: Promise<void>
}

interface ReaderDependencies {
  readonly onBatch: GroupHandler['onBatch']
  readonly run: (
    effect: Effect.Effect<void, unknown>,
    signal: AbortSignal,
  ) => Promise<Exit.Exit<void, unknown>>
  /** A position changed, a partition was resumed, or the assignment ended: a fetch must not wait. */
  readonly onChange: () => void
  readonly isRebalancing: () => boolean
  /** A partition is read again, so long after a rebalance stopped it. */
  readonly onReadAgain: (topic: string, afterMs: number) => void
  readonly log: (message: string, fields: Readonly<Record<string, unknown>>) => void
}

export class PartitionReader {
  readonly #dependencies: ReaderDependencies
  readonly #partitions = new Map<string, PartitionState>()
  readonly #batches = new Map<string, RunningBatch>()
  #revocations = 0
  #assignment = 0
  #fetchedAt = now()

  constructor(dependencies: ReaderDependencies) {
    this.#dependencies = dependencies
  }

  // ---- for the fetcher

  /** Counts the revocations. A batch that was fetched before the last one is dropped. */
  get revocations(): number {
    return this.#revocations
  }

  /** Counts the assignments. */
  get assignment(): number {
    return this.#assignment
  }

  /** Nothing is delivered until the next assignment. */
  isRebalancing(): boolean {
    return this.#dependencies.isRebalancing()
  }

  assigned(): ReadonlyArray<PartitionState> {
    return [...this.#partitions.values()]
  }

  isReadable({ isPaused, position, retryTimer }: PartitionState): boolean {
    return position !== undefined && !isPaused && retryTimer === undefined
  }

  /** A fetch was answered. */
  onAnswer(): void {
    this.#fetchedAt = now()
  }

  // ---- assignment

  /** Delivers nothing more of what was fetched until now. */
  dropFetched(): void {
    this.#revocations++
    this.#dependencies.onChange()
  }

  runningBatches(): ReadonlyArray<RunningBatch> {
    return [...this.#batches.values()]
  }

  /**
   * Begins to read an assignment. Retained partitions keep their position and their pause. `stoppedAt`: when
   * the rebalance stopped all partitions, or a new member began to join.
   */
  assign(
    assignment: Readonly<Record<string, ReadonlyArray<number>>>,
    retained: ReadonlySet<number>,
    stoppedAt: number,
  ): void {
    const previous = new Map(this.#partitions)
    this.stopRetries()
    this.#partitions.clear()
    this.#assignment++
    this.#fetchedAt = now()
    for (const [topic, partitions] of Object.entries(assignment)) {
      for (const partition of partitions) {
        const key = partitionKey(topic, partition)
        const known = retained.has(partition) ? previous.get(key) : undefined
        const state = known ?? {
          topic,
          partition,
          position: undefined,
          seeks: 0,
          isPaused: false,
          retryTimer: undefined,
          failures: 0,
          progressAt: now(),
          end: undefined,
          stoppedAt: undefined,
        }
        state.progressAt = now()
        // A partition that the handler has paused was not read before either.
        if (!state.isPaused) state.stoppedAt ??= stoppedAt
        this.#partitions.set(key, state)
      }
    }
  }

  /** The handler has been told of the assignment. The partitions that it did not pause are read from now on. */
  begin(): void {
    for (const state of this.#partitions.values()) this.#observeStop(state)
  }

  /** Records how long a rebalance stopped a partition, when it is read again. */
  #observeStop(state: PartitionState): void {
    if (state.stoppedAt === undefined || state.isPaused) return
    this.#dependencies.onReadAgain(state.topic, now() - state.stoppedAt)
    state.stoppedAt = undefined
  }

  stopRetries(): void {
    for (const state of this.#partitions.values()) {
      clearTimeout(state.retryTimer)
      state.retryTimer = undefined
    }
  }

  // ---- positions

  /**
   * The ends of the assigned partitions of a topic, by partition. `undefined` if one of them is not known from
   * a fetch of this time: it is paused, or the broker does not answer.
   */
  knownEnds(topic: string, withinMs: number): ReadonlyMap<number, number> | undefined {
    const since = now() - withinMs
    const ends = new Map<number, number>()
    for (const state of this.#partitions.values()) {
      if (state.topic !== topic) continue
      if (state.end === undefined || state.end.knownAt < since) return undefined
      ends.set(state.partition, state.end.offset)
    }
    return ends
  }

  isAssigned(topic: string, partition: number): boolean {
    return this.#stateOf(topic, partition) !== undefined
  }

  /** False for a partition that was revoked since, even if it was assigned again. */
  isCurrent(state: PartitionState): boolean {
    return this.#stateOf(state.topic, state.partition) === state
  }

  seek({ topic, partition, offset }: Position): void {
    const state = this.#stateOf(topic, partition)
    if (state === undefined) return
    state.seeks++
    state.position = Math.max(0, offset)
    state.progressAt = now()
    this.#dependencies.onChange()
  }

  setPaused(topic: string, partition: number, isPaused: boolean): void {
    const state = this.#stateOf(topic, partition)
    if (state === undefined || state.isPaused === isPaused) return
    state.isPaused = isPaused
    state.progressAt = now()
    this.#observeStop(state)
    if (!isPaused) this.#dependencies.onChange()
  }

  /**
   * The position is not in the log: retention deleted it, or the topic was created again. Reading
   * continues at the first offset, because records may be delivered twice, but must not be lost.
   */
  handleOutOfRange({ topic, partition, offset }: Position): void {
    const state = this.#stateOf(topic, partition)
    if (state === undefined) return
    this.#dependencies.log('consumer: the offset is not in the log; reading continues at the first offset', {
      topic,
      partition,
      offset: state.position ?? null,
      firstOffset: offset,
    })
    state.position = offset
  }

  // ---- for the watchdog

  isHandlingBatches(): boolean {
    return this.#batches.size > 0
  }

  msSinceFetch(): number {
    return now() - this.#fetchedAt
  }

  partitionsWithoutProgress(forMs: number): ReadonlyArray<PartitionState> {
    return [...this.#partitions.values()].filter((state) => this.isWithoutProgress(state, forMs))
  }

  isWithoutProgress(state: PartitionState, forMs: number): boolean {
    return (
      state.position !== undefined &&
      !state.isPaused &&
      state.retryTimer === undefined &&
      !this.#batches.has(partitionKey(state.topic, state.partition)) &&
      now() - state.progressAt > forMs
    )
  }

  // ---- delivery

  /** Passes a batch to the handler, unless its partition was revoked or paused since the fetch. */
  async deliver(instance: { readonly isStopped: boolean }, batch: FetchedBatch): Promise<void> {
    const { from, partition, topic } = batch
    const key = partitionKey(topic, partition)
    const state = this.#partitions.get(key)
    const revocations = this.#revocations
    if (state?.position === undefined || instance.isStopped) return
    if (this.#dependencies.isRebalancing() || batch.revocations !== revocations) return
    if (state.isPaused || state.retryTimer !== undefined || this.#batches.has(key)) return
    const { position, seeks } = state
    // After a seek back, the records between the position and the batch would be lost.
    if (from > position) return
    const records = batch.records.filter(({ offset }) => offset >= position)
    const readable = beforeNewer(records)
    if (readable.length > 0) {
      const exit = await this.#handle(key, topic, partition, readable)
      if (instance.isStopped || revocations !== this.#revocations) return
      if (exit === undefined || Exit.isFailure(exit)) return this.#retryFailedBatch(state, exit)
      state.failures = 0
      state.progressAt = now()
      if (state.seeks !== seeks) return
    }
    const newer = records[readable.length]
    if (newer !== undefined) return this.#waitForNewerVersion(state, newer)
    state.position = Math.max(position, batch.next)
  }

  /** Runs the handler. Returns `undefined` when a revocation aborted it. */
  async #handle(
    key: string,
    topic: string,
    partition: number,
    records: ReadonlyArray<IncomingRecord>,
  ): Promise<Exit.Exit<void, unknown> | undefined> {
    const { onBatch, run } = this.#dependencies
    const controller = new AbortController()
    const aborted = new Promise<undefined>((resolve) => {
      controller.signal.addEventListener('abort', () => resolve(undefined), { once: true })
    })
    const done = run(onBatch(topic, partition, records), controller.signal)
    // A handler that cannot be interrupted blocks its partition until it ends: two batches of one
    // partition at once would break the order.
    const ended = done.then(() => {
      this.#batches.delete(key)
    })
    this.#batches.set(key, { abort: () => controller.abort(), ended })
    return await Promise.race([done, aborted])
  }

  #retryFailedBatch(state: PartitionState, exit: Exit.Exit<void, unknown> | undefined): void {
    const error = exit !== undefined && Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
    // Only the name: the message may quote a record.
    const { _tag, name } = (error ?? {}) as { readonly _tag?: string; readonly name?: string }
    this.#retryLater(state, 'consumer: a batch failed; it is delivered again after a delay', {
      error: _tag ?? name ?? null,
    })
  }

  /**
   * Stops before a record of a newer version, until an instance of that version owns the partition.
   * If this version dead-lettered the record, the record would be missing from every projection.
   */
  #waitForNewerVersion(state: PartitionState, { offset, value }: IncomingRecord): void {
    state.position = offset
    this.#retryLater(
      state,
      'consumer: a newer version of the hub has written here; the partition waits for an instance of it',
      { schema: newerSchemaOf(value) },
    )
  }

  /** Reads from the position again after a delay. */
  #retryLater(
    state: PartitionState,
    message: string,
    fields: Readonly<Record<string, string | number | null>>,
  ): void {
    state.failures++
    // The partition was fetched: the consumer is not stuck.
    state.progressAt = now()
    const { topic, partition, failures } = state
    const offset = state.position ?? 0
    const delayMs = backoffMs(PATIENT, failures)
    this.#dependencies.log(message, { topic, partition, offset, failures, delayMs, ...fields })
    state.retryTimer = setTimeout(() => {
      state.retryTimer = undefined
      this.#dependencies.onChange()
    }, delayMs)
  }

  #stateOf(topic: string, partition: number): PartitionState | undefined {
    return this.#partitions.get(partitionKey(topic, partition))
  }
}
