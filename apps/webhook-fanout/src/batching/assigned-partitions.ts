/** Opens the partitions that the consumer group assigns to this process, and closes them. */
import { backoffSchedule, QUICK } from '@hub/flow'
import type { Supervisor } from '@hub/flow'
import {
  type Assignment,
  EventLog,
  type GroupControl,
  type IncomingRecord,
  kafkaCrashPoint,
  webhooksKey,
} from '@hub/kafka'
import { storageCrashPoint } from '@hub/store'
import { Effect, FiberSet } from 'effect'
import type { Deliverer } from '../delivery/deliverer.ts'
import { metrics } from '../metrics.ts'
import { FanoutStore, type OpenRedelivery } from '../store/store.port.ts'
import { openPartition, type Partition } from './partition.ts'

/**
 * A lost partition is acquired again after this time, unless a new assignment comes first. A
 * shorter time would take it back from a process that the group has assigned it to.
 */
const REOPEN_PAUSE = '5 seconds'

const atAcquired = storageCrashPoint('webhook-fanout.partition-acquired')
const atOffsetCommitted = kafkaCrashPoint('webhook-fanout.offset-committed')

interface AssignedPartition {
  /** `null` while it is being opened. */
  open: Partition | null
  readonly stop: () => void
}

interface AssignedPartitionsOptions {
  readonly topic: string
  readonly deliverer: Deliverer
  readonly supervise: Supervisor['supervise']
}

export const makeAssignedPartitions = Effect.fnUntraced(function* (options: AssignedPartitionsOptions) {
  const { deliverer, supervise, topic } = options
  const log = yield* EventLog
  const store = yield* FanoutStore
  const context = yield* Effect.context<EventLog | FanoutStore>()
  const fork = yield* FiberSet.makeRuntime<never>()
  const assigned = new Map<number, AssignedPartition>()

  /** Acquires a partition and loads its subscriptions. */
  const open = Effect.fnUntraced(function* (number: number, control: GroupControl) {
    const { epoch, position } = yield* atAcquired(store.acquire(number))
    const bounds = (yield* control.offsetRanges(topic)).find(({ partition }) => partition === number)
    const low = bounds?.low ?? 0
    const high = bounds?.high ?? 0
    if (position >= 0 && position < low) {
      yield* Effect.logError(
        'assigned partitions: events expired from the topic before they were stored; continuing at the first record',
      ).pipe(Effect.annotateLogs({ topic, partition: number, position, low }))
    }
    // Behind the end: the topic was created anew. Stored events are not stored again.
    const startAt = position > high ? low : Math.max(position, low)
    const sources = (yield* store.sources).filter(
      ({ account, mode }) => log.partitionOf(webhooksKey(account, mode)) === number,
    )
    return yield* openPartition({
      ownership: { partition: number, epoch },
      startAt,
      sources,
      deliverer,
      consumer: {
        pause: () => control.pause(topic, number),
        resume: () => control.resume(topic, number),
        commit: (offset) => atOffsetCommitted(control.commit([{ topic, partition: number, offset }])),
      },
    })
  })

  const start = (number: number, control: GroupControl) => {
    control.pause(topic, number)
    const annotate = Effect.annotateLogs({ topic, partition: number })
    const life = Effect.gen(function* () {
      for (;;) {
        const partition = yield* open(number, control).pipe(
          Effect.tapError((error) =>
            Effect.logWarning('assigned partitions: could not open a partition; trying again', error).pipe(
              annotate,
            ),
          ),
          Effect.retry(backoffSchedule(QUICK)),
          Effect.orDie,
        )
        entry.open = partition
        control.seek({ topic, partition: number, offset: partition.position() })
        control.resume(topic, number)
        yield* Effect.logInfo('assigned partitions: opened a partition').pipe(
          annotate,
          Effect.annotateLogs({ offset: partition.position(), subscriptions: partition.subscriptions() }),
        )
        deliverer.pump()
        yield* Effect.flip(partition.run)
        control.pause(topic, number)
        entry.open = null
        partition.close()
        metrics.partitionsLost.add()
        yield* Effect.logWarning(
          'assigned partitions: another process has acquired a partition; trying again in 5 s',
        ).pipe(annotate)
        yield* Effect.sleep(REOPEN_PAUSE)
      }
    })
    const fiber = fork(supervise(Effect.provideContext(life, context)))
    const entry: AssignedPartition = {
      open: null,
      stop: () => {
        assigned.delete(number)
        entry.open?.close()
        entry.open = null
        fiber.interruptUnsafe()
      },
    }
    assigned.set(number, entry)
  }

  const opened = () => [...assigned.values()].flatMap((entry) => (entry.open === null ? [] : [entry.open]))

  return {
    get: (number: number): Partition | null => assigned.get(number)?.open ?? null,
    opened,
    areAllOpen: () => opened().length === assigned.size,
    ingest: (number: number, records: ReadonlyArray<IncomingRecord>) =>
      assigned.get(number)?.open?.ingest(records) ?? Effect.void,
    redeliver: (redelivery: OpenRedelivery) => {
      const number = log.partitionOf(webhooksKey(redelivery.account, redelivery.mode))
      return assigned.get(number)?.open?.redeliver(redelivery) ?? Effect.void
    },
    /** Applies a new assignment: stops, starts or continues each partition. */
    assign: ({ retained, shards }: Assignment, control: GroupControl) => {
      const wanted = new Set(shards)
      for (const [number, entry] of assigned) {
        if (!wanted.has(number) || !retained.has(number)) entry.stop()
      }
      for (const number of shards) {
        const partition = assigned.get(number)?.open ?? null
        if (partition === null) {
          assigned.get(number)?.stop()
          start(number, control)
          continue
        }
        control.seek({ topic, partition: number, offset: partition.position() })
        if (partition.paused()) control.pause(topic, number)
        else control.resume(topic, number)
      }
    },
  }
})
