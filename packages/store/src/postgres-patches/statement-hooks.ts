/**
 * Hooks into the statements of the driver `postgres` 3.4.9, which the patches in this folder share.
 * The hooks use fields that the driver does not document. Its version is pinned, and
 * `pool.int.test.ts` fails when these fields change.
 */
import postgres from 'postgres'
import { completeRows } from './complete-rows.ts'

/** A query interface inside or outside of a transaction. */
export type Queries = postgres.ISql<{}>

/** The fields of the driver's statements that its types omit. */
interface Statement extends Promise<unknown> {
  /** Passes the statement to a connection. */
  handler: (statement: Statement) => unknown
  resolve: (result: unknown) => void
  reject: (error: unknown) => void
}

export interface StatementHooks {
  /** The error with which a statement fails before it is sent, or `null` to send it. */
  readonly refusal: () => unknown
  readonly onResult: () => void
  readonly onError: (error: unknown) => void
}

export interface HookedQueries {
  readonly queries: Queries
  readonly hooks: StatementHooks
}

/** Whether the error code is one of the driver or of the operating system, not of PostgreSQL. */
export const isConnectionError = (error: unknown): boolean =>
  error instanceof Error &&
  !(error instanceof postgres.PostgresError) &&
  'code' in error &&
  typeof error.code === 'string' &&
  /^(?:CONNECT|E)[A-Z_]+$/u.test(error.code)

const hookInto = (statement: Statement, { onError, onResult, refusal }: StatementHooks): void => {
  const { handler, reject, resolve } = statement
  statement.handler = (sent) => {
    const refused = refusal()
    return refused === null ? handler(sent) : sent.reject(refused)
  }
  statement.resolve = (result) => {
    onResult()
    resolve(completeRows(result))
  }
  statement.reject = (error) => {
    onError(error)
    reject(error)
  }
}

/** A query interface whose statements go to the current queries, with their hooks. */
export const hookedQueries = (current: () => HookedQueries): Queries => {
  const create = (method: 'unsafe' | null, args: ReadonlyArray<unknown>): unknown => {
    const { hooks, queries } = current()
    const created: unknown = Reflect.apply(
      (method === null ? queries : queries[method]) as never,
      undefined,
      args,
    )
    // Identifiers and lists are no promises. Fragments are, but they are never sent.
    if (created instanceof Promise) hookInto(created as Statement, hooks)
    return created
  }
  return new Proxy(current().queries, {
    apply: (_queries, _this, args) => create(null, args),
    get: (_queries, name) =>
      name === 'unsafe'
        ? (...args: ReadonlyArray<unknown>) => create(name, args)
        : Reflect.get(current().queries, name),
  })
}
