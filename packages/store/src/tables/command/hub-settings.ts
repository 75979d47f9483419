/**
 * `command.hub_settings`: the one row of limits that apply to the whole hub.
 *
 * Owner: command-api. Hub staff change the row.
 */
import type { Queries } from '../../pool.ts'

export interface HubSettingsRow {
  /** Messages per day (UTC); `null`: no limit. */
  readonly daily_limit: number | null
  readonly stopped_until: Date | null
  /** Whether `stopped_until` is in the future, by the clock of PostgreSQL. */
  readonly stopped: boolean
}

export const read = async (q: Queries): Promise<HubSettingsRow> => {
  const [row] = await q<HubSettingsRow[]>`
    SELECT daily_limit, stopped_until, coalesce(stopped_until > now(), false) AS stopped FROM command.hub_settings`
  return row ?? { daily_limit: null, stopped_until: null, stopped: false }
}

export const setDailyLimit = async (q: Queries, limit: number | null): Promise<void> => {
  await q`UPDATE command.hub_settings SET daily_limit = ${limit}`
}

/** Stops the hub for some seconds from now. `null` ends a stop. */
export const setStop = async (q: Queries, seconds: number | null): Promise<void> => {
  await q`UPDATE command.hub_settings SET stopped_until = now() + make_interval(secs => ${seconds})`
}
