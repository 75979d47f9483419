/**
 * How long the projector gathers records before it fetches again. A fetch and the transaction behind it cost
 * about the same for one record as for fifty, and until a message is visible, reads use the ledger. Pure.
 */

/** The facts of a message follow each other within some milliseconds. */
const FIRST_MS = 40
/** At a steady rate, the read models are so much behind at most. */
const LONGEST_MS = 160
/** While accounts with webhooks get events: their servers wait for them. A worker adds nothing to it. */
const PUBLISHING_MS = 15
/** The answer to a fetch takes less, if records wait already. */
const ANSWERED_WITHIN_MS = 25
/** A fetch with so many records costs little per record. */
const MANY_RECORDS = 200

export class GatherTime {
  #ms = FIRST_MS
  #askedAt = Number.NEGATIVE_INFINITY

  /**
   * The time after a fetch with so many records, ms. It doubles while records wait at its end, because the
   * next ones are likely to come soon. `now`: monotonic.
   */
  next(
    records: number,
    { isPublishing, now }: { readonly now: number; readonly isPublishing: boolean },
  ): number {
    const haveWaited = now - this.#askedAt < this.#ms + ANSWERED_WITHIN_MS
    const isSteady = haveWaited && !isPublishing && records < MANY_RECORDS
    this.#ms = isPublishing ? PUBLISHING_MS : isSteady ? Math.min(2 * this.#ms, LONGEST_MS) : FIRST_MS
    this.#askedAt = now
    return this.#ms
  }
}
