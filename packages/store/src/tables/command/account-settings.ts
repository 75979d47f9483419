/**
 * `command.account_settings`: the settings of an account and mode that differ from the defaults.
 *
 * Owner: command-api. Hub staff change the settings. Ids of accounts are UUIDs.
 */
import { type AccountOverrides, type Mode, SETTING_NAMES, type SettingName } from '@hub/domain'
import type { Queries } from '../../pool.ts'
import { selectList, type SqlFragment } from '../../sql.ts'

export interface AccountSettingsRow extends AccountOverrides {
  readonly mode: Mode
}

/** The columns of `AccountOverrides`, of a table or an alias. */
export const settingColumns = (q: Queries, table: string): SqlFragment =>
  q`${q(SETTING_NAMES.map((name) => `${table}.${name}`))}`

/** One row for each mode, with `null` for each setting that has its default. */
export const readAll = async (q: Queries, account: string): Promise<ReadonlyArray<AccountSettingsRow>> =>
  q<AccountSettingsRow[]>`
    SELECT m.mode, ${settingColumns(q, 's')}
      FROM unnest(enum_range(NULL::command.mode)) AS m (mode)
      LEFT JOIN command.account_settings s ON s.account = ${account} AND s.mode = m.mode
     ORDER BY m.mode`

/** What the dispatcher needs of the settings of an account that has a value of its own. */
export interface WeightRow {
  readonly account: string
  readonly mode: Mode
  readonly weight: number
}

/** The accounts with a weight of their own. */
export const readWeights = async (q: Queries): Promise<ReadonlyArray<WeightRow>> => q<WeightRow[]>`
    SELECT ${selectList<WeightRow>(q, { account: 'account', mode: 'mode', weight: 'weight' })}
      FROM command.account_settings WHERE weight IS NOT NULL`

/** Changes the given settings only. `null` restores a default. */
export const update = async (
  q: Queries,
  account: string,
  mode: Mode,
  changes: Partial<Record<SettingName, number | string | null>>,
): Promise<void> => {
  const row = { account, mode, ...changes }
  const names = Object.keys(changes) as ReadonlyArray<SettingName>
  await q`
    INSERT INTO command.account_settings ${q(row, 'account', 'mode', ...names)}
    ON CONFLICT (account, mode) DO UPDATE SET ${q(row, ...names)}`
}
