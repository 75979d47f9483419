/**
 * Patch: after the connection of a transaction has broken, the driver gets no further statement of
 * it.
 *
 * - postgres 3.4.9: it writes the next statement of the transaction, or its own `ROLLBACK`, to the
 *   closed socket. That write throws outside of any promise.
 * - Why the hub needs more: the exception ends the process, whenever PostgreSQL restarts during a
 *   transaction.
 * - Fails without the patch: `pool.int.test.ts`, "a transaction whose connection breaks > fails
 *   during a statement (reset), and the next one gets a connection".
 * - Unnecessary when: the driver rejects statements of a transaction without a connection.
 */
import type postgres from 'postgres'
import { type HookedQueries, hookedQueries, isConnectionError, type Queries } from './statement-hooks.ts'

/**
 * Runs a transaction: commits when `body` resolves, and rolls back when it rejects. Rejects as soon
 * as the connection breaks. The driver then never learns how `body` ended, so it sends no
 * `ROLLBACK`.
 */
export const runTransaction = <A>(
  { hooks, queries }: HookedQueries & { readonly queries: postgres.Sql },
  body: (queries: Queries) => Promise<A>,
): Promise<A> =>
  new Promise<A>((resolve, reject) => {
    let lost: unknown = null
    const onError = (error: unknown) => {
      hooks.onError(error)
      if (!isConnectionError(error)) return
      lost ??= error
      reject(error)
    }
    queries
      .begin((transaction) => {
        const current = { queries: transaction, hooks: { ...hooks, onError, refusal: () => lost } }
        return new Promise<A>((commit, rollBack) => {
          body(hookedQueries(() => current)).then(
            (answer) => {
              if (lost === null) commit(answer)
            },
            (error: unknown) => {
              if (lost === null) rollBack(error)
            },
          )
        })
      })
      .then(
        (answer) => resolve(answer as A),
        (error: unknown) => {
          onError(error)
          reject(error)
        },
      )
  })
