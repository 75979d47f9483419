/** The caller of a request, and what the API shows of an account. */
import {
  type AccountSettings,
  type MessageClass,
  type Mode,
  type Money,
  spendLimitObject,
  type SpendPeriod,
  type Template,
} from '@hub/domain'

/** The owner of the API key. */
export interface Caller {
  /** `acc_…` */
  readonly account: string
  /** The same id as a UUID. */
  readonly accountUuid: string
  readonly mode: Mode
  /** `key_…` */
  readonly key: string
}

/** The owner of data. Two accounts, and the two modes of one account, share no data. */
export type Owner = Pick<Caller, 'account' | 'accountUuid' | 'mode'>

/** A template as a send needs it, with the status of its sender. */
export interface TemplateInUse {
  readonly name: string
  readonly class: MessageClass
  readonly status: 'pending_moderation' | 'approved' | 'declined'
  readonly sender: string
  readonly senderStatus: 'pending' | 'registered' | 'declined'
  readonly parsed: Template
}

/** The body of `/v1/account`. `spending` is needed if a limit is set. Contract, Account. */
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
  // Absent in test mode, which costs nothing. `null` in live mode without a limit.
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
