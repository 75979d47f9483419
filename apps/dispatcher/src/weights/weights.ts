/**
 * The weights of the accounts, read again every few seconds. While PostgreSQL does not answer, the
 * last ones count, and after a start the default.
 */
import { DEFAULT_SETTINGS, type Mode } from '@hub/domain'
import { Effect } from 'effect'
import { DispatcherStore } from '../store/store.port.ts'

export interface Weights {
  readonly of: (account: string, mode: Mode) => number
  readonly refresh: Effect.Effect<void>
}

const keyOf = (account: string, mode: Mode): string => `${account} ${mode}`

export const makeWeights: Effect.Effect<Weights, never, DispatcherStore> = Effect.map(
  DispatcherStore,
  (store) => {
    let weights: ReadonlyMap<string, number> = new Map()
    return {
      of: (account, mode) =>
        // Nearly always empty.
        weights.size === 0
          ? DEFAULT_SETTINGS.weight
          : (weights.get(keyOf(account, mode)) ?? DEFAULT_SETTINGS.weight),
      refresh: store.weights.pipe(
        Effect.map((rows) => {
          weights = new Map(rows.map(({ account, mode, weight }) => [keyOf(account, mode), weight]))
        }),
        Effect.catch((error) => Effect.logDebug('dispatcher: the weights were not read; retrying', error)),
      ),
    }
  },
)
