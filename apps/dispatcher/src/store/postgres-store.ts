/** The store on PostgreSQL. */
import { ACCOUNT_SETTINGS, encodeId } from '@hub/domain'
import { CommandAccountSettings, Sql } from '@hub/store'
import { Effect, Layer } from 'effect'
import { insertInbound } from './inbound-messages.ts'
import { lookUpsIn } from './look-ups.ts'
import { applyWords } from './opt-outs.ts'
import { DispatcherStore } from './store.port.ts'

export const layerPostgresStore: Layer.Layer<DispatcherStore, never, Sql> = Layer.effect(
  DispatcherStore,
  Effect.map(Sql, (sql) => ({
    ...lookUpsIn(sql),
    storeInbound: (messages) =>
      messages.length === 0 ? Effect.void : sql.run((q) => insertInbound(q, messages)),
    applyWords: (words) =>
      words.length === 0 ? Effect.succeed([]) : sql.transaction((q) => applyWords(q, words)),
    weights: Effect.map(sql.run(CommandAccountSettings.readDispatchSettings), (rows) =>
      rows.map(({ account, mode, weight }) => ({
        account: encodeId('acc', account),
        mode,
        weight: weight ?? ACCOUNT_SETTINGS.weight.default,
      })),
    ),
  })),
)
