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
 * (docs/decisions/shards.md#standby).
 */
import {
  decodeShardOpened,
  type GroupControl,
  type IncomingRecord,
  kafkaCrashPoint,
  type TopicNames,
} from '@hub/kafka'
import { Effect, Result } from 'effect'
import { type ShardSlot, lanesOf } from './shard-slot.ts'
import type { Shard } from './shard.ts'

const LOCATE_PAUSE_MS = 200

const atOffsetsLocated = kafkaCrashPoint('dispatcher.offsets-located')

interface RecoveryOptions<S extends Shard> {
  readonly topics: TopicNames
  readonly member: string
  readonly now: () => number
  readonly shards: ReadonlyMap<number, ShardSlot<S>>
  readonly control: () => GroupControl | null
  /** The shard has reached the phase `open`, or has left it because another member opened it. */
  readonly onOpenChanged: () => void
  readonly onRecovered: (slot: ShardSlot<S>) => void
}

export const makeRecovery = <S extends Shard>(options: RecoveryOptions<S>) => {
  const { member, now, topics } = options
  const lanes = lanesOf(topics)

  /** Asks for the shards on standby once the member has read all of their logs. */
  const takeOver = () => {
    const standby = [...options.shards.values()].filter((slot) => slot.standby)
    if (standby.every((slot) => slot.logPosition >= slot.logEnd)) {
      options.control()?.takeOver()
    }
  }

  const open = (slot: ShardSlot<S>) => {
    slot.phase = 'open'
    options.onOpenChanged()
    slot.shard.onOpened({
      epoch: slot.owner.epoch,
      now: now(),
      laneEnds: slot.laneEnds,
      logPosition: slot.logPosition,
    })
    const control = options.control()
    for (const topic of [...lanes, topics.operatorReports]) {
      control?.seek({ topic, partition: slot.number, offset: slot.position(topic) })
      control?.resume(topic, slot.number)
    }
    options.onRecovered(slot)
  }

  /** Moves a shard to the next phase if the records that it has read allow it. */
  const advance = (slot: ShardSlot<S>): void => {
    if (slot.standby) return takeOver()
    if (slot.phase === 'reading' && slot.logPosition >= slot.logEnd) {
      if (options.control()?.hasLease() !== true) return
      slot.phase = 'fencing'
      slot.owner = { epoch: slot.fence.epoch + 1, member }
      slot.appendFence(now(), (offset) => {
        slot.fenceOffset = offset
        slot.phase = 'closing'
        advance(slot)
      })
    }
    if (slot.phase !== 'closing' || slot.logPosition <= slot.fenceOffset) return
    if (slot.fence.isOwnedBy(slot.owner)) return open(slot)
    slot.logEnd = slot.logPosition
    slot.phase = 'reading'
    advance(slot)
  }

  const onFence = (slot: ShardSlot<S>, record: IncomingRecord) => {
    const fence = decodeShardOpened(record)
    if (Result.isFailure(fence)) return
    slot.fence.observe(record.offset, fence.success)
    if (slot.phase === 'open' && slot.fence.epoch > slot.owner.epoch) {
      // Another member has opened the shard. The group will tell this member soon.
      slot.phase = 'superseded'
      options.onOpenChanged()
    }
  }

  return {
    /** Continues recoveries that waited for the lease. */
    continue: (): void => {
      for (const slot of options.shards.values()) {
        if (slot.phase === 'reading' && !slot.standby) advance(slot)
      }
    },

    /** Fetches the offsets of new shards, until it succeeds, and starts to read their logs. */
    locate: Effect.fnUntraced(function* (fresh: ReadonlyArray<ShardSlot<S>>, by: GroupControl) {
      for (;;) {
        const wanted = fresh.filter((slot) => slot.current)
        if (wanted.length === 0) return
        const offsets = yield* by.offsets(wanted.map((slot) => slot.number)).pipe(
          atOffsetsLocated,
          Effect.catch((error) =>
            Effect.logWarning(
              'shard runtime: the committed offsets of new shards are unknown; asking again',
              error,
            ).pipe(
              Effect.annotateLogs({ shards: wanted.map((slot) => slot.number) }),
              Effect.andThen(Effect.sleep(LOCATE_PAUSE_MS)),
              Effect.as(null),
            ),
          ),
        )
        if (offsets === null) continue
        for (const slot of wanted) {
          // A rebalance may have happened meanwhile.
          if (!slot.current || options.control() !== by) continue
          const ends = new Map<string, number>()
          for (const { topic, partition, committed, low, high } of offsets) {
            if (partition !== slot.number) continue
            ends.set(topic, high)
            slot.committed.set(topic, committed)
            // The records that the shard has read on standby stay read.
            if (topic === topics.messages && slot.phase === 'reading') continue
            // An expired offset means the start of the topic. One beyond the end is invalid too.
            slot.positions.set(topic, committed < low ? low : Math.min(committed, high))
          }
          slot.logEnd = ends.get(topics.messages) ?? 0
          slot.laneEnds = lanes.map((topic) => ends.get(topic) ?? 0)
          if (slot.phase === 'locating') {
            const offset = slot.logPosition
            slot.logStart = offset
            slot.phase = 'reading'
            by.seek({ topic: topics.messages, partition: slot.number, offset })
            by.resume(topics.messages, slot.number)
          }
          advance(slot)
        }
        return
      }
    }),

    /** Folds fetched log records, and advances the recovery. */
    onLogRecords: (slot: ShardSlot<S>, records: ReadonlyArray<IncomingRecord>): void => {
      const from = slot.logPosition
      for (const record of records) {
        if (record.offset < from) continue
        slot.positions.set(topics.messages, record.offset + 1)
        slot.recordsRead++
        if (record.type === 'ShardOpened') onFence(slot, record)
        else slot.shard.onLog(record, slot.fence)
      }
      advance(slot)
    },
  }
}
