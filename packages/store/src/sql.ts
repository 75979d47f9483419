/** Access to PostgreSQL: statements and transactions with deadlines, and two kinds of failure. */
import { settings } from '@hub/config'
import { type Config, Context, Data, Duration, Effect, Layer, Redacted, Schedule } from 'effect'
import { replaced } from './connections/metrics.ts'
import { openPool, type Queries } from './pool.ts'

export type { Queries } from './pool.ts'

/** A part of a statement, made with the same tag as the statement. */
export type SqlFragment = ReturnType<Queries>

/** The first row of a statement, or `null`. */
export const firstRow = async <Row>(rows: PromiseLike<ReadonlyArray<Row>>): Promise<Row | null> =>
  (await rows)[0] ?? null

/**
 * The list of a SELECT: one column or expression for each field of a row type. A field without one, and one without
 * a field, are type errors. A text is the name of a column, such as `m.id`. Write it directly after `SELECT`,
 * because the driver reads the word before it.
 */
export const selectList = <Row>(
  q: Queries,
  columns: { readonly [Name in keyof Row]-?: string | SqlFragment },
): SqlFragment =>
  q(
    Object.fromEntries(
      Object.entries<string | SqlFragment>(columns).map(([name, column]) => [
        name,
        typeof column === 'string' ? q(column) : column,
      ]),
    ) as never,
  ) as unknown as SqlFragment

/** An expression: a timestamp column, in milliseconds since the epoch. */
export const epochMs = (q: Queries, column: string): SqlFragment =>
  q`floor(extract(epoch FROM ${q(column)}) * 1000)::float8`

/**
 * PostgreSQL, Kafka for the payload keys, or the transit engine of the master key is unavailable or too slow.
 * Retryable. A transaction that timed out may have committed.
 */
export class StorageUnavailable extends Data.TaggedError('StorageUnavailable')<{
  readonly reason: 'unreachable' | 'timeout' | 'conflict' | 'failed'
  /** SQLSTATE, a code of the driver, or one of the transit engine, and never data. */
  readonly detail: string
}> {
  override readonly message = `${this.reason}: ${this.detail}`
}

/** PostgreSQL rejects the data (SQLSTATE class 22, 23 or 54). A retry fails again. */
export class StorageRejected extends Data.TaggedError('StorageRejected')<{
  /** SQLSTATE. */
  readonly code: string
  /** The name of the violated constraint, if any. */
  readonly constraint: string | null
}> {
  override readonly message = `${this.code}${this.constraint === null ? '' : `: ${this.constraint}`}`
}

export type StorageError = StorageUnavailable | StorageRejected

/** Deadlocks, serialization failures, lock timeouts: a retry may succeed. */
const CONFLICTS = new Set(['40001', '40P01', '55P03'])

const field = (error: unknown, name: string): string | null => {
  if (typeof error !== 'object' || error === null || !(name in error)) return null
  const value = (error as Record<string, unknown>)[name]
  return typeof value === 'string' ? value : null
}

/** Classifies an error of the driver. Keeps only codes: PostgreSQL's messages quote data. */
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

/** Attempts of a transaction after conflicts. Three conflicts in a row mean real contention. */
const CONFLICT_TRIES = 3

/** The deadline of a call that sets none. The contract promises clients an answer within 3 s. */
const DEFAULT_DEADLINE = Duration.millis(2500)

/** PostgreSQL gives up a statement too, so that an abandoned one releases its locks. */
const STATEMENT_TIMEOUT = Duration.seconds(10)

/** The deadline of calls whose result a person awaits: the longest that PostgreSQL executes a statement. */
export const DEADLINE_OF_STAFF: Duration.Duration = STATEMENT_TIMEOUT

/** Below the time limit of a readiness check, and above a slow round trip. */
const ANSWER_DEADLINE = { deadline: Duration.millis(1500) }

const missedDeadline = new StorageUnavailable({ reason: 'timeout', detail: 'deadline' })

interface BoundedCall {
  readonly withinMs: number
  missedDeadline: boolean
}

/**
 * Rejects a transaction body whose caller has been told that the deadline was missed. The
 * transaction rolls back then, unless its `COMMIT` was sent before the deadline.
 */
const commitInTime =
  <A>(body: (sql: Queries) => Promise<A>, call: BoundedCall) =>
  async (sql: Queries): Promise<A> => {
    if (call.missedDeadline) throw missedDeadline
    const answer = await body(sql)
    if (call.missedDeadline) throw missedDeadline
    return answer
  }

interface SqlOptions {
  readonly deadline?: Duration.Input
}

export interface SqlShape {
  /** One or more statements without a transaction. */
  readonly run: <A>(
    body: (sql: Queries) => Promise<A>,
    options?: SqlOptions,
  ) => Effect.Effect<A, StorageError>
  /**
   * Commits when `body` resolves before the deadline, otherwise rolls back. Retries after a
   * conflict.
   */
  readonly transaction: <A>(
    body: (sql: Queries) => Promise<A>,
    options?: SqlOptions,
  ) => Effect.Effect<A, StorageError>
  /** Whether PostgreSQL answers now. For readiness: it takes less than two seconds. */
  readonly answers: Effect.Effect<boolean>
}

/** Opens a pool of at most `max` connections, and closes it with the scope. */
export const makeSql = (
  url: Redacted.Redacted<string>,
  max: number,
  name: string,
  defaultDeadline: Duration.Duration = DEFAULT_DEADLINE,
) =>
  Effect.gen(function* () {
    const fork = Effect.runForkWith(yield* Effect.context<never>())
    const pool = yield* Effect.acquireRelease(
      Effect.sync(() =>
        openPool(
          Redacted.value(url),
          {
            max,
            // Callers have their own, shorter deadlines. Over a slow network, encryption and login take
            // up to seven round trips, and a connection that is given up replaces the whole pool.
            connect_timeout: 4,
            // New connections follow a failover or a changed address.
            max_lifetime: 30 * 60,
            onnotice: () => {},
            connection: {
              application_name: name,
              statement_timeout: Duration.toMillis(STATEMENT_TIMEOUT),
              idle_in_transaction_session_timeout: 10_000,
              // PostgreSQL also ends the session of a process that has vanished.
              tcp_user_timeout: 5000,
              tcp_keepalives_idle: 5,
              tcp_keepalives_interval: 1,
              tcp_keepalives_count: 5,
              // Look-ups by thousands of keys in partitioned tables: docs/decisions/queries.md#plans.
              plan_cache_mode: 'force_generic_plan',
              enable_seqscan: false,
            },
          },
          {
            onReplaced: (reason) => {
              replaced.add({ reason })
              // A closed connection fails its callers, who report it.
              if (reason === 'closed') return
              fork(
                Effect.logWarning('store: a connection to PostgreSQL was dead; it is replaced').pipe(
                  Effect.annotateLogs({ reason }),
                ),
              )
            },
            onPooler: () => {
              fork(
                Effect.logWarning(
                  'store: a pooler is between the hub and PostgreSQL; dead connections are not detected',
                ),
              )
            },
          },
        ),
      ),
      // Waits one second for statements in progress, then closes the sockets.
      (pool) => Effect.promise(() => pool.end(1).catch(() => undefined)),
    )

    // A timer instead of fibers, because every statement of the hub passes here.
    const bounded = <A>(promise: (call: BoundedCall) => Promise<A>, options: SqlOptions | undefined) =>
      Effect.callback<A, StorageError>((resume) => {
        const withinMs = Duration.toMillis(options?.deadline ?? defaultDeadline)
        const call: BoundedCall = { withinMs, missedDeadline: false }
        const timer = setTimeout(() => {
          call.missedDeadline = true
          resume(Effect.fail(missedDeadline))
        }, withinMs)
        const finish = (result: Effect.Effect<A, StorageError>) => {
          clearTimeout(timer)
          resume(result)
        }
        Promise.try(promise, call).then(
          (answer) => finish(Effect.succeed(answer)),
          (error: unknown) => finish(Effect.fail(toStorageError(error))),
        )
        return Effect.sync(() => clearTimeout(timer))
      })

    const sql: SqlShape = {
      run: (body, options) => bounded(() => body(pool.queries), options),
      transaction: (body, options) =>
        bounded((call) => pool.transaction(commitInTime(body, call), call.withinMs), options).pipe(
          Effect.retry({
            while: (error) => error._tag === 'StorageUnavailable' && error.reason === 'conflict',
            times: CONFLICT_TRIES - 1,
            schedule: Schedule.jittered(Schedule.exponential('10 millis')),
          }),
        ),
      answers: Effect.suspend(() => {
        const askedAt = performance.now()
        return bounded(() => pool.queries`SELECT 1`, ANSWER_DEADLINE).pipe(
          Effect.as(true),
          // One dead connection is not the end of PostgreSQL: another one may have answered.
          Effect.orElseSucceed(() => pool.lastAnswerAt() > askedAt),
        )
      }),
    }
    return sql
  })

/** The database of the hub. Settings: `databaseUrl`, `databasePool`. */
export class Sql extends Context.Service<Sql, SqlShape>()('@hub/store/Sql') {
  /**
   * `app`: the application name in PostgreSQL. `maxConnections`: for apps that need few, because
   * each connection has its own plans and caches. `deadline`: of calls that set none.
   */
  static readonly layer = (
    app: string,
    {
      deadline = DEFAULT_DEADLINE,
      maxConnections = Number.POSITIVE_INFINITY,
    }: { readonly deadline?: Duration.Duration; readonly maxConnections?: number } = {},
  ): Layer.Layer<Sql, Config.ConfigError> =>
    Layer.effect(
      Sql,
      Effect.gen(function* () {
        const url = yield* settings.databaseUrl.config
        const max = yield* settings.databasePool.config
        return yield* makeSql(url, Math.min(max, maxConnections), app, deadline)
      }),
    )
}
