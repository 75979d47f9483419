/**
 * The partition lease of a group member: how long no other member can own its shards. The broker
 * gives the shards to another member when the session ends, so the lease ends before the session.
 * It also measures the time since the last heartbeat and the time of a rebalance.
 */
import { now } from './timing.ts'

/** The lease ends this much before the session: a busy event loop, clocks of different speed. */
const LEASE_MARGIN_MS = 1500

export class Lease {
  readonly #sessionTimeoutMs: number
  #validUntil = Number.NEGATIVE_INFINITY
  #heartbeatAnsweredAt = now()
  #rebalancingSince: number | undefined = now()

  constructor(sessionTimeoutMs: number) {
    this.#sessionTimeoutMs = sessionTimeoutMs
  }

  /** Whether this member may start work for its shards. */
  mayStartWork(): boolean {
    return !this.isRebalancing() && this.mayFinishWork()
  }

  /**
   * Whether this member may finish work in progress: no other member can own the shards of the last
   * assignment. It can be true during a rebalance.
   */
  mayFinishWork(): boolean {
    return now() < this.#validUntil
  }

  isRebalancing(): boolean {
    return this.#rebalancingSince !== undefined
  }

  /** How long the current rebalance takes, milliseconds; `undefined` while there is none. */
  rebalancingMs(): number | undefined {
    return this.#rebalancingSince === undefined ? undefined : now() - this.#rebalancingSince
  }

  msSinceHeartbeat(): number {
    return now() - this.#heartbeatAnsweredAt
  }

  beginRebalance(): void {
    this.#rebalancingSince ??= now()
  }

  /** A new consumer instance begins to join. */
  restartRebalance(): void {
    this.#rebalancingSince = now()
  }

  /** The member has joined. `syncSentAt`: the broker started the session no earlier. */
  grant(syncSentAt: number): void {
    this.#heartbeatAnsweredAt = now()
    this.#validUntil = this.#endOfLease(syncSentAt)
    this.#rebalancingSince = undefined
  }

  /** The broker has answered a heartbeat that was sent at this time. */
  extend(heartbeatSentAt: number): void {
    this.#heartbeatAnsweredAt = now()
    this.#validUntil = Math.max(this.#validUntil, this.#endOfLease(heartbeatSentAt))
  }

  /** Another member may own the shards from now on. */
  end(): void {
    this.#validUntil = Number.NEGATIVE_INFINITY
  }

  #endOfLease(sessionStart: number): number {
    return sessionStart + this.#sessionTimeoutMs - LEASE_MARGIN_MS
  }
}
