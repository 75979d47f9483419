/** The port to the opt-outs that recipients change with stop and start words. */
import type { OptOutDecision, ReceivedWord } from '@hub/domain'
import type { StorageError } from '@hub/store'
import { Context, type Effect } from 'effect'

/** A stop or start word of a recipient. */
export interface RecipientWord extends ReceivedWord {
  readonly recipient: string
  /** The case-folded keyword, for the record of the opt-out. */
  readonly keyword: string
}

export class OptOuts extends Context.Service<
  OptOuts,
  {
    /**
     * Applies words in one transaction, in the given order, and returns what each one changed. A
     * repetition is safe, also by two processes at once.
     */
    readonly apply: (
      words: ReadonlyArray<RecipientWord>,
    ) => Effect.Effect<ReadonlyArray<OptOutDecision['change']>, StorageError>
  }
>()('@hub/dispatcher/OptOuts') {}
