/**
 * `command.account_settings`: the settings of an account and mode that differ from the defaults.
 *
 * Owner: command-api. Hub staff change the settings. Ids of accounts are UUIDs.
 */
import { type AccountOverrides, type Mode, SETTING_NAMES, type SettingName } from '@hub/domain'
import type { Queries } from '../../pool.ts'
import type { SqlFragment } from '../../sql.ts'

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

/** The settings that the dispatcher needs. The type of the row and both parts of the statement follow from it. */
const DISPATCH_SETTINGS = ['weight'] as const satisfies ReadonlyArray<SettingName>

export interface DispatchSettingsRow extends Pick<AccountOverrides, (typeof DISPATCH_SETTINGS)[number]> {
  readonly account: string
  readonly mode: Mode
}

/** The accounts for which a setting of the dispatcher is changed. `null`: the default. */
export const readDispatchSettings = async (q: Queries): Promise<ReadonlyArray<DispatchSettingsRow>> => q<
  DispatchSettingsRow[]
>`
    SELECT account, mode, ${q(DISPATCH_SETTINGS)} FROM command.account_settings
     WHERE num_nonnulls(${q(DISPATCH_SETTINGS)}) > 0`

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
