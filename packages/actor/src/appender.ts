/**
 * One line to the log for all shards of a process: what is handed in while a produce is under way goes together into
 * the next one. No timer, so a lone record goes out at once.
 */
import { EventLog, type OutgoingRecord, type Position } from '@hub/kafka'
import { Effect, Latch } from 'effect'

/** A produce of more records than this would only make the first wait for the last. */
const MAX_BATCH = 1000

/** After a failed produce: long enough not to hammer a broker that is starting, short enough not to be noticed. */
const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 1000

/** What becomes of a record. Both are called synchronously. */
export interface Ticket {
  /** Whether the record is still to be written; asked before every try. */
  readonly isWanted: () => boolean
  /** The log has acknowledged it. Not called when it was not wanted any more. */
  readonly onAppended: (at: Position) => void
}

export interface Appender {
  /** Takes a record over; never blocks. Records of one appender land in the order in which they were handed in. */
  readonly append: (record: OutgoingRecord, ticket: Ticket) => void
  /** Records not acknowledged yet. */
  readonly waiting: () => number
  /** The line itself; to be run by whoever made it, for as long as it is to work. */
  readonly run: Effect.Effect<never>
}

/**
 * A line. A produce that fails is tried again for as long as any of its records is wanted: it may have landed,
 * so a record can appear twice, under the same id. `onSettled` is called after the records of a produce have been told.
 */
export const makeAppender = (onSettled: () => void): Effect.Effect<Appender, never, EventLog> =>
  Effect.gen(function* () {
    const log = yield* EventLog
    const latch = Latch.makeUnsafe(false)
    const queue: Array<readonly [OutgoingRecord, Ticket]> = []
    let underWay = 0

    const write = Effect.fnUntraced(function* (taken: ReadonlyArray<readonly [OutgoingRecord, Ticket]>) {
      let pause = FIRST_PAUSE_MS
      for (;;) {
        const batch = taken.filter(([, ticket]) => ticket.isWanted())
        underWay = batch.length
        if (batch.length === 0) return
        const positions = yield* log
          .append(batch.map(([record]) => record))
          .pipe(
            Effect.catch((error) =>
              Effect.logWarning('the log did not confirm; trying again', error).pipe(
                Effect.annotateLogs({ records: batch.length }),
                Effect.andThen(Effect.sleep(pause)),
                Effect.as(null),
              ),
            ),
          )
        if (positions !== null) {
          underWay = 0
          for (const [i, [, ticket]] of batch.entries()) {
            const at = positions[i]
            if (at !== undefined && ticket.isWanted()) ticket.onAppended(at)
          }
          onSettled()
          return
        }
        pause = Math.min(2 * pause, LONGEST_PAUSE_MS)
      }
    })

    return {
      append: (record, ticket) => {
        queue.push([record, ticket])
        latch.openUnsafe()
      },
      waiting: () => queue.length + underWay,
      run: Effect.gen(function* () {
        for (;;) {
          yield* latch.await
          if (queue.length === 0) latch.closeUnsafe()
          else yield* write(queue.splice(0, MAX_BATCH))
        }
      }),
    }
  })
