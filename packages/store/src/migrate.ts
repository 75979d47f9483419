/** Migrations: numbered SQL files, applied once and in order. A checksum detects later edits. */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { Data, Effect } from 'effect'
import { openPool } from './pool.ts'
import { type Queries, Sql, type StorageRejected, type StorageUnavailable, toStorageError } from './sql.ts'

/** The applied migrations do not match the files. Nothing was changed. */
export class MigrationMismatch extends Data.TaggedError('MigrationMismatch')<{ readonly detail: string }> {}

/** The migrations of a database, compared with the files of this version. */
export interface MigrationStatus {
  /** In the order of the files; `at` in milliseconds since the epoch. */
  readonly applied: ReadonlyArray<{ readonly name: string; readonly at: number }>
  /** Files that are not applied. */
  readonly pending: ReadonlyArray<string>
  /** Applied by a newer version of the hub. */
  readonly newer: ReadonlyArray<string>
  /** Mismatches, as sentences. `migrate` fails with any of them, unless all are newer and nothing is pending. */
  readonly problems: ReadonlyArray<string>
}

const FOLDER = new URL('../migrations/', import.meta.url)

/** The key of the advisory lock: any number, the same in every process. */
const LOCK = 4_907_225

const readMigrations = Effect.promise(async () => {
  const names = (await readdir(FOLDER)).filter((name) => /^\d{4}_[a-z_]+\.sql$/u.test(name)).sort()
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(new URL(name, FOLDER), 'utf8')
      return { name, text, checksum: createHash('sha256').update(text).digest('hex') }
    }),
  )
})

interface AppliedMigration {
  readonly name: string
  readonly checksum: string
  readonly applied_at: Date
}

const readApplied = (q: Queries): Promise<ReadonlyArray<AppliedMigration>> =>
  q<AppliedMigration[]>`SELECT name, checksum, applied_at FROM public.hub_migrations ORDER BY name`

/** Compares the applied migrations with the files. */
const compare = (
  migrations: Effect.Success<typeof readMigrations>,
  rows: ReadonlyArray<AppliedMigration>,
): MigrationStatus => {
  const known = new Map(migrations.map(({ checksum, name }) => [name, checksum]))
  const done = new Set(rows.map(({ name }) => name))
  return {
    applied: rows.map(({ applied_at, name }) => ({ name, at: applied_at.getTime() })),
    pending: migrations.map(({ name }) => name).filter((name) => !done.has(name)),
    newer: rows.map(({ name }) => name).filter((name) => !known.has(name)),
    problems: rows.flatMap(({ checksum, name }) => {
      const own = known.get(name)
      if (own === undefined) return [`${name} was applied by a newer version of the hub`]
      return own === checksum ? [] : [`${name} was edited after it was applied`]
    }),
  }
}

/** Reads the status without any change. */
export const migrationStatus: Effect.Effect<MigrationStatus, StorageUnavailable | StorageRejected, Sql> =
  Effect.gen(function* () {
    const sql = yield* Sql
    const migrations = yield* readMigrations
    const rows = yield* sql.run(async (q) => {
      const [table] = await q<
        { exists: boolean }[]
      >`SELECT to_regclass('public.hub_migrations') IS NOT NULL AS exists`
      return table?.exists === true ? readApplied(q) : []
    })
    return compare(migrations, rows)
  })

/**
 * Migrates a database to the schema of this version. Each file is one transaction. Waits for
 * another process that migrates. Safe to repeat. Returns the names of the files that it applied. A newer
 * schema stays as it is, because this version works with it. Only a migration that would have to be applied
 * between those of a newer version is refused.
 */
export const migrate = (
  url: string,
): Effect.Effect<ReadonlyArray<string>, MigrationMismatch | StorageUnavailable | StorageRejected> =>
  Effect.gen(function* () {
    const migrations = yield* readMigrations
    return yield* Effect.acquireUseRelease(
      Effect.sync(() => openPool(url, { max: 1, connect_timeout: 5, onnotice: () => {} })),
      ({ queries: sql, transaction }) =>
        Effect.gen(function* () {
          const query = <A>(run: () => Promise<A>) => Effect.tryPromise({ try: run, catch: toStorageError })
          yield* query(() => sql`SELECT pg_advisory_lock(${LOCK})`)
          yield* query(
            () => sql`CREATE TABLE IF NOT EXISTS public.hub_migrations (
              name text PRIMARY KEY, checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`,
          )
          const { newer, pending, problems } = compare(migrations, yield* query(() => readApplied(sql)))
          const isOnlyNewer = pending.length === 0 && problems.length === newer.length
          if (problems[0] !== undefined && !isOnlyNewer) {
            return yield* new MigrationMismatch({ detail: problems[0] })
          }
          for (const { checksum, name, text } of migrations) {
            if (!pending.includes(name)) continue
            yield* query(() =>
              transaction(async (tx) => {
                await tx.unsafe(text).simple()
                await tx`INSERT INTO public.hub_migrations (name, checksum) VALUES (${name}, ${checksum})`
              }),
            )
          }
          return pending
        }),
      ({ end }) => Effect.promise(() => end(1)),
    )
  })
