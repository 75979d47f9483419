/** Who calls, and what is in force for them. */
import {
  type AccountSettings,
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
