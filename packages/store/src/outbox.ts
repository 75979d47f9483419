/**
 * Publishing from a transaction. Rows of a table describe what is still to be published to Kafka. They are
 * deleted after Kafka has acknowledged all of its records. After a crash in between they are published again,
 * and readers drop the repeated records by id.
 */
import { Duration, Effect } from 'effect'
import { type Queries, Sql, type StorageError } from './sql.ts'

/**
 * PostgreSQL ends a transaction that waits for 10 s. A transaction that misses its deadline is rolled
 * back after the append, which is then repeated: with slow servers, it must not be short.
 */
const DEADLINE = { deadline: Duration.seconds(9) }

/** What a transaction publishes. */
interface Taken<A> {
  readonly content: A
  readonly count: number
  /** Removes it from the table. */
  readonly done: () => Promise<unknown>
}

/**
 * Publishes what `take` finds, and then calls `done`, in one transaction: after a failure of `publish`
 * nothing has changed. An advisory lock lets one process at a time do this for a table, so that the order
 * holds with any number of replicas. Returns the count of `take`: 0 while another process has the lock.
 *
 * `publish` must fail if Kafka has not acknowledged every record.
 */
export const publishInTransaction = <A, E, R>(
  table: string,
  take: (q: Queries) => Promise<Taken<A> | null>,
  publish: (content: A) => Effect.Effect<void, E, R>,
): Effect.Effect<number, StorageError | E, Sql | R> =>
  Effect.gen(function* () {
    const sql = yield* Sql
    const context = yield* Effect.context<R>()
    // A failure of `publish`, separate from the failures of PostgreSQL.
    let publishFailure: { readonly exit: Effect.Effect<never, E> } | null = null
    const published = sql.transaction(async (q) => {
      const [lock] = await q<
        { taken: boolean }[]
      >`SELECT pg_try_advisory_xact_lock(hashtext(${table})) AS taken`
      const taken = lock?.taken === true ? await take(q) : null
      if (taken === null) return 0
      const exit = await Effect.runPromiseExitWith(context)(publish(taken.content))
      if (exit._tag === 'Failure') {
        publishFailure = { exit: Effect.failCause(exit.cause) }
        return 0
      }
      await taken.done()
      return taken.count
    }, DEADLINE)
    const count = yield* published
    if (publishFailure !== null)
      return yield* (publishFailure as { readonly exit: Effect.Effect<never, E> }).exit
    return count
  })

/** The rows that wait in a table. */
interface WaitingRows {
  /** What the rows contain. */
  readonly content: 'accepted messages' | 'events' | 'events to be written' | 'outcomes'
  readonly rows: number
  /** Age of the oldest row, milliseconds; `null` without rows. */
  readonly ageMs: number | null
}

/** The rows that wait in the two outboxes, in the event inbox, and for the topic of outcomes. */
export const readWaitingRows = async (q: Queries): Promise<ReadonlyArray<WaitingRows>> => {
  const waiting = (content: WaitingRows['content'], table: string) => q`
    SELECT ${content}::text AS content, count(*)::float8 AS rows,
           (extract(epoch FROM now() - min(created_at)) * 1000)::float8 AS "ageMs" FROM ${q(table)}`
  // What a rebuild repeats may take hours, and delays nothing else.
  return q<WaitingRows[]>`
    ${waiting('accepted messages', 'command.outbox')} UNION ALL ${waiting('events', 'read.event_outbox')}
    UNION ALL ${waiting('events to be written', 'command.event_inbox')}
    UNION ALL ${waiting('outcomes', 'read.outcomes_due')} WHERE message_ids IS NOT NULL`
}
