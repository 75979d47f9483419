/**
 * One rebuild, executed by the projector that has its lease: folds the log up to the positions of
 * the live projection, compares the tables, and swaps them. Source: docs/decisions/read-models.md#rebuild.
 */
import type { MessageAccepted } from '@hub/domain'
import { KafkaUnavailable } from '@hub/kafka'
import {
  NIL_UUID,
  operatorIdsCutoff,
  type Queries,
  type RebuildComparison,
  Sql,
  storageCrashPoint,
  type StorageError,
  StorageUnavailable,
  transactionCrashPoint,
} from '@hub/store'
import { Clock, Data, Deferred, Duration, Effect } from 'effect'
import type { makePersonalData } from '../messages/personal-data.ts'
import { observeRebuildLag, rebuiltRecords } from '../metrics.ts'
import { decodeBatch } from '../projection/decode.ts'
import { type OwnedPartition, recordCount, type TransactionBatch } from '../projection/record-buffer.ts'
import { isolateRejected, type RejectedRecords } from '../projection/recovery.ts'
import { movePositions } from '../projection/transaction.ts'
import { MAX_BATCH_RECORDS } from '../projection/worker.ts'
import { type Checkpoint, partitionKey } from '../store/projection-store.port.ts'
import { readCheckpoints } from '../tables/checkpoints.ts'
import { insertAllOutcomesDue } from '../tables/outcomes-due.ts'
import { withoutPersonalData } from '../tables/personal-data.ts'
import { endRebuild, type RebuildLease, saveComparison, setState } from './lease.ts'
import { compareTables, countDifferences, takeSnapshot } from './compare.ts'
import { foldBatch, restorePersonalData } from './fold-batch.ts'
import { boundsOf, type Horizon } from './horizon.ts'
import type { RebuildReader } from './reader.ts'
import {
  copyBatches,
  copyStats,
  lockOutMaintenance,
  prepareSwap,
  stopLiveProjection,
  swapTables,
} from './swap.ts'

interface RebuildDependencies {
  readonly lease: RebuildLease
  readonly reader: RebuildReader
  readonly horizon: Horizon
  readonly personalData: Effect.Success<typeof makePersonalData>
  /** Records of one transaction at most. */
  readonly maxBatchRecords?: number
  /** Whether the swap makes all outcomes of the rebuilt messages due. */
  readonly outcomes?: boolean
}

/** The pause after the live projection could not be stopped. */
const RETRY_PAUSE = Duration.seconds(1)
/** The pause while no record is ready. */
const READ_PAUSE = Duration.millis(20)
/** The rebuild rests after each batch as long as the batch took, up to this. */
const MAX_REST_MS = 500
/** The rebuild waits while the live projection lags by this (a few seconds of work). */
const MAX_LIVE_LAG = 10_000
const CHECK_LAG_EVERY_MS = 1000

/**
 * With this many records left, the live projection may be stopped for a fraction of a second. After
 * `STOP_WITHIN` it continues, and the rebuild tries again.
 */
const MAX_REMAINING = 500
const STOP_WITHIN = Duration.seconds(3)
/** The deadline of the transaction that stops it, with the wait for locks and the swap. */
const STOPPED_TRANSACTION = { deadline: Duration.seconds(9) }

/** Payload keys in the log live for two days. Older payloads are not decrypted. */
const PAYLOAD_LIFETIME_MS = 3 * 24 * 3_600_000

/** A comparison reads every row once. A longer one is a fault: its snapshot blocks vacuum. */
const COMPARISON_TRANSACTION = { deadline: Duration.hours(12) }
const PREPARATION_TRANSACTION = { deadline: Duration.hours(1) }

const atFolded = storageCrashPoint('projector.rebuild-folded')
const atCompared = storageCrashPoint('projector.rebuild-compared')
const atSwapping = transactionCrashPoint('projector.rebuild-swapping')
const atSwapped = storageCrashPoint('projector.rebuild-swapped')

/** Another projector has the lease, or the rebuild has ended. */
export class RebuildLost extends Data.TaggedError('RebuildLost')<{}> {}

/** A change of the rebuild's row, which returns false when the lease is lost. */
export const withLease = <E>(change: Effect.Effect<boolean, E>): Effect.Effect<void, E | RebuildLost> =>
  Effect.flatMap(change, (changed) => (changed ? Effect.void : Effect.fail(new RebuildLost())))

/** Waits until the reader reads from the checkpoints of the rebuild. */
export const awaitOpen = Effect.fnUntraced(function* (reader: RebuildReader) {
  while (!reader.isOpen()) {
    const state = yield* reader.open
    if (state === 'lost') return yield* new RebuildLost()
    if (state === 'not_yet') yield* Effect.sleep(READ_PAUSE)
  }
})

/** A comparison in progress. */
interface Comparison {
  isWanted: boolean
  readonly result: Deferred.Deferred<ReadonlyArray<RebuildComparison> | null, StorageError>
}

/** The two steps of a rebuild, in this order. */
export const makeRebuild = Effect.fnUntraced(function* (dependencies: RebuildDependencies) {
  const { horizon, lease, outcomes = false, personalData, reader } = dependencies
  const sql = yield* Sql
  const context = yield* Effect.context<Sql>()
  const currentBounds = Effect.map(Clock.currentTimeMillis, (now) =>
    boundsOf(horizon, operatorIdsCutoff(now)),
  )
  const foldBounds = yield* currentBounds
  const maxBatchRecords = dependencies.maxBatchRecords ?? MAX_BATCH_RECORDS
  const maxRemaining = Math.min(MAX_REMAINING, maxBatchRecords)

  /** For each partition, where the rebuild must stop: the live position. */
  const endsAt = (live: ReadonlyArray<Checkpoint>) => {
    const ends = new Map(live.map((checkpoint) => [partitionKey(checkpoint), checkpoint.position]))
    return (owned: OwnedPartition): number => ends.get(partitionKey(owned)) ?? 0
  }
  const remaining = (end: (owned: OwnedPartition) => number): number =>
    reader.partitions().reduce((sum, owned) => sum + Math.max(0, end(owned) - owned.position), 0)

  const restore = Effect.fnUntraced(function* (accepted: ReadonlyArray<MessageAccepted>) {
    if (lease.policy === 'compare_only') return
    const since = (yield* Clock.currentTimeMillis) - PAYLOAD_LIFETIME_MS
    const recent = accepted.filter(({ at }) => at >= since)
    if (recent.length === 0) return
    const missing = yield* sql.run((q) => withoutPersonalData(q, recent))
    if (missing.length === 0) return
    const encrypted = yield* personalData.encrypt(missing)
    if ((yield* restorePersonalData(lease, missing, encrypted)) === 'lost') return yield* new RebuildLost()
  })

  const foldOnce = Effect.fnUntraced(function* (batch: TransactionBatch, rejected: RejectedRecords) {
    const decoded = decodeBatch(batch, rejected)
    yield* restore(decoded.accepted)
    const records = recordCount(batch)
    const result = yield* atFolded(foldBatch(lease, foldBounds, decoded, records))
    if (result === 'lost') return yield* new RebuildLost()
    if (result === 'moved') {
      return yield* new KafkaUnavailable({ reason: 'rejected', detail: 'the checkpoints were moved' })
    }
    movePositions(decoded.advances)
    rebuiltRecords.add(records)
  })
  /** Folds a batch. Leaves out the records that PostgreSQL rejects, as the live projection does. */
  const fold = (batch: TransactionBatch) => isolateRejected(batch, foldOnce)

  let lagCheckedAt = 0
  /** Waits while the live projection lags behind. */
  const yieldToLiveProjection = Effect.fnUntraced(function* () {
    for (;;) {
      const now = yield* Clock.currentTimeMillis
      if (now - lagCheckedAt < CHECK_LAG_EVERY_MS) return
      lagCheckedAt = now
      const end = endsAt(yield* sql.run(readCheckpoints))
      yield* observeRebuildLag(remaining(end))
      const highs = new Map((yield* reader.ranges).map((range) => [partitionKey(range), range.high]))
      const liveLag = reader
        .partitions()
        .reduce((sum, owned) => sum + Math.max(0, (highs.get(partitionKey(owned)) ?? 0) - end(owned)), 0)
      if (liveLag < MAX_LIVE_LAG) return
      yield* Effect.sleep(CHECK_LAG_EVERY_MS)
    }
  })

  /** Folds what the live projection has applied, until at most `maxRemaining` records are left. */
  const catchUp = Effect.gen(function* () {
    for (;;) {
      yield* awaitOpen(reader)
      const end = endsAt(yield* sql.run(readCheckpoints))
      if (remaining(end) <= maxRemaining) return
      const startedAt = yield* Clock.currentTimeMillis
      const batch = reader.takeBatch(maxBatchRecords, end)
      if (batch.length === 0) {
        yield* Effect.sleep(READ_PAUSE)
        continue
      }
      yield* fold(batch)
      yield* Effect.sleep(Math.min(MAX_REST_MS, (yield* Clock.currentTimeMillis) - startedAt))
      yield* yieldToLiveProjection()
    }
  })

  /** Folds the remaining records while the live projection is stopped. */
  const foldRemaining = Effect.fnUntraced(function* (live: ReadonlyArray<Checkpoint>) {
    const end = endsAt(live)
    while (remaining(end) > 0) {
      if (!reader.isOpen())
        return yield* new KafkaUnavailable({ reason: 'refused', detail: 'the group is being joined' })
      const batch = reader.takeBatch(maxBatchRecords, end)
      if (batch.length === 0) yield* Effect.sleep(READ_PAUSE)
      else yield* fold(batch)
    }
  })

  /**
   * Executes `act` while the live tables and the rebuilt tables are at the same positions: stops
   * the live projection, folds the rest, acts, and lets the live projection continue. If that takes
   * too long, the live projection continues first, and the rebuild catches up and tries again.
   */
  const atSamePositions = (
    prepare: (q: Queries) => Promise<void>,
    act: (q: Queries) => Promise<boolean>,
  ): Effect.Effect<void, StorageError | KafkaUnavailable | RebuildLost, Sql> =>
    Effect.gen(function* () {
      for (;;) {
        yield* catchUp
        const hasLease = yield* sql
          .transaction(async (q) => {
            await prepare(q)
            const live = await stopLiveProjection(q)
            await Effect.runPromiseWith(context)(
              foldRemaining(live).pipe(
                Effect.timeoutOrElse({
                  duration: STOP_WITHIN,
                  orElse: () =>
                    Effect.fail(new StorageUnavailable({ reason: 'timeout', detail: 'catch_up' })),
                }),
              ),
            )
            return act(q)
          }, STOPPED_TRANSACTION)
          .pipe(
            Effect.catchTag('StorageUnavailable', ({ detail, reason }) =>
              Effect.as(
                Effect.logInfo('rebuild: the live projection was not stopped in time, retrying').pipe(
                  Effect.annotateLogs({ rebuild: lease.id, reason, detail }),
                ),
                null,
              ),
            ),
          )
        if (hasLease === false) return yield* new RebuildLost()
        if (hasLease === true) return
        yield* Effect.sleep(RETRY_PAUSE)
      }
    })

  /** Compares the tables. Returns whether the swap follows. */
  const compare = Effect.gen(function* () {
    yield* catchUp
    yield* withLease(sql.run((q) => setState(q, lease, 'comparing')))
    const bounds = yield* currentBounds
    const scope = yield* Effect.scope
    /** A stop that timed out leaves its comparison running, so there may be several. */
    const comparisons: Array<Comparison> = []
    const cancelAll = () => {
      for (const comparison of comparisons) comparison.isWanted = false
    }
    yield* Effect.addFinalizer(() => Effect.sync(cancelAll))
    /** Takes the snapshot while the live projection is stopped, and compares after it continues. */
    const start = Effect.gen(function* () {
      cancelAll()
      const comparison: Comparison = {
        isWanted: true,
        result: yield* Deferred.make<ReadonlyArray<RebuildComparison> | null, StorageError>(),
      }
      const snapshot = yield* Deferred.make<void, StorageError>()
      comparisons.push(comparison)
      yield* sql
        .transaction(async (q) => {
          await takeSnapshot(q)
          Deferred.doneUnsafe(snapshot, Effect.void)
          return compareTables(q, bounds, () => comparison.isWanted)
        }, COMPARISON_TRANSACTION)
        .pipe(
          Effect.tapError((error) => Deferred.fail(snapshot, error)),
          Effect.onExit((exit) => Deferred.done(comparison.result, exit)),
          Effect.forkIn(scope),
        )
      yield* Deferred.await(snapshot)
      return true
    })
    yield* atSamePositions(
      async () => {},
      () => Effect.runPromiseWith(context)(start),
    )
    const last = comparisons.at(-1)
    const compared = last === undefined ? null : yield* Deferred.await(last.result)
    if (compared === null) return yield* new RebuildLost()
    const differences = countDifferences(compared)
    const swaps = lease.policy === 'swap' || (lease.policy === 'swap_if_equal' && differences === 0)
    yield* withLease(
      sql
        .transaction(async (q) => {
          if (!(await saveComparison(q, lease, compared))) return false
          return swaps
            ? setState(q, lease, 'swapping')
            : endRebuild(q, lease, lease.policy === 'compare_only' ? 'compared' : 'refused')
        })
        .pipe(atCompared),
    )
    yield* Effect.logInfo('rebuild: compared the rebuilt tables with the live ones').pipe(
      Effect.annotateLogs({ rebuild: lease.id, differences, swap: swaps }),
    )
    return swaps
  })

  const swap = Effect.gen(function* () {
    const { sumsSince } = horizon
    if (sumsSince !== null) {
      for (let after: string | null = NIL_UUID; after !== null;) {
        const from: string = after
        after = yield* sql.run((q) => copyBatches(q, sumsSince, from), STOPPED_TRANSACTION)
      }
      yield* sql.transaction((q) => copyStats(q, sumsSince), PREPARATION_TRANSACTION)
    }
    yield* sql.transaction(prepareSwap, PREPARATION_TRANSACTION)
    const bounds = yield* currentBounds
    yield* atSamePositions(lockOutMaintenance, async (q) => {
      if (!(await endRebuild(q, lease, 'swapped'))) return false
      await swapTables(q, horizon, bounds.operatorIdsFrom)
      // The outcomes before that would lose their operator.
      if (outcomes) await insertAllOutcomesDue(q, bounds.operatorIdsFrom)
      atSwapping()
      return true
    }).pipe(atSwapped)
    yield* Effect.logInfo('rebuild: the rebuilt tables are live').pipe(
      Effect.annotateLogs({ rebuild: lease.id }),
    )
  })

  return { compare, swap }
})
