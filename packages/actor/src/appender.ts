/**
 * The produce queue to Kafka, shared by all shards of a process. Records that arrive during a
 * produce go into the next one together. Urgent records leave at once, and others some milliseconds
 * later, together with those of this time (`Urgency`).
 */
import { backoffMs, SHORT } from '@hub/flow'
import { EventLog, kafkaCrashPoints, type OutgoingRecord, type Position } from '@hub/kafka'
import { Clock, Effect, Latch } from 'effect'
import type { Urgency } from './shard.ts'

/** In a larger produce the first record would wait for the last one. */
const MAX_BATCH = 1000

/**
 * How long records are gathered. At everyday rates, a produce request for each of them would cost more
 * than all other work for them.
 */
const GATHER_MS = { soon: 10, later: 40 } as const
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

/**
 * Creates an appender. It repeats a failed produce while any of its records is wanted. The failed
 * one may have landed, so a record can appear twice, under the same id.
 */
export const makeAppender = ({ mayGather, onSettled }: AppenderOptions) =>
  Effect.gen(function* () {
    const log = yield* EventLog
    const latch = Latch.makeUnsafe(false)
    /** Open while a queued record must not be delayed. */
    const urgent = Latch.makeUnsafe(false)
    /** Open while a queued record must not be delayed for long. */
    const soon = Latch.makeUnsafe(false)
    const queue: Array<readonly [OutgoingRecord, AppendCallbacks]> = []
    /** Of the produce in progress; milliseconds since the epoch. */
    let startedAt: number | null = null
    let lastMs = 0

    const write = Effect.fnUntraced(function* (
      taken: ReadonlyArray<readonly [OutgoingRecord, AppendCallbacks]>,
    ) {
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

    const gathered = Effect.raceAllFirst([
      urgent.await,
      Effect.andThen(soon.await, Effect.sleep(GATHER_MS.soon)),
      Effect.sleep(GATHER_MS.later),
    ])

    return {
      /** Queues a record without blocking. Records land in the order of the calls. */
      append: (record: OutgoingRecord, callbacks: AppendCallbacks): void => {
        queue.push([record, callbacks])
        latch.openUnsafe()
        if (callbacks.urgency === 'now' || queue.length >= GATHERED_RECORDS) urgent.openUnsafe()
        if (callbacks.urgency === 'soon') soon.openUnsafe()
      },
      /**
       * How long Kafka takes to acknowledge, ms: the time of the last produce, with its repeats, or the time
       * so far of the one in progress, if that is longer. `now`: milliseconds since the epoch.
       */
      delayMs: (now: number): number => Math.max(lastMs, startedAt === null ? 0 : now - startedAt),
      /** The produce loop. The owner of the appender must run it. */
      run: Effect.gen(function* () {
        for (;;) {
          yield* latch.await
          if (queue.length === 0) {
            latch.closeUnsafe()
            continue
          }
          if (mayGather()) yield* gathered
          urgent.closeUnsafe()
          soon.closeUnsafe()
          const start = yield* Clock.currentTimeMillis
          startedAt = start
          yield* write(queue.splice(0, MAX_BATCH))
          lastMs = (yield* Clock.currentTimeMillis) - start
          startedAt = null
        }
      }),
    }
  })
