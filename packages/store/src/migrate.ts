/**
 * Migrations: numbered SQL files, applied once each, in order, under an advisory lock, with a checksum so that
 * an applied file that was edited is noticed.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { Data, Effect } from 'effect'
import { openPool } from './pool.ts'
import { Sql, StorageRejected, StorageUnavailable, toStorageError } from './sql.ts'

/** The database and the files tell different stories; nothing was changed. */
export class MigrationMismatch extends Data.TaggedError('MigrationMismatch')<{ readonly detail: string }> {}

/** What a database has of the schema of this version. */
export interface MigrationStatus {
  /** In the order of the files; `at`: milliseconds since the epoch. */
  readonly applied: ReadonlyArray<{ readonly name: string; readonly at: number }>
  /** Files that are not applied yet. */
  readonly pending: ReadonlyArray<string>
  /** Applied by a newer version of the hub. */
  readonly newer: ReadonlyArray<string>
  /** Sentences about what does not fit together: then `migrate` refuses. */
  readonly problems: ReadonlyArray<string>
}

/** Migration files live beside the code that needs them. */
const FOLDER = new URL('../migrations/', import.meta.url)

/** Any number, the same for every process that migrates a hub. */
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

const editedAfterwards = (name: string): string => `${name} was edited after it was applied`
const fromNewer = (name: string): string => `${name} was applied by a newer version of the hub`

/** Looks, and changes nothing. */
export const migrationStatus: Effect.Effect<MigrationStatus, StorageUnavailable | StorageRejected, Sql> =
  Effect.gen(function* () {
    const sql = yield* Sql
    const migrations = yield* readMigrations
    const rows = yield* sql.run(async (q) => {
      const [table] = await q<
        { there: boolean }[]
      >`SELECT to_regclass('public.hub_migrations') IS NOT NULL AS there`
      return table?.there === true
        ? q<{ name: string; checksum: string; applied_at: Date }[]>`
            SELECT name, checksum, applied_at FROM public.hub_migrations ORDER BY name`
        : []
    })
    const known = new Map(migrations.map(({ checksum, name }) => [name, checksum]))
    const done = new Set(rows.map(({ name }) => name))
    return {
      applied: rows.map(({ applied_at, name }) => ({ name, at: applied_at.getTime() })),
      pending: migrations.map(({ name }) => name).filter((name) => !done.has(name)),
      newer: rows.map(({ name }) => name).filter((name) => !known.has(name)),
      problems: rows.flatMap(({ checksum, name }) => {
        const own = known.get(name)
        if (own === undefined) return [fromNewer(name)]
        return own === checksum ? [] : [editedAfterwards(name)]
      }),
    }
  })

/**
 * Brings a database up to the schema of this version. Each file is one transaction. Waits for another process
 * that migrates; safe to repeat. Succeeds with the names of the files applied now.
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
          const rows = yield* query(
            () => sql<{ name: string; checksum: string }[]>`SELECT name, checksum FROM public.hub_migrations`,
          )
          const applied = new Map(rows.map((row) => [row.name, row.checksum]))
          const known = new Set(migrations.map((migration) => migration.name))
          for (const name of applied.keys()) {
            if (!known.has(name)) {
              return yield* new MigrationMismatch({ detail: fromNewer(name) })
            }
          }
          const done: Array<string> = []
          for (const { checksum, name, text } of migrations) {
            const before = applied.get(name)
            if (before !== undefined && before !== checksum) {
              return yield* new MigrationMismatch({ detail: editedAfterwards(name) })
            }
            if (before !== undefined) continue
            yield* query(() =>
              transaction(async (tx) => {
                await tx.unsafe(text).simple()
                await tx`INSERT INTO public.hub_migrations (name, checksum) VALUES (${name}, ${checksum})`
              }),
            )
            done.push(name)
          }
          return done
        }),
      ({ end }) => Effect.promise(() => end(1)),
    )
  })
