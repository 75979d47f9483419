/** Settings and templates of accounts, from PostgreSQL through a short-lived cache. */
import {
  CACHE_TTL_MS,
  CURRENCY,
  DEFAULT_SETTINGS,
  type MessageClass,
  type Mode,
  parseTemplate,
  effectiveSettings,
  spendPeriodOf,
  spendThresholdEventId,
  type StoredSettings,
} from '@hub/domain'
import { CommandAccountSettings, CommandRangeBlocks, type Queries, ReadEvents, Sql, uuidOf } from '@hub/store'
import { Context, Effect, Layer, Result } from 'effect'
import { STATEMENT_DEADLINE } from '../deadlines.ts'
import type { Owner, TemplateInUse } from './account.ts'
import { makeRefreshedCache } from './refreshed-cache.ts'

/** Entries of each cache. A parsed template has a few kilobytes at most. */
const CAPACITY = 5000

interface TemplateRow {
  readonly name: string
  readonly class: MessageClass
  readonly status: TemplateInUse['status']
  readonly body: string
  readonly sender: string
  readonly sender_status: TemplateInUse['senderStatus']
}

/** The columns of `StoredSettings`. `a`: `command.accounts`, `s`: `command.account_settings`. */
export const settingsColumns = (q: Queries) => q`
  a.name, ${CommandRangeBlocks.blockedRanges(q, 'a.id')}, ${CommandAccountSettings.settingColumns(q, 's')}`

/** A cache key in one string. Neither a UUID nor a mode contains a space. */
const keyOf = (owner: Owner, name: string): string => `${owner.accountUuid} ${owner.mode} ${name}`
const partsOf = (key: string): readonly [account: string, mode: Mode, name: string] => {
  const [account = '', mode = '', name = ''] = key.split(' ')
  return [account, mode as Mode, name]
}

/** A template in moderation is not cached: it must be usable as soon as it is approved. */
const isUsable = (template: TemplateInUse | null): boolean =>
  template?.status === 'approved' && template.senderStatus === 'registered'

export class Accounts extends Context.Service<Accounts>()('@hub/command-api/Accounts', {
  make: Effect.gen(function* () {
    const sql = yield* Sql

    const settings = yield* makeRefreshedCache({
      capacity: CAPACITY,
      lifetimeMs: () => CACHE_TTL_MS.settings,
      read: (key) => {
        const [account, mode] = partsOf(key)
        return Effect.map(
          sql.run(
            (q) => q<StoredSettings[]>`
              SELECT ${settingsColumns(q)}
                FROM command.accounts a
                LEFT JOIN command.account_settings s ON s.account = a.id AND s.mode = ${mode}
               WHERE a.id = ${account}`,
            STATEMENT_DEADLINE,
          ),
          ([row]) => (row === undefined ? DEFAULT_SETTINGS : effectiveSettings(row)),
        )
      },
    })

    const templates = yield* makeRefreshedCache({
      capacity: CAPACITY,
      lifetimeMs: (template: TemplateInUse | null) => (isUsable(template) ? CACHE_TTL_MS.settings : 0),
      read: (key) => {
        const [account, mode, name] = partsOf(key)
        return Effect.map(
          sql.run(
            (q) => q<TemplateRow[]>`
              SELECT t.name, t.class, t.status, t.body, t.sender, s.status AS sender_status
                FROM command.templates t
                JOIN command.senders s ON s.account = t.account AND s.mode = t.mode AND s.name = t.sender
               WHERE t.account = ${account} AND t.mode = ${mode} AND t.name = ${name}`,
            STATEMENT_DEADLINE,
          ),
          ([row]): TemplateInUse | null => {
            if (row === undefined) return null
            const parsed = parseTemplate(row.body)
            // Creation refuses such a body. A template that exists nevertheless cannot be sent.
            if (Result.isFailure(parsed)) return null
            return {
              name: row.name,
              class: row.class,
              status: row.status,
              sender: row.sender,
              senderStatus: row.sender_status,
              parsed: parsed.success,
            }
          },
        )
      },
    })

    return {
      settings: (owner: Owner) => settings.get(keyOf(owner, '')),
      /** Caches settings that were read together with an API key. */
      rememberSettings: (owner: Owner, row: StoredSettings) =>
        settings.set(keyOf(owner, ''), effectiveSettings(row)),
      /** `null`: the account has no template of this name in its mode. */
      template: (owner: Owner, name: string) => templates.get(keyOf(owner, name)),
      /** What the account has spent in live mode in the current period. */
      spending: (owner: Owner) =>
        sql.run(async (q) => {
          // PostgreSQL's clock decides the period. For a moment, refunds can exceed charges.
          const [row] = await q<{ at: Date; amount: string }[]>`
            SELECT present.at, greatest(coalesce(s.spent, 0), 0)::numeric(18, 2)::text AS amount
              FROM (SELECT now() AS at) AS present
              LEFT JOIN command.spend_periods s
                ON s.account = ${owner.accountUuid}
               AND s.period = date_trunc('month', present.at AT TIME ZONE 'UTC')::date`
          if (row === undefined)
            throw new Error('the query of the spending returned no row; it must return exactly one')
          const period = spendPeriodOf(row.at.getTime())
          // The event says when the threshold was reached. Its id follows from account and period.
          const event = uuidOf('evt', spendThresholdEventId(owner.account, period.day))
          const journal = { account: owner.accountUuid, mode: 'live' } as const
          const reachedAt = await ReadEvents.recordedAt(q, journal, event, new Date(period.from))
          return {
            spent: { amount: row.amount, currency: CURRENCY },
            period,
            softThresholdReachedAt: reachedAt?.getTime() ?? null,
          }
        }, STATEMENT_DEADLINE),
    }
  }),
}) {
  static readonly layer = Layer.effect(this, this.make)
}
