/**
 * Gathers items and flushes them together, because a flush costs about the same for one item as for many.
 * One flush runs at a time. Items that are added meanwhile wait for the next one.
 */
import { Clock, Effect } from 'effect'
import { makeWakeSignal } from './wake-signal.ts'

interface GatherOptions<A, E, R> {
  /** So many items do not wait. */
  readonly enough: number
  /** Items of one flush. Default: all that wait. */
  readonly atMost?: number
  /** The items are in the order in which they were added. */
  readonly flush: (items: ReadonlyArray<A>) => Effect.Effect<void, E, R>
}

export const makeGather = Effect.fnUntraced(function* <A, E, R>(options: GatherOptions<A, E, R>) {
  const { atMost = Infinity, enough, flush } = options
  const clock = yield* Clock.Clock
  const signal = makeWakeSignal()
  const items: Array<A> = []
  /** When the next flush begins, milliseconds since the epoch; `Infinity` without items. */
  let dueAt = Infinity

  const dueBy = (at: number): void => {
    if (at >= dueAt) return
    dueAt = at
    signal.notify()
  }
  const untilDue = Effect.gen(function* () {
    while (clock.currentTimeMillisUnsafe() < dueAt) yield* signal.waitUntil(dueAt === Infinity ? null : dueAt)
  })
  const flushNext = Effect.suspend(() => {
    const taken = items.splice(0, atMost)
    // The others have waited for this flush.
    dueAt = items.length === 0 ? Infinity : Number.NEGATIVE_INFINITY
    return taken.length === 0 ? Effect.void : flush(taken)
  })

  return {
    /** Adds an item, which waits for others so long at most. */
    add: (item: A, withinMs: number): void => {
      items.push(item)
      dueBy(
        withinMs <= 0 || items.length >= enough
          ? Number.NEGATIVE_INFINITY
          : clock.currentTimeMillisUnsafe() + withinMs,
      )
    },
    /** The items that wait. */
    waiting: (): ReadonlyArray<A> => items,
    /** The items that wait must not wait any more. */
    hurry: (): void => {
      if (items.length > 0) dueBy(Number.NEGATIVE_INFINITY)
    },
    /** Flushes until it is interrupted, or a flush fails. The owner must run it once. */
    run: Effect.forever(Effect.andThen(untilDue, flushNext)),
    /** Flushes what waits, at once. For the end of the owner, after `run` was interrupted. */
    flush: flushNext,
  }
})
