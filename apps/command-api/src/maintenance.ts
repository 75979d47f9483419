/** What has to be done now and then, whoever sends: small, bounded, and repeated after a failure. */
import { Sealing, Sql, type StorageError } from '@hub/store'
import { Cause, Duration, Effect, Layer, Schedule } from 'effect'
import { IdempotencyKeys } from './idempotency/store.ts'

/** Days of the ledger made in advance: a weekend without a running process loses nothing. */
const DAYS_AHEAD = 3
const LEDGER_EVERY = Duration.hours(1)
/** Keys of codes live for minutes, so this decides how long a destroyed one may linger. */
const KEYS_EVERY = Duration.minutes(1)
/** Idempotency keys live for a day; a minute more does nobody any harm. */
const FORGET_EVERY = Duration.minutes(1)
/** Creating partitions waits for locks; nobody waits for it. */
const DEADLINE = { deadline: Duration.seconds(8) }

/** Runs at once and then on its schedule, whatever became of the run before. */
const repeated = <A>(name: string, every: Duration.Duration, job: Effect.Effect<A, StorageError>) =>
  job.pipe(
    Effect.catchCause((cause) =>
      Cause.hasInterruptsOnly(cause)
        ? Effect.interrupt
        : Effect.annotateLogs(Effect.logWarning('maintenance failed', cause), { job: name }),
    ),
    Effect.repeat(Schedule.spaced(every)),
    Effect.forkScoped,
  )

export const maintenanceLayer: Layer.Layer<never, never, Sql | Sealing | IdempotencyKeys> =
  Layer.effectDiscard(
    Effect.gen(function* () {
      const sql = yield* Sql
      const sealing = yield* Sealing
      const keys = yield* IdempotencyKeys
      yield* repeated(
        'ledger partitions',
        LEDGER_EVERY,
        sql.run((q) => q`SELECT command.ensure_acceptance_days(${DAYS_AHEAD})`, DEADLINE),
      )
      yield* repeated(
        'expired sealing keys',
        KEYS_EVERY,
        Effect.tap(sealing.destroyExpired, (gone) =>
          gone === 0
            ? Effect.void
            : Effect.annotateLogs(Effect.logInfo('sealing keys destroyed'), { keys: gone }),
        ),
      )
      yield* repeated(
        'expired idempotency keys',
        FORGET_EVERY,
        Effect.repeat(keys.removeExpired, { until: (gone) => gone === 0 }),
      )
    }),
  )
