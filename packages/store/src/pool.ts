/**
 * The connection pool of every app: the pool of the driver `postgres`, with remedies for its faults
 * when a connection breaks. Each remedy is a file in `postgres-patches/`
 * (docs/decisions/servers.md#postgresql). Connections that are dead without a sign are found in
 * `connections/` (docs/decisions/servers.md#postgresql).
 */
import type postgres from 'postgres'
import type { WatchEvents } from './connections/connection-watch.ts'
import { runTransaction } from './postgres-patches/lost-transaction.ts'
import { RenewedPool } from './postgres-patches/renewed-pool.ts'
import { hookedQueries, type Queries } from './postgres-patches/statement-hooks.ts'

export type { Queries }

export interface Pool {
  /** Each statement runs on any free connection. */
  readonly queries: Queries
  /**
   * Commits when `body` resolves, else rolls back. Rejects as soon as its connection breaks. A
   * transaction that takes longer than ten seconds gives its longest time.
   */
  readonly transaction: <A>(body: (queries: Queries) => Promise<A>, withinMs?: number) => Promise<A>
  /** When a connection has received something last; monotonic clock. */
  readonly lastAnswerAt: () => number
  /** Awaits statements in progress for this time, then closes. */
  readonly end: (seconds: number) => Promise<void>
}

/** For short programs, which nobody watches. */
const SILENT: WatchEvents = { onReplaced: () => {}, onPooler: () => {} }

export const openPool = (url: string, options: postgres.Options<{}>, events: WatchEvents = SILENT): Pool => {
  const pool = new RenewedPool(url, options, events)
  return {
    queries: hookedQueries(() => pool.current()),
    transaction: async (body, withinMs = 0) => {
      const current = pool.current()
      return current.keepFor(withinMs, runTransaction(current, body))
    },
    lastAnswerAt: () => pool.lastAnswerAt(),
    end: (seconds) => pool.end(seconds),
  }
}
