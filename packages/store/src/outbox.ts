/**
 * The transactional outbox: encoded records are stored in the transaction that they report and published
 * afterwards. A row goes only when Kafka has acknowledged all of it, so a crash between the two publishes it a
 * second time; readers drop by id.
 */
import { Effect } from 'effect'
import { Sql, type StorageError } from './sql.ts'

export type OutboxTable = 'command.outbox' | 'read.event_outbox'

/** Rows published in one go. */
const ROWS_A_TURN = 50

/**
 * Bytes of a turn, after which no further row is taken: some thousands of records, so that a turn ends well
 * within the deadline of its transaction whatever the rows hold.
 */
const BYTES_A_TURN = 2 * 1024 * 1024

/**
 * Publishes the oldest waiting rows in order and deletes them. One process at a time does this for a table (an
 * advisory lock for the length of the turn), so that order is kept whatever the number of replicas. Answers the
 * number of rows published: fewer than waited when another process has the turn or `publish` failed half-way.
 *
 * `publish` gets the rows in order and must fail when any record of them was not acknowledged; then all of them
 * stay. `olderThanMs` leaves younger rows to whoever wrote them and is publishing them now.
 */
export const relayOutbox = <E, R>(
  table: OutboxTable,
  publish: (rows: ReadonlyArray<Uint8Array>) => Effect.Effect<void, E, R>,
  options?: { readonly olderThanMs?: number },
): Effect.Effect<number, StorageError | E, Sql | R> =>
  Effect.gen(function* () {
    const sql = yield* Sql
    const context = yield* Effect.context<R>()
    // The failure of `publish` rolls the transaction back, and is told apart from the database's own.
    let refused: { readonly exit: Effect.Effect<never, E> } | null = null
    const published = sql.transaction(async (q) => {
      const [turn] = await q<
        { taken: boolean }[]
      >`SELECT pg_try_advisory_xact_lock(hashtext(${table})) AS taken`
      if (turn?.taken !== true) return 0
      const rows = await q<{ id: string; records: Buffer }[]>`
        SELECT id, records FROM (
          SELECT id, records, sum(length(records)) OVER (ORDER BY id) - length(records) AS before FROM (
            SELECT id, records FROM ${q(table)}
             WHERE created_at <= now() - make_interval(secs => ${(options?.olderThanMs ?? 0) / 1000})
             ORDER BY id LIMIT ${ROWS_A_TURN}) AS oldest) AS sized
         WHERE before < ${BYTES_A_TURN} ORDER BY id`
      if (rows.length === 0) return 0
      const exit = await Effect.runPromiseExitWith(context)(publish(rows.map((row) => row.records)))
      if (exit._tag === 'Failure') {
        refused = { exit: Effect.failCause(exit.cause) }
        return 0
      }
      await q`DELETE FROM ${q(table)} WHERE id IN ${q(rows.map((row) => row.id))}`
      return rows.length
    })
    const count = yield* published
    if (refused !== null) return yield* (refused as { readonly exit: Effect.Effect<never, E> }).exit
    return count
  })

/** Number of rows that wait. */
export const countOutboxRows = (table: OutboxTable): Effect.Effect<number, StorageError, Sql> =>
  Effect.flatMap(Sql, (sql) =>
    sql.run(async (q) => {
      const [row] = await q<{ waiting: number }[]>`SELECT count(*)::integer AS waiting FROM ${q(table)}`
      return row?.waiting ?? 0
    }),
  )
