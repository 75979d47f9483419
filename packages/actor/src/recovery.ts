/**
 * The recovery of a shard. Its state is a fold of its log partition, and recovery has these phases:
 *
 * 1. locating: the shard reads nothing, and the member fetches the committed offsets;
 * 2. reading: the shard reads the log from its low-water mark to its current end;
 * 3. fencing: a `ShardOpened` record with an epoch above all earlier ones is on its way to the log.
 *    It is appended under the lease only: otherwise another member may own the shard already, and
 *    this fence would make its claims void;
 * 4. closing: the shard reads on to its own fence. If another member's fence of the same epoch is in
 *    front of it, recovery goes back to phase 3;
 * 5. open: the shard reads lanes and reports from their marks, and reads on in the log.
 *
 * A new member does phase 2 on standby, while the current owner still works. Then it takes the
 * shard over, keeps what it has read, and fetches the committed offsets again
 * (docs/decisions/0025).
 */
import {
  decodeShardOpened,
  type GroupControl,
  type IncomingRecord,
  kafkaCrashPoint,
  type TopicNames,
} from '@hub/kafka'
import { Effect, Result } from 'effect'
import { type HostedShard, lanesOf } from './hosted-shard.ts'
import type { Shard } from './shard.ts'

const LOCATE_PAUSE_MS = 200

const atOffsetsLocated = kafkaCrashPoint('dispatcher.offsets-located')

interface RecoveryOptions<S extends Shard> {
  readonly topics: TopicNames
  readonly member: string
  readonly now: () => number
  readonly shards: ReadonlyMap<number, HostedShard<S>>
  readonly control: () => GroupControl | null
  /** The shard has reached the phase `open`, or has left it because another member opened it. */
  readonly onOpenChanged: () => void
  readonly onRecovered: (hosted: HostedShard<S>) => void
}

export const makeRecovery = <S extends Shard>(options: RecoveryOptions<S>) => {
  const { member, now, topics } = options
  const lanes = lanesOf(topics)

  /** Asks for the shards on standby once the member has read all of their logs. */
  const takeOver = () => {
    const standby = [...options.shards.values()].filter((hosted) => hosted.standby)
    if (standby.every((hosted) => hosted.logPosition >= hosted.logEnd)) {
      options.control()?.takeOver()
    }
  }

  const open = (hosted: HostedShard<S>) => {
    hosted.phase = 'open'
    options.onOpenChanged()
    hosted.shard.onOpened({
      epoch: hosted.owner.epoch,
      now: now(),
      laneEnds: hosted.laneEnds,
      logPosition: hosted.logPosition,
    })
    const control = options.control()
    for (const topic of [...lanes, topics.operatorReports]) {
      control?.seek({ topic, partition: hosted.number, offset: hosted.position(topic) })
      control?.resume(topic, hosted.number)
    }
    options.onRecovered(hosted)
  }

  /** Moves a shard to the next phase if the records that it has read allow it. */
  const advance = (hosted: HostedShard<S>): void => {
    if (hosted.standby) return takeOver()
    if (hosted.phase === 'reading' && hosted.logPosition >= hosted.logEnd) {
      if (options.control()?.hasLease() !== true) return
      hosted.phase = 'fencing'
      hosted.owner = { epoch: hosted.fence.epoch + 1, member }
      hosted.appendFence(now(), (offset) => {
        hosted.fenceOffset = offset
        hosted.phase = 'closing'
        advance(hosted)
      })
    }
    if (hosted.phase !== 'closing' || hosted.logPosition <= hosted.fenceOffset) return
    if (hosted.fence.isOwnedBy(hosted.owner)) return open(hosted)
    hosted.logEnd = hosted.logPosition
    hosted.phase = 'reading'
    advance(hosted)
  }

  const onFence = (hosted: HostedShard<S>, record: IncomingRecord) => {
    const fence = decodeShardOpened(record)
    if (Result.isFailure(fence)) return
    hosted.fence.observe(record.offset, fence.success)
    if (hosted.phase === 'open' && hosted.fence.epoch > hosted.owner.epoch) {
      // Another member has opened the shard. The group will tell this member soon.
      hosted.phase = 'superseded'
      options.onOpenChanged()
    }
  }

  return {
    /** Continues recoveries that waited for the lease. */
    continue: (): void => {
      for (const hosted of options.shards.values()) {
        if (hosted.phase === 'reading' && !hosted.standby) advance(hosted)
      }
    },

    /** Fetches the offsets of new shards, until it succeeds, and starts to read their logs. */
    locate: Effect.fnUntraced(function* (fresh: ReadonlyArray<HostedShard<S>>, by: GroupControl) {
      for (;;) {
        const wanted = fresh.filter((hosted) => hosted.current)
        if (wanted.length === 0) return
        const offsets = yield* by.offsets(wanted.map((hosted) => hosted.number)).pipe(
          atOffsetsLocated,
          Effect.catch((error) =>
            Effect.logWarning(
              'shard runtime: the committed offsets of new shards are unknown; asking again',
              error,
            ).pipe(
              Effect.annotateLogs({ shards: wanted.map((hosted) => hosted.number) }),
              Effect.andThen(Effect.sleep(LOCATE_PAUSE_MS)),
              Effect.as(null),
            ),
          ),
        )
        if (offsets === null) continue
        for (const hosted of wanted) {
          // A rebalance may have happened meanwhile.
          if (!hosted.current || options.control() !== by) continue
          const ends = new Map<string, number>()
          for (const { topic, partition, committed, low, high } of offsets) {
            if (partition !== hosted.number) continue
            ends.set(topic, high)
            hosted.committed.set(topic, committed)
            // The records that the shard has read on standby stay read.
            if (topic === topics.messages && hosted.phase === 'reading') continue
            // An expired offset means the start of the topic. One beyond the end is invalid too.
            hosted.positions.set(topic, committed < low ? low : Math.min(committed, high))
          }
          hosted.logEnd = ends.get(topics.messages) ?? 0
          hosted.laneEnds = lanes.map((topic) => ends.get(topic) ?? 0)
          if (hosted.phase === 'locating') {
            const offset = hosted.logPosition
            hosted.logStart = offset
            hosted.phase = 'reading'
            by.seek({ topic: topics.messages, partition: hosted.number, offset })
            by.resume(topics.messages, hosted.number)
          }
          advance(hosted)
        }
        return
      }
    }),

    /** Folds fetched log records, and advances the recovery. */
    onLogRecords: (hosted: HostedShard<S>, records: ReadonlyArray<IncomingRecord>): void => {
      const from = hosted.logPosition
      for (const record of records) {
        if (record.offset < from) continue
        hosted.positions.set(topics.messages, record.offset + 1)
        hosted.recordsRead++
        if (record.type === 'ShardOpened') onFence(hosted, record)
        else hosted.shard.onLog(record, hosted.fence)
      }
      advance(hosted)
    },
  }
}
