/**
 * The port of the shared texts: small values that several processes change, one after the other. The
 * adapters are in this folder, and `port.contract.ts` is the contract suite that each of them passes.
 */
import { Context, type Effect } from 'effect'
import type { CountersUnavailable } from '../port.ts'

export interface Changed<A> {
  readonly text: string
  readonly result: A
}

export interface StoredText {
  /** `null` if there is none, or if it has expired. */
  readonly text: string | null
  /** The clock of the store, milliseconds since the epoch. */
  readonly now: number
}

export interface SharedTextsShape {
  /**
   * Changes the text of a name, and returns the result of the change that took effect. No other
   * process changes the text between the read and the write. `change` is pure, because it runs again
   * after the change of another process.
   *
   * `text`: `null` if there is none, or if it has expired. `now`: the clock of the store, milliseconds
   * since the epoch. `ttlMs`: the time to live from the change on. A change that failed may have taken
   * effect.
   */
  readonly change: <A>(
    name: string,
    ttlMs: number,
    change: (text: string | null, now: number) => Changed<A>,
  ) => Effect.Effect<A, CountersUnavailable>
  /** Reads the text of a name, and the clock of the store. It changes nothing, also not the time to live. */
  readonly read: (name: string) => Effect.Effect<StoredText, CountersUnavailable>
}

/** The shared texts: `sharedTextsLayer` in Redis, `memorySharedTexts` in memory. */
export class SharedTexts extends Context.Service<SharedTexts, SharedTextsShape>()(
  '@hub/counters/SharedTexts',
) {}
