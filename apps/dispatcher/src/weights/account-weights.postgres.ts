/** `AccountWeights` in PostgreSQL: the settings of the accounts. */
import { encodeId } from '@hub/domain'
import { CommandAccountSettings, Sql } from '@hub/store'
import { Effect, Layer } from 'effect'
import { AccountWeights } from './account-weights.port.ts'

export const accountWeightsPostgres: Layer.Layer<AccountWeights, never, Sql> = Layer.effect(
  AccountWeights,
  Effect.map(Sql, (sql) => ({
    read: Effect.map(sql.run(CommandAccountSettings.readWeights), (rows) =>
      rows.map(({ account, mode, weight }) => ({ account: encodeId('acc', account), mode, weight })),
    ),
  })),
)
