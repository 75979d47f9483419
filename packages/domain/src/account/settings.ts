/** The settings of an account in a mode: defaults and overrides of the hub operator. */
import type { MessageClass } from '../values/classification.ts'
import type { Money } from '../values/money.ts'
import { DEFAULT_SOFT_THRESHOLD_PERCENT } from './spend.ts'

/** The overrides of an account in a mode, by their column names. `null`: not set. */
export interface AccountOverrides {
  readonly api_rps: number | null
  readonly batch_max: number | null
  readonly flood_pause_seconds: number | null
  readonly flood_per_hour: number | null
  readonly flood_per_day: number | null
  readonly spend_limit: string | null
  readonly soft_threshold_percent: number | null
  readonly price_otp: string | null
  readonly price_service: string | null
  readonly weight: number | null
}

export interface AccountSettings {
  readonly name: string
  readonly apiRps: number
  readonly batchMax: number
  readonly floodWindows: {
    readonly pauseSeconds: number
    readonly perHour: number
    readonly perDay: number
  }
  /** `null`: no limit. */
  readonly spendLimit: Money | null
  readonly softThresholdPercent: number
  readonly pricePerPart: Readonly<Record<MessageClass, Money>>
  /**
   * How much the account gets of a scarce resource, compared with other accounts that wait. A whole
   * number from 1 to `MAX_WEIGHT`. Clients do not see it.
   */
  readonly weight: number
}

export const MAX_WEIGHT = 100

/** The currency of prices and limits. */
export const CURRENCY = 'RUB'

/** Source of the flood windows: specification §Per-recipient anti-flood. */
export const DEFAULT_SETTINGS: AccountSettings = {
  name: '',
  apiRps: 100,
  batchMax: 1000,
  floodWindows: { pauseSeconds: 60, perHour: 5, perDay: 20 },
  spendLimit: null,
  softThresholdPercent: DEFAULT_SOFT_THRESHOLD_PERCENT,
  pricePerPart: {
    otp: { amount: '2.50', currency: CURRENCY },
    service: { amount: '2.00', currency: CURRENCY },
  },
  weight: 1,
}

const money = (amount: string | null): Money | null =>
  amount === null ? null : { amount, currency: CURRENCY }

/** Applies the overrides of an account to the defaults. */
export const effectiveSettings = (row: AccountOverrides & { readonly name: string }): AccountSettings => {
  const { floodWindows, pricePerPart } = DEFAULT_SETTINGS
  return {
    name: row.name,
    apiRps: row.api_rps ?? DEFAULT_SETTINGS.apiRps,
    batchMax: row.batch_max ?? DEFAULT_SETTINGS.batchMax,
    floodWindows: {
      pauseSeconds: row.flood_pause_seconds ?? floodWindows.pauseSeconds,
      perHour: row.flood_per_hour ?? floodWindows.perHour,
      perDay: row.flood_per_day ?? floodWindows.perDay,
    },
    spendLimit: money(row.spend_limit),
    softThresholdPercent: row.soft_threshold_percent ?? DEFAULT_SETTINGS.softThresholdPercent,
    pricePerPart: {
      otp: money(row.price_otp) ?? pricePerPart.otp,
      service: money(row.price_service) ?? pricePerPart.service,
    },
    weight: row.weight ?? DEFAULT_SETTINGS.weight,
  }
}

/**
 * How long a process caches what it has read, in milliseconds. A change by the hub operator is
 * effective everywhere after this time. Every send needs all of these values, and reading them from
 * PostgreSQL would cost more than the send.
 */
export const CACHE_TTL_MS = {
  /** An API key that exists. A revoked key therefore works for at most this time. */
  apiKey: 3000,
  /** Account settings and usable templates. Other templates are not cached. */
  settings: 2000,
  /** The hub's daily limit and its stop flag. */
  hubSettings: 2000,
  /** The weights of accounts in the dispatcher. */
  weight: 5000,
} as const
