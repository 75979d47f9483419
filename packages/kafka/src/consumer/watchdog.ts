/**
 * Detects a kafkajs consumer that is stuck. kafkajs may stop fetching one partition or all of them
 * without an error, so the watchdog checks heartbeats, fetches, and the lag of each partition.
 */
import type { Lease } from './lease.ts'
import type { PartitionReader } from './partition-reader.ts'
import { now } from './timing.ts'

export interface WatchdogOptions {
  /** No answered fetch, or lag without progress, for this time. Default 15 s: three lag checks. */
  readonly stuckAfterMs?: number
  /** Interval of the lag checks. Default 5 s. */
  readonly lagCheckMs?: number
}

const STUCK_AFTER_MS = 15_000
export const LAG_CHECK_MS = 5000

interface Watched {
  readonly lease: Lease
  readonly reader: PartitionReader
  readonly sessionTimeoutMs: number
  /** A join that takes longer is stuck. */
  readonly joinTimeoutMs: number
  /** The ends of the log, by partition. */
  readonly ends: (topic: string) => Promise<ReadonlyMap<number, number>>
}

export class Watchdog {
  readonly #watched: Watched
  readonly #stuckAfterMs: number
  #isCheckingLag = false

  constructor(watched: Watched, options: WatchdogOptions = {}) {
    this.#watched = watched
    this.#stuckAfterMs = options.stuckAfterMs ?? STUCK_AFTER_MS
  }

  /** Why the consumer is stuck; `undefined` while it works. */
  check(): string | undefined {
    const { joinTimeoutMs, lease, reader, sessionTimeoutMs } = this.#watched
    const rebalancingMs = lease.rebalancingMs()
    if (rebalancingMs !== undefined) {
      return rebalancingMs > joinTimeoutMs ? 'the join takes too long' : undefined
    }
    if (lease.msSinceHeartbeat() > 2 * sessionTimeoutMs) return 'no heartbeat was answered'
    return !reader.isHandlingBatches() && reader.msSinceFetch() > this.#stuckAfterMs
      ? 'no fetch was answered'
      : undefined
  }

  /**
   * As `check`, by the ends of the log. A consumer may fetch without errors and still never get one
   * partition; only the end of the log shows that.
   */
  async checkLag(): Promise<string | undefined> {
    const { ends: endsOf, reader } = this.#watched
    if (this.#isCheckingLag) return undefined
    const suspects = reader.partitionsWithoutProgress(this.#stuckAfterMs)
    if (suspects.length === 0) return undefined
    this.#isCheckingLag = true
    try {
      const topics = [...new Set(suspects.map((state) => state.topic))]
      const endsOfTopics = await Promise.all(topics.map((topic) => endsOf(topic)))
      for (const [index, topic] of topics.entries()) {
        const ends = endsOfTopics[index]!
        for (const state of suspects) {
          if (state.topic !== topic || !reader.isWithoutProgress(state, this.#stuckAfterMs)) continue
          // At the end of the log: until now there was nothing to read.
          if ((ends.get(state.partition) ?? 0) <= (state.position ?? 0)) state.progressAt = now()
          else if (reader.isCurrent(state)) return 'a partition has lag, but makes no progress'
        }
      }
    } catch {
      // A failed request does not show that the consumer is stuck. `check` watches the heartbeats.
    } finally {
      this.#isCheckingLag = false
    }
    return undefined
  }
}
