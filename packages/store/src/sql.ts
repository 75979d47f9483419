/**
 * PostgreSQL, as the rest of the hub knows it: a pool, a statement, a transaction, and two kinds of failure.
 */
import { settings } from '@hub/config'
import { type Config, Context, Data, Duration, Effect, Layer, Redacted, Schedule } from 'effect'
import { openPool, type Queries } from './pool.ts'

export type { Queries } from './pool.ts'

/** A part of a statement, made with the same tag as the statement. */
export type SqlFragment = ReturnType<Queries>

/**
 * PostgreSQL cannot be reached, does not answer in time, or is shutting down. Retryable. After a *timeout* of a
 * transaction its outcome is unknown: it may have committed.
 */
export class StorageUnavailable extends Data.TaggedError('StorageUnavailable')<{
  readonly reason: 'unreachable' | 'timeout' | 'conflict' | 'failed'
  /** SQLSTATE or a driver code; never data. */
  readonly detail: string
}> {}

/**
 * PostgreSQL refuses this data (SQLSTATE class 22, 23 or 54). A retry of the same will be refused again.
 */
export class StorageRejected extends Data.TaggedError('StorageRejected')<{
  /** SQLSTATE. */
  readonly code: string
  /** Name of the constraint, when one was violated. */
  readonly constraint: string | null
}> {}

export type StorageError = StorageUnavailable | StorageRejected

/** Deadlocks and serialization failures: the transaction is undone and may simply be tried again. */
const CONFLICTS = new Set(['40001', '40P01', '55P03'])

const field = (error: unknown, name: string): string | null => {
  if (typeof error !== 'object' || error === null || !(name in error)) return null
  const value = (error as Record<string, unknown>)[name]
  return typeof value === 'string' ? value : null
}

/** Classifies a driver error. Only codes are kept: messages of PostgreSQL quote the data. */
export const toStorageError = (error: unknown): StorageError => {
  const code = field(error, 'code') ?? 'unknown'
  if (/^[0-9A-Z]{5}$/u.test(code)) {
    if (CONFLICTS.has(code)) return new StorageUnavailable({ reason: 'conflict', detail: code })
    if (code === '57014') return new StorageUnavailable({ reason: 'timeout', detail: code })
    // 54: a limit of PostgreSQL that this data exceeds, such as the size of an index entry.
    if (code.startsWith('22') || code.startsWith('23') || code.startsWith('54')) {
      return new StorageRejected({ code, constraint: field(error, 'constraint_name') })
    }
    if (code.startsWith('08') || code.startsWith('57') || code.startsWith('53')) {
      return new StorageUnavailable({ reason: 'unreachable', detail: code })
    }
    return new StorageUnavailable({ reason: 'failed', detail: code })
  }
  return new StorageUnavailable({
    reason: code === 'CONNECT_TIMEOUT' ? 'timeout' : code === 'unknown' ? 'failed' : 'unreachable',
    detail: code,
  })
}

/** A transaction that met a deadlock is tried at most so often in all; three losers in a row mean real contention. */
const CONFLICT_TRIES = 3

/** Every wait has a bound: what a caller does not set ends here. The contract gives clients 3 s in all. */
const DEFAULT_DEADLINE = Duration.millis(2500)

export interface SqlOptions {
  readonly deadline?: Duration.Input
}

export interface SqlShape {
  /** One or more statements without a transaction. */
  readonly run: <A>(
    body: (sql: Queries) => Promise<A>,
    options?: SqlOptions,
  ) => Effect.Effect<A, StorageError>
  /** A transaction: committed when `body` resolves, rolled back when it rejects; tried again after a deadlock. */
  readonly transaction: <A>(
    body: (sql: Queries) => Promise<A>,
    options?: SqlOptions,
  ) => Effect.Effect<A, StorageError>
}

/** Opens a pool on a URL. `max` connections; closed with the scope. */
export const makeSql = (url: Redacted.Redacted<string>, max: number, name: string) =>
  Effect.gen(function* () {
    const pool = yield* Effect.acquireRelease(
      Effect.sync(() =>
        openPool(Redacted.value(url), {
          max,
          // A dead server is noticed by the next caller, within the time a client is promised an answer.
          connect_timeout: 2,
          // Connections are renewed so that a failover or a changed address is followed.
          max_lifetime: 30 * 60,
          onnotice: () => {},
          connection: {
            application_name: name,
            // The server gives up as well, so that an abandoned statement holds no lock.
            statement_timeout: 10_000,
            idle_in_transaction_session_timeout: 10_000,
            // docs/decisions/0009: rows are looked up by key, thousands at a time, in partitioned tables.
            plan_cache_mode: 'force_generic_plan',
            enable_seqscan: false,
          },
        }),
      ),
      // One second for what is under way, then sockets are closed.
      (pool) => Effect.promise(() => pool.end(1).catch(() => undefined)),
    )

    // A timer and no fibers: this is around every statement of the hub.
    const bounded = <A>(promise: () => Promise<A>, options: SqlOptions | undefined) =>
      Effect.callback<A, StorageError>((resume) => {
        const timer = setTimeout(
          () => resume(Effect.fail(new StorageUnavailable({ reason: 'timeout', detail: 'deadline' }))),
          Duration.toMillis(options?.deadline ?? DEFAULT_DEADLINE),
        )
        const ended = (result: Effect.Effect<A, StorageError>) => {
          clearTimeout(timer)
          resume(result)
        }
        Promise.try(promise).then(
          (answer) => ended(Effect.succeed(answer)),
          (error: unknown) => ended(Effect.fail(toStorageError(error))),
        )
        return Effect.sync(() => clearTimeout(timer))
      })

    const sql: SqlShape = {
      run: (body, options) => bounded(() => body(pool.queries), options),
      transaction: (body, options) =>
        bounded(() => pool.transaction(body), options).pipe(
          Effect.retry({
            while: (error) => error._tag === 'StorageUnavailable' && error.reason === 'conflict',
            times: CONFLICT_TRIES - 1,
            schedule: Schedule.jittered(Schedule.exponential('10 millis')),
          }),
        ),
    }
    return sql
  })

/** The hub's database. Settings: `databaseUrl`, `databasePool`. */
export class Sql extends Context.Service<Sql, SqlShape>()('@hub/store/Sql') {
  /**
   * `app` becomes the application name that PostgreSQL shows. `most`: connections that the app has a use for, where that is fewer than it
   * may open. Statements go round over all of them, each with plans and caches of its own.
   */
  static readonly layer = (
    app: string,
    most = Number.POSITIVE_INFINITY,
  ): Layer.Layer<Sql, Config.ConfigError> =>
    Layer.effect(
      Sql,
      Effect.gen(function* () {
        const url = yield* settings.databaseUrl.config
        const max = yield* settings.databasePool.config
        return yield* makeSql(url, Math.min(max, most), app)
      }),
    )
}
