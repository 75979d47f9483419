/** What is in force for an account in a mode: the defaults, and what the hub operator has set over them. */
import type { MessageClass, Money } from '../vocabulary.ts'
import { DEFAULT_SOFT_THRESHOLD_PERCENT } from './spend.ts'

/** What the hub operator has set for an account in a mode, by its name in tables and on the command line; `null` where nothing is set. */
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
}

/** What is in force. */
export interface AccountSettings {
  readonly name: string
  readonly apiRps: number
  readonly batchMax: number
  readonly floodWindows: {
    readonly pauseSeconds: number
    readonly perHour: number
    readonly perDay: number
  }
  /** `null` when there is no limit. */
  readonly spendLimit: Money | null
  readonly softThresholdPercent: number
  readonly pricePerPart: Readonly<Record<MessageClass, Money>>
}

/** Of prices and limits. Source: contract, General (defaults). */
export const CURRENCY = 'RUB'

/** Source: contract, General (defaults, tariff); specification, Per-recipient anti-flood. */
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
}

const money = (amount: string | null): Money | null =>
  amount === null ? null : { amount, currency: CURRENCY }

/** Defaults, with what the hub operator has set put over them. */
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
  }
}

/**
 * How long running processes believe what they have read, milliseconds: a change by the hub operator is in force everywhere after so long. Every send
 * asks for all of them, and asking PostgreSQL each time would cost more than the send itself.
 */
export const CACHE_TTL_MS = {
  /** A key that was found: a revoked one works at most so much longer. */
  apiKey: 3000,
  /** Settings of an account, and a template that can be used. One that cannot is asked for each time: it works the moment it may. */
  settings: 2000,
  /** The hub's daily limit, and its stop. */
  hubSettings: 2000,
} as const
