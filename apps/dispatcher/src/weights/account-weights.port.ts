/** Which accounts get more than others while all of them wait. */
import type { Mode } from '@hub/domain'
import type { StorageError } from '@hub/store'
import { Context, type Effect } from 'effect'

export interface AccountWeight {
  readonly account: string
  readonly mode: Mode
  /** A whole number from 1 to 100. */
  readonly weight: number
}

export class AccountWeights extends Context.Service<
  AccountWeights,
  {
    /** The accounts with a weight of their own. All others have `DEFAULT_SETTINGS.weight`. */
    readonly read: Effect.Effect<ReadonlyArray<AccountWeight>, StorageError>
  }
>()('@hub/dispatcher/AccountWeights') {}
