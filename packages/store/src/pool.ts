/**
 * The connection pool of every app: the pool of the driver `postgres`, with remedies for its faults
 * when a connection breaks. Each remedy is a file in `postgres-patches/` (docs/decisions/0031).
 */
import type postgres from 'postgres'
import { runTransaction } from './postgres-patches/lost-transaction.ts'
import { RenewedPool } from './postgres-patches/renewed-pool.ts'
import { hookedQueries, type Queries } from './postgres-patches/statement-hooks.ts'

export type { Queries }

export interface Pool {
  /** Each statement runs on any free connection. */
  readonly queries: Queries
  /** Commits when `body` resolves, else rolls back. Rejects as soon as its connection breaks. */
  readonly transaction: <A>(body: (queries: Queries) => Promise<A>) => Promise<A>
  /** Awaits statements in progress for this time, then closes. */
  readonly end: (seconds: number) => Promise<void>
}

export const openPool = (url: string, options: postgres.Options<{}>): Pool => {
  const pool = new RenewedPool(url, options)
  return {
    queries: hookedQueries(() => pool.current()),
    transaction: async (body) => runTransaction(pool.current(), body),
    end: (seconds) => pool.end(seconds),
  }
}
