/**
 * Patch: a connection that breaks during the driver's query for the types of arrays ends no process.
 *
 * - postgres 3.4.9: each new connection queries these types before its first statement, and no code
 *   awaits the result. If the connection breaks during that query, the rejection is unhandled.
 * - Why the hub needs more: the unhandled rejection ends the process. The setting `fetch_types: false`
 *   is not sufficient: the hub reads and writes arrays, and the type numbers of its enumerations differ
 *   between databases.
 * - Fails without the patch: `pool.int.test.ts`, "a connection that breaks > fails only its callers
 *   if it breaks while it is opened" (an unhandled rejection).
 * - Unnecessary when: the driver handles a failure of its query for array types.
 *
 * Not patched: postgres 3.4.9 reads a NULL inside an array as the text `NULL`. So no statement may
 * return an array that contains one. The columns with arrays contain none, and `array_agg` is used
 * only with columns that are NOT NULL.
 */
import postgres from 'postgres'
import { isConnectionError } from './statement-hooks.ts'

/** The fields and methods of the driver's statements that its types omit. */
interface Statement {
  /** The text of the statement, split at its parameters. */
  readonly strings: ReadonlyArray<string>
  then: (onResult?: (result: unknown) => unknown, onError?: (error: unknown) => unknown) => Promise<unknown>
}

/** The start of the driver's own query. */
const ARRAY_TYPES_QUERY = /^\s+select b\.oid, b\.typarray\s/u

/** PostgreSQL closes the connection after such an error. */
const endsConnection = (error: unknown): boolean =>
  error instanceof postgres.PostgresError && (error.severity === 'FATAL' || error.severity === 'PANIC')

/**
 * Patches the statements of all pools of this process. The callers whose statements wait for the broken
 * connection get its error, and the next connection queries the types again. Any other failure stays
 * unhandled and ends the process: the connection would go on, and return arrays as text.
 */
export const ignoreBrokenArrayTypeQueries = (): void => {
  // This statement is never sent, and its pool never opens a connection.
  const prototype = Object.getPrototypeOf(postgres()``) as Statement
  const { then } = prototype
  // oxlint-disable-next-line unicorn/no-thenable -- it replaces a method that a promise has.
  prototype.then = function (this: Statement, onResult, onError) {
    if (!ARRAY_TYPES_QUERY.test(this.strings[0] ?? '')) return then.call(this, onResult, onError)
    return then.call(this, onResult, (error) =>
      isConnectionError(error) || endsConnection(error) ? onResult?.([]) : onError?.(error),
    )
  }
}
