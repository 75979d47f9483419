/**
 * Patch: a pool is replaced by a new one when one of its connections breaks.
 *
 * - postgres 3.4.9: when a connection breaks, its write buffer and the mark of a scheduled write
 *   remain. The driver then connects again, but never writes to the new connection.
 * - Why the hub needs more: statements on that connection have no answer until their deadline,
 *   several times in a row, although PostgreSQL is available again.
 * - Fails without the patch: `pool.int.test.ts`, "a connection that breaks > lets other connections
 *   finish their work".
 * - Unnecessary when: the driver clears the buffer and the mark before it connects again.
 */
import postgres from 'postgres'
import { ConnectionWatch, type WatchEvents } from '../connections/connection-watch.ts'
import { ignoreBrokenArrayTypeQueries } from './array-types.ts'
import { type HookedQueries, isConnectionError } from './statement-hooks.ts'

/**
 * Statements of a replaced pool must end within this time, which is PostgreSQL's limit for them. Only
 * transactions set other limits.
 */
const CLOSE_WITHIN_MS = 10_000

/**
 * The minimum age of a pool without any result before its replacement. While PostgreSQL is
 * unavailable each attempt breaks a connection, and a new pool costs a third of a millisecond.
 */
const RENEW_INTERVAL_MS = 100

/**
 * The minimum age of a pool whose server only reads. The name of the server may point to the new
 * primary soon.
 */
const READ_ONLY_INTERVAL_MS = 1000

/** `read_only_sql_transaction`: a failover has made this server a standby. */
const READ_ONLY = '25006'

interface DriverPool extends HookedQueries {
  readonly queries: postgres.Sql
  readonly mustBeReplaced: () => boolean
  /** Lets a transaction end within this time also if the pool is replaced meanwhile. */
  readonly keepFor: <A>(ms: number, transaction: Promise<A>) => Promise<A>
  /**
   * Closes the pool when its work has ended, and its idle connections now. This happens twice an hour
   * without any fault: a connection that has reached its `max_lifetime` also replaces the pool.
   */
  readonly retire: () => Promise<void>
  /** Awaits statements in progress for this time, then closes all sockets. */
  readonly close: (seconds: number) => Promise<void>
}

ignoreBrokenArrayTypeQueries()

export class RenewedPool {
  readonly #url: string
  readonly #options: postgres.Options<{}>
  readonly #events: WatchEvents
  readonly #watch: ConnectionWatch
  #pool: DriverPool

  constructor(url: string, options: postgres.Options<{}>, events: WatchEvents) {
    this.#url = url
    this.#options = options
    this.#events = events
    // Creating a pool opens no connection. The driver reads the kind of encryption from the URL.
    const { connection, ssl } = postgres(url, options).options
    this.#watch = new ConnectionWatch(url, ssl, connection.application_name ?? '', events)
    this.#pool = this.#open()
  }

  /** The pool for the next statement. */
  current(): DriverPool {
    if (this.#pool.mustBeReplaced()) {
      void this.#pool.retire()
      this.#pool = this.#open()
    }
    return this.#pool
  }

  /** When a connection has received something last; monotonic clock. */
  lastAnswerAt(): number {
    return this.#watch.lastAnswerAt()
  }

  /** Awaits statements in progress for this time, then closes. */
  end(seconds: number): Promise<void> {
    return this.#pool.close(seconds).finally(() => this.#watch.close())
  }

  #open(): DriverPool {
    const openedAt = performance.now()
    const age = () => performance.now() - openedAt
    let isBroken = false
    let isReadOnly = false
    let hasAnswered = false
    /** Transactions that may take longer than statements, with their latest ends. */
    const longTransactions = new Set<{ readonly endsBy: number }>()
    const sockets = this.#watch.group()
    const queries = postgres(this.#url, {
      ...this.#options,
      onclose: () => (isBroken = true),
      // The sockets are encrypted already.
      ssl: false,
      socket: sockets.open,
      // The types of the driver omit the last option.
    } as postgres.Options<{}>)
    const close = (seconds: number) =>
      queries
        .end({ timeout: seconds })
        .catch(() => undefined)
        .finally(sockets.close)
    return {
      queries,
      hooks: {
        refusal: () => null,
        onResult: () => (hasAnswered = true),
        onError: (error) => {
          if (isConnectionError(error)) isBroken = true
          if (!isReadOnly && error instanceof postgres.PostgresError && error.code === READ_ONLY) {
            isReadOnly = true
            this.#events.onReplaced('read_only')
          }
        },
      },
      mustBeReplaced: () =>
        (isBroken && (hasAnswered || age() >= RENEW_INTERVAL_MS)) ||
        (isReadOnly && age() >= READ_ONLY_INTERVAL_MS),
      keepFor: (ms, transaction) => {
        if (ms <= CLOSE_WITHIN_MS) return transaction
        const kept = { endsBy: performance.now() + ms }
        longTransactions.add(kept)
        return transaction.finally(() => longTransactions.delete(kept))
      },
      retire: () => {
        const longest = Math.max(0, ...[...longTransactions].map(({ endsBy }) => endsBy - performance.now()))
        return close(Math.max(CLOSE_WITHIN_MS, longest) / 1000)
      },
      close,
    }
  }
}
