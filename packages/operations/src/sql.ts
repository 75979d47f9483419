/** Statements of use cases. */
import { type Queries, Sql, type StorageError } from '@hub/store'
import { Effect } from 'effect'

/** Runs statements without a transaction. */
export const query = <A>(body: (q: Queries) => Promise<A>): Effect.Effect<A, StorageError, Sql> =>
  Effect.flatMap(Sql, (sql) => sql.run(body))
