/** An outbox table in PostgreSQL: the adapter of `store.port.ts`. */
import { publishInTransaction, Sql } from '@hub/store'
import { Effect, Layer } from 'effect'
import { decodeRow, deleteOutboxRows, type OutboxTable } from './rows.ts'
import { OutboxStore, type OutboxStatus, type OutboxStoreShape } from './store.port.ts'

/** Rows of one step of the relay. */
const ROWS_PER_STEP = 50
/**
 * Bytes of one step, some thousands of records: it ends well within the deadline of its
 * transaction.
 */
const BYTES_PER_STEP = 2 * 1024 * 1024

const makePostgresStore = (table: OutboxTable) =>
  Effect.gen(function* () {
    const sql = yield* Sql
    return {
      relay: ({ olderThanMs, upTo }, publish) =>
        publishInTransaction(
          table,
          async (q) => {
            const rows = await q<{ id: string; records: Buffer }[]>`
              SELECT id, records FROM (
                SELECT id, records, sum(length(records)) OVER (ORDER BY id) - length(records) AS before FROM (
                  SELECT id, records FROM ${q(table)}
                   WHERE id <= ${String(upTo)}::bigint
                      OR created_at <= now() - make_interval(secs => ${olderThanMs / 1000})
                   ORDER BY id LIMIT ${ROWS_PER_STEP}) AS oldest) AS sized
               WHERE before < ${BYTES_PER_STEP} ORDER BY id`
            if (rows.length === 0) return null
            return {
              content: rows.map(({ records }) => records),
              count: rows.length,
              done: () =>
                deleteOutboxRows(
                  q,
                  table,
                  rows.map(({ id }) => Number(id)),
                ),
            }
          },
          // A row that cannot be decoded stays, and is noticed.
          (rows) =>
            Effect.flatMap(
              Effect.orDie(Effect.forEach(rows, (row) => Effect.fromResult(decodeRow(row)))),
              (records) => publish(records.flat()),
            ),
        ).pipe(Effect.provideService(Sql, sql)),

      status: (upTo) =>
        Effect.map(
          sql.run(
            (q) => q<OutboxStatus[]>`
              SELECT count(*)::integer AS rows,
                     coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS "ageSeconds",
                     coalesce(max(id), 0)::float8 AS highest,
                     (count(*) FILTER (WHERE id <= ${String(upTo)}::bigint))::integer AS "rowsUpTo"
                FROM ${q(table)}`,
          ),
          // An aggregate has one row.
          ([status]) => status!,
        ),

      remove: (rows) => Effect.asVoid(sql.run((q) => deleteOutboxRows(q, table, rows))),
    } satisfies OutboxStoreShape
  })

export const layerPostgresStore = (table: OutboxTable): Layer.Layer<OutboxStore, never, Sql> =>
  Layer.effect(OutboxStore, makePostgresStore(table))
