/**
 * The rule for the start of an acceptance batch, and which sends it takes. Pure: no clock, no I/O.
 *
 *  1. An acceptance batch costs the same for one send as for fifty. So a second one starts only if at
 *     least half as many sends wait as are in progress.
 *  2. A further one starts only if the servers are slow (`SLOW_AFTER_MS`).
 *  3. If many sends wait or are in progress, codes have acceptance batches of their own
 *     (`SHARED_SENDS`), by the same rules.
 *  4. A batch of few sends, none of them a code, gathers others first (`gathersFirst`).
 */
import type { Taken } from './send-queue.ts'

/**
 * Acceptance batches in progress. With one, the first send after an answer would start a batch
 * alone, and all others would wait for it; the second batch takes them. The unique index on
 * references orders them.
 */
const BATCHES_IN_PROGRESS = 2
/**
 * While PostgreSQL is slow, sends would wait for two slow acceptance batches, and then miss their
 * deadline. So another one starts this long after the last one began. All together are as many as the
 * connections of the pool by default: a commit with a spend limit takes a connection for itself.
 */
const SLOW_AFTER_MS = 200
export const SLOW_BATCHES_IN_PROGRESS = 10
/**
 * If more sends than this wait or are being recorded, codes (`otp`) have acceptance batches of their
 * own, in addition to the others. So a code never waits until hundreds of other sends are recorded.
 * Fewer sends share acceptance batches, because each one has a cost of its own.
 */
const SHARED_SENDS = 128
/** So many waiting sends do not wait for more. */
const GATHERED_SENDS = 32

/** Acceptance batches in progress that take the same sends. */
interface InProgress {
  readonly batches: number
  readonly sends: number
  /** When the last one began, milliseconds. */
  readonly lastBeganAt: number
}
const NONE: InProgress = { batches: 0, sends: 0, lastBeganAt: 0 }

/** The acceptance batches in progress. */
export interface Batches {
  /** Those with only codes. */
  readonly codes: InProgress
  readonly others: InProgress
  /** Whether another send is likely to arrive soon. */
  readonly areManyLikely: boolean
}
export const NO_BATCHES: Batches = { codes: NONE, others: NONE, areManyLikely: false }

/** The sends that wait for an acceptance batch: those of requests with only codes, and the others. */
export interface Waiting {
  readonly codes: number
  readonly others: number
}

const kindOf = (taken: Taken): 'codes' | 'others' => (taken === 'codes' ? 'codes' : 'others')
const all = ({ codes, others }: Waiting): number => codes + others
export const inProgress = ({ codes, others }: Batches): number => codes.batches + others.batches

/** A batch with so many sends began. */
export const begun = (batches: Batches, taken: Taken, sends: number, at: number): Batches => {
  const of = batches[kindOf(taken)]
  return {
    ...batches,
    [kindOf(taken)]: { batches: of.batches + 1, sends: of.sends + sends, lastBeganAt: at },
  }
}

/** A batch with so many sends ended, while others wait. */
export const ended = (batches: Batches, taken: Taken, sends: number, waiting: Waiting): Batches => {
  const of = batches[kindOf(taken)]
  return {
    ...batches,
    [kindOf(taken)]: { ...of, batches: of.batches - 1, sends: of.sends - sends },
    areManyLikely: sends > 1 || all(waiting) > 0,
  }
}

/**
 * The sends that the next batch takes; `null`: none is worth starting. `checkedAt`: when it was last
 * checked whether the servers are slow, milliseconds.
 */
export const nextBatch = (waiting: Waiting, batches: Batches, checkedAt: number): Taken | null => {
  const isWorthStarting = (of: InProgress, sends: number): boolean => {
    if (sends === 0 || of.batches === 0) return sends > 0
    if (of.batches < BATCHES_IN_PROGRESS && 2 * sends >= of.sends) return true
    return checkedAt - of.lastBeganAt >= SLOW_AFTER_MS && inProgress(batches) < SLOW_BATCHES_IN_PROGRESS
  }
  const { codes, others } = batches
  const haveOwnBatches = all(waiting) + codes.sends + others.sends > SHARED_SENDS
  if (haveOwnBatches && isWorthStarting(codes, waiting.codes)) return 'codes'
  // Without other sends, all batches take codes.
  const taken = haveOwnBatches && waiting.others > 0 ? 'others' : 'all'
  return isWorthStarting(others, taken === 'others' ? waiting.others : all(waiting)) ? taken : null
}

/**
 * Whether a batch that is worth starting waits for more sends first. A code ends the wait, and the
 * sends of a client that waits for each answer never begin one.
 */
export const gathersFirst = (waiting: Waiting, { areManyLikely }: Batches): boolean =>
  areManyLikely && waiting.codes === 0 && all(waiting) < GATHERED_SENDS
