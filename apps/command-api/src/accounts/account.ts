/** Who calls, and what is in force for them. */
import {
  DEFAULT_SOFT_THRESHOLD_PERCENT,
  type MessageClass,
  type Mode,
  type Money,
  spendLimitObject,
  type SpendPeriod,
  type Template,
} from '@hub/domain'

/** Whose request it is, from the API key. */
export interface Caller {
  /** `acc_…` */
  readonly account: string
  /** The same as a UUID. */
  readonly accountUuid: string
  readonly mode: Mode
  /** `key_…` */
  readonly key: string
}

/** Where a piece of data belongs: nothing is ever shared between two accounts or two modes. */
export type Owner = Pick<Caller, 'account' | 'accountUuid' | 'mode'>

/** What the hub operator has set for an account in a mode; `null` where nothing is set. */
export interface SettingsRow {
  readonly name: string
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
export const settingsInForce = (row: SettingsRow): AccountSettings => {
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

/** A template as a send needs it, with what became of its sender. */
export interface TemplateInUse {
  readonly name: string
  readonly class: MessageClass
  readonly status: 'pending_moderation' | 'approved' | 'declined'
  readonly sender: string
  readonly senderStatus: 'pending' | 'registered' | 'declined'
  readonly parsed: Template
}

/** `/v1/account`; `spending` is needed where a limit is set. Source: specification, Account; contract, Account. */
export const accountBody = (
  owner: Owner,
  settings: AccountSettings,
  spending: { readonly spent: Money; readonly period: SpendPeriod } | null,
) => ({
  id: owner.account,
  object: 'account' as const,
  name: settings.name,
  mode: owner.mode,
  limits: { api_rps: settings.apiRps, batch_max: settings.batchMax },
  flood_windows: {
    pause_seconds: settings.floodWindows.pauseSeconds,
    per_hour: settings.floodWindows.perHour,
    per_day: settings.floodWindows.perDay,
  },
  // Absent in test mode, which costs nothing; null in live mode where no limit is set.
  ...(owner.mode === 'test'
    ? undefined
    : {
        spend_limit:
          settings.spendLimit === null || spending === null
            ? null
            : spendLimitObject({
                ...spending,
                limit: settings.spendLimit,
                softThresholdPercent: settings.softThresholdPercent,
              }),
      }),
})
