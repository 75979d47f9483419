/**
 * Reads the assigned partitions of a group member. It keeps the position of each partition itself,
 * because kafkajs may lose or skip positions. It passes batches to the handler, in order and
 * without gaps, and delivers a failed batch again after a delay.
 */
import { Cause, type Effect, Exit } from 'effect'
import type { FetchHooks } from '../kafkajs-patches/drop-revoked-fetches.ts'
import type { InnerBatch, InnerGroup } from '../kafkajs-patches/internals.ts'
import { partitionKey } from '../partition-key.ts'
import type { GroupHandler, IncomingRecord, Position } from '../port.ts'
import { beforeNewer, newerSchemaOf } from '../records/newer-schema.ts'
import type { ConsumerInstance } from './consumer-instance.ts'
import { incomingRecord } from './incoming-record.ts'
import { backoffMs, now } from './timing.ts'

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
  /** The group of the current consumer instance, once it has joined. */
  readonly group: () => InnerGroup | undefined
  readonly isRebalancing: () => boolean
  readonly log: (message: string, fields: Readonly<Record<string, unknown>>) => void
}

export class PartitionReader {
  readonly #dependencies: ReaderDependencies
  readonly #partitions = new Map<string, PartitionState>()
  readonly #batches = new Map<string, RunningBatch>()
  /** Counts the revocations. A batch that was fetched before the last one is dropped. */
  #revocations = 0
  /** Revocations before each fetched batch. */
  readonly #fetchedAfter = new WeakMap<object, number>()
  #fetchedAt = now()

  constructor(dependencies: ReaderDependencies) {
    this.#dependencies = dependencies
  }

  readonly fetchHooks: FetchHooks = {
    revocations: () => this.#revocations,
    onAnswer: () => {
      this.#fetchedAt = now()
    },
    onFetched: (batch, revocations) => {
      this.#fetchedAfter.set(batch, revocations)
      if (batch.isEmptyDueToFiltering()) this.#skipEmptyBatch(batch)
    },
  }

  // ---- assignment

  /** Delivers nothing more of what was fetched until now. */
  dropFetched(): void {
    this.#revocations++
  }

  runningBatches(): ReadonlyArray<RunningBatch> {
    return [...this.#batches.values()]
  }

  /** Begins to read an assignment. Retained partitions keep their position and their pause. */
  assign(
    group: InnerGroup,
    assignment: Readonly<Record<string, ReadonlyArray<number>>>,
    retained: ReadonlySet<number>,
  ): void {
    const previous = new Map(this.#partitions)
    this.stopRetries()
    this.#partitions.clear()
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
        }
        state.progressAt = now()
        this.#partitions.set(key, state)
        if (state.position !== undefined) seekGroup(group, state, state.position)
        applyPause(group, state)
      }
    }
  }

  stopRetries(): void {
    for (const state of this.#partitions.values()) {
      clearTimeout(state.retryTimer)
      state.retryTimer = undefined
    }
  }

  // ---- positions

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
    const position = Math.max(0, offset)
    state.seeks++
    state.position = position
    state.progressAt = now()
    this.#withGroup((group) => seekGroup(group, state, position))
  }

  setPaused(topic: string, partition: number, isPaused: boolean): void {
    const state = this.#stateOf(topic, partition)
    if (state === undefined || state.isPaused === isPaused) return
    state.isPaused = isPaused
    state.progressAt = now()
    this.#withGroup((group) => applyPause(group, state))
  }

  /**
   * The position is not in the log: retention deleted it, or the topic was created again. Reading
   * continues at the first offset, because records may be delivered twice, but must not be lost.
   */
  handleOutOfRange(group: InnerGroup, { topic, partition, offset }: Position): void {
    const state = this.#stateOf(topic, partition)
    if (state === undefined) return
    this.#dependencies.log('consumer: the offset is not in the log; reading continues at the first offset', {
      topic,
      partition,
      offset: state.position ?? null,
      firstOffset: offset,
    })
    state.position = offset
    seekGroup(group, state, offset)
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
  async deliver(instance: ConsumerInstance, batch: InnerBatch, isStale: () => boolean): Promise<void> {
    const { group } = instance
    const { topic, partition } = batch
    const key = partitionKey(topic, partition)
    const state = this.#partitions.get(key)
    const revocations = this.#revocations
    if (group === undefined || state === undefined || instance.isStopped) return
    if (this.#dependencies.isRebalancing() || this.#fetchedAfter.get(batch) !== revocations || isStale())
      return
    if (state.isPaused || state.retryTimer !== undefined || this.#batches.has(key)) return
    const requested = Number(batch.fetchedOffset)
    const position = state.position ?? requested
    // kafkajs fetched behind the position, so records between them would be lost. Offsets that are
    // missing after `requested` are no gap: the log does not contain them.
    if (requested > position) return seekGroup(group, state, position)
    state.position = position
    const records: Array<IncomingRecord> = []
    for (const message of batch.messages) {
      if (Number(message.offset) >= position) records.push(incomingRecord(topic, partition, message))
    }
    const next = Math.max(position, Number(batch.lastOffset()) + 1)
    const readable = beforeNewer(records)
    if (readable.length > 0) {
      const { seeks } = state
      const exit = await this.#handle(key, topic, partition, readable)
      if (instance.isStopped || revocations !== this.#revocations) return
      if (exit === undefined || Exit.isFailure(exit)) return this.#retryFailedBatch(group, state, exit)
      state.failures = 0
      state.progressAt = now()
      if (state.seeks !== seeks) return
    }
    const newer = records[readable.length]
    if (newer !== undefined) return this.#waitForNewerVersion(group, state, newer)
    state.position = next
    group.resolveOffset({ topic, partition, offset: String(next - 1) })
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

  #retryFailedBatch(
    group: InnerGroup,
    state: PartitionState,
    exit: Exit.Exit<void, unknown> | undefined,
  ): void {
    const error = exit !== undefined && Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
    // Only the name: the message may quote a record.
    const { _tag, name } = (error ?? {}) as { readonly _tag?: string; readonly name?: string }
    this.#retryLater(group, state, 'consumer: a batch failed; it is delivered again after a delay', {
      error: _tag ?? name ?? null,
    })
  }

  /**
   * Stops before a record of a newer version, until an instance of that version owns the partition.
   * If this version dead-lettered the record, the record would be missing from every projection.
   */
  #waitForNewerVersion(group: InnerGroup, state: PartitionState, { offset, value }: IncomingRecord): void {
    state.position = offset
    this.#retryLater(
      group,
      state,
      'consumer: a newer version of the hub has written here; the partition waits for an instance of it',
      { schema: newerSchemaOf(value) },
    )
  }

  /** Reads from the position again after a delay. */
  #retryLater(
    group: InnerGroup,
    state: PartitionState,
    message: string,
    fields: Readonly<Record<string, string | number | null>>,
  ): void {
    state.failures++
    // The partition was fetched: the consumer is not stuck.
    state.progressAt = now()
    const { topic, partition, failures } = state
    const offset = state.position ?? 0
    const delayMs = backoffMs(failures)
    this.#dependencies.log(message, { topic, partition, offset, failures, delayMs, ...fields })
    seekGroup(group, state, offset)
    state.retryTimer = setTimeout(() => {
      state.retryTimer = undefined
      if (this.isCurrent(state)) this.#withGroup((current) => applyPause(current, state))
    }, delayMs)
    applyPause(group, state)
  }

  /** The batch contains no record of the hub (but, for example, control records). */
  #skipEmptyBatch(batch: InnerBatch): void {
    const state = this.#stateOf(batch.topic, batch.partition)
    if (state?.position === undefined || Number(batch.fetchedOffset) > state.position) return
    state.position = Math.max(state.position, Number(batch.lastOffset()) + 1)
  }

  #stateOf(topic: string, partition: number): PartitionState | undefined {
    return this.#partitions.get(partitionKey(topic, partition))
  }

  #withGroup(use: (group: InnerGroup) => void): void {
    const group = this.#dependencies.group()
    if (group !== undefined) use(group)
  }
}

const seekGroup = (group: InnerGroup, { topic, partition }: PartitionState, offset: number): void =>
  group.seek({ topic, partition, offset: String(offset) })

const applyPause = (group: InnerGroup, { isPaused, partition, retryTimer, topic }: PartitionState): void => {
  const partitions = [{ topic, partitions: [partition] }]
  if (isPaused || retryTimer !== undefined) group.pause(partitions)
  else group.resume(partitions)
}
