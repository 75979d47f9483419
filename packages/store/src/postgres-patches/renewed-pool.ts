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
import { ArrayTypes } from './array-types.ts'
import { type HookedQueries, isConnectionError } from './statement-hooks.ts'

/** Statements of a replaced pool must end within this time. Their own time limit is shorter. */
const CLOSE_WITHIN_SECONDS = 10

/**
 * The minimum age of a pool without any result before its replacement. While PostgreSQL is
 * unavailable each attempt breaks a connection, and a new pool costs a third of a millisecond.
 */
const RENEW_INTERVAL_MS = 100

interface DriverPool extends HookedQueries {
  readonly queries: postgres.Sql
  readonly mustBeReplaced: () => boolean
}

export class RenewedPool {
  readonly #url: string
  readonly #options: postgres.Options<{}>
  readonly #arrayTypes = new ArrayTypes()
  #pool: DriverPool

  constructor(url: string, options: postgres.Options<{}>) {
    this.#url = url
    this.#options = options
    this.#pool = this.#open()
  }

  /** The pool for the next statement. */
  current(): DriverPool {
    if (this.#pool.mustBeReplaced()) {
      void this.#pool.queries.end({ timeout: CLOSE_WITHIN_SECONDS }).catch(() => undefined)
      this.#pool = this.#open()
    }
    return this.#pool
  }

  /** Awaits statements in progress for this time, then closes. */
  end(seconds: number): Promise<void> {
    return this.#pool.queries.end({ timeout: seconds })
  }

  #open(): DriverPool {
    const openedAt = performance.now()
    let isBroken = false
    let hasAnswered = false
    const queries = postgres(this.#url, { ...this.#options, onclose: () => (isBroken = true) })
    this.#arrayTypes.applyTo(queries)
    return {
      queries,
      hooks: {
        refusal: () => null,
        onResult: () => {
          this.#arrayTypes.learnFrom(queries)
          hasAnswered = true
        },
        onError: (error) => {
          if (isConnectionError(error)) isBroken = true
        },
      },
      mustBeReplaced: () => isBroken && (hasAnswered || performance.now() >= openedAt + RENEW_INTERVAL_MS),
    }
  }
}
