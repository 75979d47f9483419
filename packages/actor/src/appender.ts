/**
 * The produce queue to Kafka, shared by all shards of a process. Records that arrive during a
 * produce go into the next one together. Urgent records leave at once, and others some milliseconds
 * later, together with those of this time (`Urgency`).
 */
import { backoffMs, makeGather, SHORT } from '@hub/flow'
import { EventLog, kafkaCrashPoints, type OutgoingRecord, type Position } from '@hub/kafka'
import { Clock, Effect } from 'effect'
import type { Urgency } from './shard.ts'

/** In a larger produce the first record would wait for the last one. */
const MAX_BATCH = 1000

/**
 * How long records are gathered. At everyday rates, a produce request for each of them would cost more
 * than all other work for them.
 */
const GATHER_MS: Readonly<Record<Urgency, number>> = { now: 0, soon: 10, later: 40 }
/** So many records are not delayed. */
const GATHERED_RECORDS = 64

const atAppended = kafkaCrashPoints({
  HandoverStarted: 'dispatcher.claim-acknowledged',
  HandoverRefused: 'dispatcher.refusal-acknowledged',
  MessageSent: 'dispatcher.sent-acknowledged',
  MessageDelivered: 'dispatcher.outcome-acknowledged',
  OpenMessagesCarried: 'dispatcher.messages-re-appended',
  ShardOpened: 'dispatcher.fence-appended',
})

interface AppenderOptions {
  /** Runs after all records of a produce are reported. */
  readonly onSettled: () => void
  /** False while messages wait for the end of others: then no record is delayed. */
  readonly mayGather: () => boolean
}

/** What the appender asks and tells the owner of a record, synchronously. */
interface AppendCallbacks {
  readonly urgency: Urgency
  /** Whether the record is still wanted. The appender asks before every try. */
  readonly isWanted: () => boolean
  /** Kafka has acknowledged the record. The appender does not call it for an unwanted record. */
  readonly onAppended: (at: Position) => void
}

type Queued = readonly [OutgoingRecord, AppendCallbacks]

/**
 * Creates an appender. It repeats a failed produce while any of its records is wanted. The failed
 * one may have landed, so a record can appear twice, under the same id.
 */
export const makeAppender = ({ mayGather, onSettled }: AppenderOptions) =>
  Effect.gen(function* () {
    const log = yield* EventLog
    /** Of the produce in progress; milliseconds since the epoch. */
    let startedAt: number | null = null
    let lastMs = 0

    const write = Effect.fnUntraced(function* (taken: ReadonlyArray<Queued>) {
      for (let failures = 1; ; failures++) {
        const batch = taken.filter(([, callbacks]) => callbacks.isWanted())
        if (batch.length === 0) return
        const records = batch.map(([record]) => record)
        const positions = yield* atAppended(log.append(records), records).pipe(
          Effect.catch((error) =>
            Effect.logWarning('appender: Kafka did not acknowledge a produce; retrying it', error).pipe(
              Effect.annotateLogs({ records: batch.length }),
              Effect.andThen(Effect.sleep(backoffMs(SHORT, failures))),
              Effect.as(null),
            ),
          ),
        )
        if (positions !== null) {
          for (const [i, [, callbacks]] of batch.entries()) {
            const at = positions[i]
            if (at !== undefined && callbacks.isWanted()) callbacks.onAppended(at)
          }
          onSettled()
          return
        }
      }
    })

    const gather = yield* makeGather<Queued, never, never>({
      enough: GATHERED_RECORDS,
      atMost: MAX_BATCH,
      flush: Effect.fnUntraced(function* (taken) {
        const start = yield* Clock.currentTimeMillis
        startedAt = start
        yield* write(taken)
        lastMs = (yield* Clock.currentTimeMillis) - start
        startedAt = null
      }),
    })

    return {
      /** Queues a record without blocking. Records land in the order of the calls. */
      append: (record: OutgoingRecord, callbacks: AppendCallbacks): void => {
        gather.add([record, callbacks], mayGather() ? GATHER_MS[callbacks.urgency] : 0)
      },
      /**
       * How long Kafka takes to acknowledge, ms: the time of the last produce, with its repeats, or the time
       * so far of the one in progress, if that is longer. `now`: milliseconds since the epoch.
       */
      delayMs: (now: number): number => Math.max(lastMs, startedAt === null ? 0 : now - startedAt),
      /** The produce loop. The owner of the appender must run it. */
      run: gather.run,
    }
  })
