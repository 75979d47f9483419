/**
 * The projector: joins the consumer group, acquires the partitions of its shards, and distributes
 * the shards to its workers. A worker applies buffered records in batches.
 */
import { backoffSchedule, QUICK } from '@hub/flow'
import { type GroupHandler, joinWithRetry, topicNames } from '@hub/kafka'
import { Effect, Fiber, FiberHandle } from 'effect'
import { runEventSources } from '../events/event-sources.ts'
import { makePublisher } from '../events/publisher.ts'
import { makePersonalData } from '../messages/personal-data.ts'
import { countFailure } from '../metrics.ts'
import { ProjectionStore } from '../store/projection-store.port.ts'
import { makeApply } from './apply.ts'
import { runLagReport } from './lag-report.ts'
import { acquirePartitions, GapDetector, type Membership, pauseAll } from './ownership.ts'
import type { OwnedPartition, TransactionBatch } from './record-buffer.ts'
import { sourceTopics } from './source-topics.ts'
import { MAX_BATCH_RECORDS, Worker } from './worker.ts'

/** The group name without the prefix of the deployment. */
export const GROUP = 'hub.projector'

interface ProjectorOptions {
  /** `HUB_TOPIC_PREFIX`: of topics and group. */
  readonly prefix: string
  /** The number of partitions of each topic. */
  readonly partitions: number
  /** The file that keeps the member id across restarts. */
  readonly memberFile?: string
  /** Records of one transaction at most. */
  readonly maxBatchRecords?: number
  /** Whether outcomes are written to their topic. Default: no. */
  readonly outcomes?: boolean
}

/**
 * Transactions in parallel: PostgreSQL executes one while the process folds the other. More would
 * only wait for each other at the journal heads.
 */
const WORKERS = 2

/**
 * How long records are gathered before the next fetch. A fetch and the transaction behind it cost about the
 * same for one record as for fifty, and until a message is visible, reads use the ledger. `publishing`: while
 * accounts with webhooks get events, because their servers wait for them.
 */
const GATHER_MS = { publishing: 15, otherwise: 200 } as const

/** How long a rebalance waits for transactions in progress. */
const REVOKE_WITHIN_MS = 2000
/** How long the end of the process waits for them: the deadline of a transaction. */
const END_WITHIN_MS = 5000

/** The pause after another member took a partition, before partitions are acquired again. */
const REACQUIRE_AFTER_MS = 500

/** Runs a projector until the scope closes. Then it finishes transactions in progress. */
export const makeProjector = Effect.fnUntraced(function* (options: ProjectorOptions) {
  const store = yield* ProjectionStore
  const topics = topicNames(options.prefix)
  const group = `${options.prefix}${GROUP}`
  const sources = sourceTopics(topics)
  const publisher = yield* makePublisher
  yield* runEventSources(topics, publisher)
  const personalData = yield* makePersonalData

  const workers = Array.from(
    { length: WORKERS },
    () => new Worker(options.maxBatchRecords ?? MAX_BATCH_RECORDS),
  )
  const gaps = new GapDetector()
  let ending = false
  let membership: Membership | null = null

  /**
   * The worker of a shard gets its lanes and log, so that two transactions never contain the same
   * message, and the fold reads rows without locks.
   */
  const workerOf = (shard: number): Worker => {
    const index = membership?.assignment.shards.indexOf(shard) ?? 0
    return workers[Math.max(0, index) % workers.length] as Worker
  }
  const ownedPartitions = (): ReadonlyArray<OwnedPartition> =>
    workers.flatMap(({ buffer }) => buffer.partitions)
  const clearBuffers = () => {
    for (const worker of workers) worker.clear()
  }

  // Ownership of partitions

  const acquire = Effect.fnUntraced(function* (assigned: Membership) {
    const acquired = yield* acquirePartitions(store, sources, assigned).pipe(
      Effect.tapError((error) =>
        Effect.logWarning('projector: partitions were not acquired, retrying').pipe(
          Effect.annotateLogs({ cause: error._tag }),
        ),
      ),
      Effect.retry(backoffSchedule(QUICK)),
      // The retries never end. The next assignment interrupts them.
      Effect.orDie,
    )
    if (membership !== assigned) return
    for (const { source, checkpoint, from } of acquired) {
      const { partition } = checkpoint
      workerOf(partition).buffer.addPartition(source, checkpoint, from)
      assigned.control.seek({ topic: source, partition, offset: from })
      assigned.control.resume(source, partition)
    }
    const { generation, shards } = assigned.assignment
    yield* Effect.logInfo('projector: partitions acquired').pipe(
      Effect.annotateLogs({ generation, shards: shards.join(',') }),
    )
  })

  const acquisition = yield* FiberHandle.make<void, never>()
  const startAcquisition = yield* FiberHandle.runtime(acquisition)<never>()

  /** Reads everything again from the checkpoints, once the member has a valid lease. */
  const reacquire = Effect.suspend(() => {
    const current = membership
    clearBuffers()
    if (current === null) return Effect.void
    pauseAll(sources, current)
    return FiberHandle.run(
      acquisition,
      Effect.sleep(REACQUIRE_AFTER_MS).pipe(
        Effect.repeat({ until: () => current.control.hasLease() }),
        Effect.andThen(acquire(current)),
      ),
    ).pipe(Effect.asVoid)
  })

  // Transactions

  const applyWith = (worker: Worker) =>
    Effect.fnUntraced(
      function* (batch: TransactionBatch) {
        const isWanted = () => worker.isWanted(batch)
        const apply = yield* makeApply({
          group,
          topics,
          outcomes: options.outcomes ?? false,
          personalData,
          publisher,
          isWanted,
        })
        if ((yield* apply(batch)) === 'applied' || !isWanted()) return
        yield* countFailure('superseded')
        yield* Effect.logWarning('projector: another member owns a partition of the batch, reading again')
        yield* reacquire
      },
      // A defect must be visible, and must not end the projection: the same records are read again.
      Effect.catchDefect((defect) =>
        Effect.logError('projector: defect in a transaction batch, reading again', defect).pipe(
          Effect.andThen(countFailure('defect')),
          Effect.andThen(reacquire),
        ),
      ),
    )

  const loops = yield* Effect.forEach(workers, (worker) => Effect.forkScoped(worker.run(applyWith(worker))))
  yield* Effect.addFinalizer(() =>
    Effect.suspend(() => {
      ending = true
      for (const worker of workers) worker.end()
      return Fiber.awaitAll(loops).pipe(Effect.timeoutOption(END_WITHIN_MS))
    }),
  )

  // Consumption

  const ingest = Effect.fnUntraced(function* (
    source: string,
    partition: number,
    records: Parameters<GroupHandler['onBatch']>[2],
  ) {
    const worker = workerOf(partition)
    const { buffer } = worker
    if (buffer.ingest(source, partition, records) === 'gap') {
      const owned = buffer.partitionOf(source, partition)
      if (owned !== undefined && gaps.isPermanent(source, partition, owned.nextOffset)) {
        const first = records[0]?.offset ?? 0
        yield* Effect.logError('projector: records are missing in the topic, continuing after the gap').pipe(
          Effect.annotateLogs({ topic: source, partition, from: owned.nextOffset, to: first }),
        )
        owned.nextOffset = first
        buffer.ingest(source, partition, records)
      } else yield* reacquire
    }
    worker.updateLatches()
    yield* worker.awaitRoom
  })

  const { isHealthy } = yield* joinWithRetry(
    {
      group,
      topics: [...sources.keys()],
      // Every partition of every topic may wait for room in a buffer.
      concurrency: sources.size * options.partitions,
      gatherMs: () => (publisher.isInUse() ? GATHER_MS.publishing : GATHER_MS.otherwise),
      ...(options.memberFile === undefined ? {} : { memberFile: options.memberFile }),
    },
    {
      onAssigned: (assignment, control) => {
        clearBuffers()
        membership = { assignment, control }
        pauseAll(sources, membership)
        if (!ending) startAcquisition(acquire(membership))
      },
      onRevoking: Effect.gen(function* () {
        membership = null
        clearBuffers()
        yield* FiberHandle.clear(acquisition)
        yield* Effect.forEach(workers, ({ awaitIdle }) => awaitIdle).pipe(
          Effect.timeoutOption(REVOKE_WITHIN_MS),
        )
      }),
      onBatch: ingest,
    },
  )

  yield* runLagReport(sources, () => membership, ownedPartitions)

  return {
    /** True while the consumer works and the member owns every assigned partition. */
    isHealthy: Effect.map(
      isHealthy,
      (healthy) =>
        healthy &&
        membership !== null &&
        ownedPartitions().length === sources.size * membership.assignment.shards.length,
    ),
  }
})
