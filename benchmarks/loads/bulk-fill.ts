/** What makes it fast to fill tables of PostgreSQL with millions of rows. */
import postgres from 'postgres'

/** For statements with many rows. Two of them run at once, one on each core. */
export const bulkConnection = (databaseUrl: string): postgres.Sql =>
  postgres(databaseUrl, {
    max: 3,
    onnotice: () => {},
    connection: {
      application_name: 'bench',
      maintenance_work_mem: '2GB',
      max_parallel_maintenance_workers: 0,
      synchronous_commit: false,
    },
  })

/** While the tables are filled: few checkpoints, and no vacuum that begins by itself. */
const SETTINGS = { max_wal_size: '4GB', checkpoint_timeout: '1h', autovacuum: 'off' }

/**
 * Runs `fill` with the settings of the server for it. Afterwards all rows are in the files of the tables,
 * so that no later measurement writes them.
 */
export const withBulkSettings = async <A>(sql: postgres.Sql, fill: () => Promise<A>): Promise<A> => {
  for (const [name, value] of Object.entries(SETTINGS)) {
    await sql.unsafe(`ALTER SYSTEM SET ${name} = '${value}'`)
  }
  await sql`SELECT pg_reload_conf()`
  try {
    const filled = await fill()
    await sql`CHECKPOINT`
    return filled
  } finally {
    for (const name of Object.keys(SETTINGS)) await sql.unsafe(`ALTER SYSTEM RESET ${name}`)
    await sql`SELECT pg_reload_conf()`
  }
}

interface IndexOfTable {
  /** With its schema. */
  readonly index: string
  readonly definition: string
  /** The primary key or unique constraint to which it belongs. */
  readonly constraint: string | null
  readonly constraintDefinition: string | null
}

/**
 * Runs `fill` while a table (`schema.name`) has no indexes and no keys. Before they are created again, as
 * they were, its rows are vacuumed. The table may have partitions.
 */
export const withoutIndexes = async (
  sql: postgres.Sql,
  table: string,
  fill: () => Promise<unknown>,
): Promise<void> => {
  const indexes = await sql<Array<IndexOfTable>>`
    SELECT i.indexrelid::regclass::text AS index, pg_get_indexdef(i.indexrelid) AS definition,
           quote_ident(c.conname) AS constraint, pg_get_constraintdef(c.oid) AS "constraintDefinition"
      FROM pg_index i LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.contype IN ('p', 'u')
     WHERE i.indrelid = ${table}::regclass`
  await sql.begin(async (q) => {
    for (const { constraint, index } of indexes) {
      await q.unsafe(
        constraint === null ? `DROP INDEX ${index}` : `ALTER TABLE ${table} DROP CONSTRAINT ${constraint}`,
      )
    }
  })
  await fill()
  await sql.unsafe(`VACUUM (ANALYZE) ${table}`)
  for (const { constraint, constraintDefinition, definition } of indexes) {
    await sql.unsafe(
      constraint === null
        ? // The definition of an index of a partitioned table leaves out its partitions.
          definition.replace(' ON ONLY ', ' ON ')
        : `ALTER TABLE ${table} ADD CONSTRAINT ${constraint} ${constraintDefinition}`,
    )
  }
}
