/** The port to the opt-outs: what recipients' own words have done to them. */
import type { OptOutDecision, ReceivedWord } from '@hub/domain'
import type { StorageError } from '@hub/store'
import { Context, type Effect } from 'effect'

/** A stop or start word, and who wrote it. */
export interface RecipientWord extends ReceivedWord {
  /** Recipient hash, 64 hexadecimal digits. */
  readonly recipient: string
}

export class OptOuts extends Context.Service<
  OptOuts,
  {
    /**
     * Applies words, those of one recipient in the order given, all or none; tells what each has changed. Safe to repeat, also for two
     * processes at once.
     */
    readonly apply: (
      words: ReadonlyArray<RecipientWord>,
    ) => Effect.Effect<ReadonlyArray<OptOutDecision['change']>, StorageError>
  }
>()('@hub/dispatcher/OptOuts') {}
