/**
 * Executes requested rebuilds of the read models. One projector at a time has the lease of a
 * rebuild. Each batch stores its progress in PostgreSQL, so that another projector can continue.
 * Source: docs/decisions/read-models.md#rebuild.
 *
 * States: `requested` → `folding` (fill the tables from the log) → `comparing` (in a snapshot at
 * the positions of the live projection) → `swapping` → `ended`.
 */
import { randomUUID } from 'node:crypto'
import { KafkaUnavailable } from '@hub/kafka'
import { Sql, storageCrashPoint, type StorageError } from '@hub/store'
import { Cause, Clock, Data, Duration, Effect } from 'effect'
import { makePersonalData } from '../messages/personal-data.ts'
import { partitionKey } from '../store/projection-store.port.ts'
import { lastAppliedAt } from '../tables/checkpoints.ts'
import {
  acquireRebuild,
  dropEndedRebuild,
  endRebuild,
  type RebuildLease,
  releaseLease,
  RENEW_EVERY_MS,
  renewLease,
  saveHorizon,
} from './lease.ts'
import { type Horizon, horizonOf } from './horizon.ts'
import { makeRebuildReader, type RebuildReader, type RebuildReaderOptions } from './reader.ts'
import { awaitOpen, makeRebuild, RebuildLost, withLease } from './rebuild.ts'

interface RebuildOptions extends RebuildReaderOptions {
  /** Records of one transaction at most. */
  readonly maxBatchRecords?: number
  /** Whether a swap makes all outcomes of the rebuilt messages due. Default: no. */
  readonly outcomes?: boolean
}

/** How often an idle runner looks for a requested rebuild. */
const POLL_INTERVAL = Duration.seconds(1)
/** The pause after a failure. */
const RETRY_PAUSE = Duration.seconds(2)

/** The pause while the first record of a partition is not fetched yet. */
const READ_PAUSE = Duration.millis(20)

/** The deadline for creating or dropping the tables. */
const DDL_TRANSACTION = { deadline: Duration.seconds(60) }

const atOpened = storageCrashPoint('projector.rebuild-opened')

/** The topics contain too little of the past. */
class LogTooShort extends Data.TaggedError('LogTooShort')<{}> {}

/** Executes rebuilds until the scope closes. */
export const runRebuilds = Effect.fnUntraced(function* (options: RebuildOptions) {
  const sql = yield* Sql
  const personalData = yield* makePersonalData

  const step = Effect.gen(function* () {
    yield* sql.transaction(async (q) => {
      await q`SELECT set_config('statement_timeout', '60s', true)`
      return dropEndedRebuild(q)
    }, DDL_TRANSACTION)
    return yield* Effect.acquireUseRelease(
      sql.run((q) => acquireRebuild(q, randomUUID())),
      (lease) => (lease === null ? Effect.succeed(POLL_INTERVAL) : Effect.as(hold(lease), Duration.zero)),
      (lease) => (lease === null ? Effect.void : Effect.ignore(sql.run((q) => releaseLease(q, lease)))),
    )
  }).pipe(
    Effect.catchCause((cause) =>
      Cause.hasInterruptsOnly(cause)
        ? Effect.interrupt
        : Effect.as(Effect.logWarning('rebuild: failed, retrying', cause), RETRY_PAUSE),
    ),
  )

  /** Executes a rebuild until it ends, or its lease is lost. */
  const hold = Effect.fnUntraced(function* (lease: RebuildLease) {
    yield* Effect.logInfo('rebuild: started').pipe(
      Effect.annotateLogs({ rebuild: lease.id, policy: lease.policy, state: lease.state }),
    )
    yield* execute(lease).pipe(
      Effect.raceFirst(keepLease(lease)),
      Effect.catchTag('LogTooShort', () => sql.run((q) => endRebuild(q, lease, 'failed', 'log_too_short'))),
      Effect.catchTag('RebuildLost', () =>
        Effect.logInfo('rebuild: it has ended, or another projector continues it').pipe(
          Effect.annotateLogs({ rebuild: lease.id }),
        ),
      ),
      Effect.scoped,
    )
  })

  /** Renews the lease until it is lost. */
  const keepLease = (lease: RebuildLease): Effect.Effect<never, RebuildLost> =>
    Effect.sleep(RENEW_EVERY_MS).pipe(
      Effect.andThen(
        // Without PostgreSQL the lease expires, and every transaction checks it.
        sql.run((q) => renewLease(q, lease)).pipe(Effect.orElseSucceed(() => true)),
      ),
      Effect.flatMap((renewed) => (renewed ? Effect.void : Effect.fail(new RebuildLost()))),
      Effect.forever,
    )

  const execute = Effect.fnUntraced(function* (lease: RebuildLease) {
    if (lease.state === 'requested') {
      yield* withLease(
        sql
          .transaction(async (q) => {
            if (!(await renewLease(q, lease))) return false
            await q`SELECT set_config('statement_timeout', '60s', true)`
            await q`SELECT command.open_rebuild()`
            return true
          }, DDL_TRANSACTION)
          .pipe(atOpened),
      )
    }
    const reader = yield* makeRebuildReader(lease, options)
    const horizon = lease.state === 'requested' ? yield* determineHorizon(lease, reader) : lease
    const rebuild = yield* makeRebuild({ ...options, lease, reader, horizon, personalData })
    if (lease.state !== 'swapping' && !(yield* rebuild.compare)) return
    yield* rebuild.swap
  })

  /** Determines from the beginnings of the topics what can be rebuilt, and stores it. */
  const determineHorizon = Effect.fnUntraced(function* (
    lease: RebuildLease,
    reader: RebuildReader,
  ): Effect.fn.Return<Horizon, StorageError | KafkaUnavailable | RebuildLost | LogTooShort> {
    yield* awaitOpen(reader)
    const ranges = yield* reader.ranges
    const appliedAt = yield* sql.run(lastAppliedAt)
    const now = yield* Clock.currentTimeMillis
    const firsts: Array<number> = []
    for (const range of ranges) {
      if (range.low === 0) continue
      if (range.low === range.high) {
        firsts.push(appliedAt.get(partitionKey(range)) ?? now)
        continue
      }
      const first = yield* Effect.sync(
        () => reader.partitions().find((owned) => partitionKey(owned) === partitionKey(range))?.buffered[0],
      ).pipe(
        Effect.tap((record) => (record === undefined ? Effect.sleep(READ_PAUSE) : Effect.void)),
        Effect.repeat({ until: (record) => record !== undefined || !reader.isOpen() }),
      )
      if (first === undefined) {
        const detail = 'the first record of a partition could not be read'
        return yield* new KafkaUnavailable({ reason: 'refused', detail })
      }
      firsts.push(first.appendedAt)
    }
    const horizon = horizonOf(firsts, now)
    if (horizon === null) return yield* new LogTooShort()
    yield* withLease(sql.run((q) => saveHorizon(q, lease, horizon)))
    return horizon
  })

  yield* Effect.forkScoped(Effect.forever(Effect.flatMap(step, Effect.sleep)))
})
