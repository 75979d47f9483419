/** The settings of an account in a mode: defaults and overrides of the hub operator. */
import type { MessageClass } from '../values/classification.ts'
import type { Money } from '../values/money.ts'
import { DEFAULT_SOFT_THRESHOLD_PERCENT } from './spend.ts'

/** The currency of prices and limits. */
export const CURRENCY = 'RUB'

/** A plausibility limit: no rate or window of an account needs more. */
const MAX_INTEGER = 1_000_000
const SECONDS_OF_DAY = 86_400

/** A setting that is a whole number. */
export interface IntegerSetting {
  readonly minimum: number
  readonly maximum: number
  readonly default: number
  /** For hub staff. */
  readonly meaning: string
}

/** A setting that is an amount of `CURRENCY` with two decimals, as a text. */
export interface AmountSetting {
  /** `null`: no limit. */
  readonly default: string | null
  readonly meaning: string
}

/**
 * The settings of an account in a mode. The names are those of the columns of `command.account_settings`, of the
 * operations API and, with dashes, of the flags of `hubctl accounts set`. Source of the flood windows:
 * LIM-6.
 */
export const ACCOUNT_SETTINGS = {
  api_rps: { minimum: 1, maximum: MAX_INTEGER, default: 100, meaning: 'Requests per second, for each key' },
  batch_max: { minimum: 1, maximum: 10_000, default: 1000, meaning: 'Messages in a batch' },
  flood_pause_seconds: {
    minimum: 0,
    maximum: SECONDS_OF_DAY,
    default: 60,
    meaning: 'Seconds between two messages to one number',
  },
  flood_per_hour: {
    minimum: 1,
    maximum: MAX_INTEGER,
    default: 5,
    meaning: 'Messages to one number in an hour',
  },
  flood_per_day: {
    minimum: 1,
    maximum: MAX_INTEGER,
    default: 20,
    meaning: 'Messages to one number in a day',
  },
  spend_limit: { default: null, meaning: `Maximum spend in a calendar month (UTC), ${CURRENCY}` },
  soft_threshold_percent: {
    minimum: 1,
    maximum: 100,
    default: DEFAULT_SOFT_THRESHOLD_PERCENT,
    meaning: 'Percentage of the spend limit at which the event account.spend_threshold is sent',
  },
  price_otp: { default: '2.50', meaning: `Price of a part of class otp, ${CURRENCY}` },
  price_service: { default: '2.00', meaning: `Price of a part of class service, ${CURRENCY}` },
  /** How much the account gets of a scarce resource, compared with other accounts that wait. */
  weight: {
    minimum: 1,
    maximum: 100,
    default: 1,
    meaning: 'Parts that are submitted for one part of an account with weight 1, while both wait',
  },
} as const satisfies Readonly<Record<string, IntegerSetting | AmountSetting>>

export type SettingName = keyof typeof ACCOUNT_SETTINGS
type IntegerName = {
  [Name in SettingName]: (typeof ACCOUNT_SETTINGS)[Name] extends IntegerSetting ? Name : never
}[SettingName]

export const SETTING_NAMES = Object.keys(ACCOUNT_SETTINGS) as ReadonlyArray<SettingName>

/** Makes one value for each setting, for example its flag or its schema. */
export const mapSettings = <Integer, Amount>(
  ofInteger: (setting: IntegerSetting, name: SettingName) => Integer,
  ofAmount: (setting: AmountSetting, name: SettingName) => Amount,
) =>
  Object.fromEntries(
    Object.entries<IntegerSetting | AmountSetting>(ACCOUNT_SETTINGS).map(([name, setting]) => [
      name,
      'minimum' in setting ? ofInteger(setting, name as SettingName) : ofAmount(setting, name as SettingName),
    ]),
  ) as { readonly [Name in SettingName]: Name extends IntegerName ? Integer : Amount }

/** The values of all settings. Only `spend_limit` can be `null`. */
export type SettingValues = {
  readonly [Name in SettingName]: Name extends IntegerName
    ? number
    : null extends (typeof ACCOUNT_SETTINGS)[Name]['default']
      ? string | null
      : string
}

/** The settings of an account in a mode that hub staff changed. `null`: the default. */
export type AccountOverrides = { readonly [Name in SettingName]: SettingValues[Name] | null }

const NO_OVERRIDES = mapSettings(
  () => null,
  () => null,
)

/** The values in force: the overrides, and the defaults of all others. */
export const settingValues = (overrides: AccountOverrides): SettingValues =>
  Object.fromEntries(
    SETTING_NAMES.map((name) => [name, overrides[name] ?? ACCOUNT_SETTINGS[name].default]),
  ) as unknown as SettingValues

/** The settings in the form in which the hub uses them. */
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
  /** The API of clients does not show it. */
  readonly weight: number
  /** Number ranges that live messages cannot be sent to for now: `912`. */
  readonly blockedRanges: ReadonlyArray<string>
}

const money = (amount: string): Money => ({ amount, currency: CURRENCY })

/** What is stored of an account in a mode. */
export interface StoredSettings extends AccountOverrides {
  readonly name: string
  /** Those whose time is not over. */
  readonly blocked_ranges: ReadonlyArray<string>
}

/** Applies the overrides of an account to the defaults. */
export const effectiveSettings = ({
  blocked_ranges,
  name,
  ...overrides
}: StoredSettings): AccountSettings => {
  const values = settingValues(overrides)
  return {
    name,
    apiRps: values.api_rps,
    batchMax: values.batch_max,
    floodWindows: {
      pauseSeconds: values.flood_pause_seconds,
      perHour: values.flood_per_hour,
      perDay: values.flood_per_day,
    },
    spendLimit: values.spend_limit === null ? null : money(values.spend_limit),
    softThresholdPercent: values.soft_threshold_percent,
    pricePerPart: { otp: money(values.price_otp), service: money(values.price_service) },
    weight: values.weight,
    blockedRanges: blocked_ranges,
  }
}

export const DEFAULT_SETTINGS = effectiveSettings({ name: '', blocked_ranges: [], ...NO_OVERRIDES })

/**
 * How long a process caches what it has read, in milliseconds. A change by the hub operator is
 * effective everywhere after this time. Every send needs all of these values, and reading them from
 * PostgreSQL would cost more than the send.
 */
export const CACHE_TTL_MS = {
  /** An API key that exists. A revoked key therefore works for at most this time. */
  apiKey: 3000,
  /** Account settings, blocked ranges and usable templates. Other templates are not cached. */
  settings: 2000,
  /** The hub's daily limit and its stop flag. */
  hubSettings: 2000,
  /** The weights of accounts in the dispatcher. */
  weight: 5000,
} as const
