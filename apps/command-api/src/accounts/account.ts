/** The caller of a request, and what the API shows of an account. */
import {
  type AccountSettings,
  type KeyScopes,
  SANDBOX_PAUSE_SECONDS,
  type MessageClass,
  type Mode,
  type Money,
  spendLimitObject,
  type SpendPeriod,
  type Template,
  toTimestamp,
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
  /** What the key may do. */
  readonly scopes: KeyScopes
}

/** The owner of data. Two accounts, and the two modes of one account, share no data. */
export type Owner = Pick<Caller, 'account' | 'accountUuid' | 'mode'>

/** An owner as a key of maps. Neither a UUID nor a mode contains a space. */
export const ownerKey = ({ accountUuid, mode }: Pick<Owner, 'accountUuid' | 'mode'>): string =>
  `${accountUuid} ${mode}`

/** A template as a send needs it, with the status of its sender. */
export interface TemplateInUse {
  readonly name: string
  readonly class: MessageClass
  readonly status: 'pending_moderation' | 'approved' | 'declined'
  readonly sender: string
  readonly senderStatus: 'pending' | 'registered' | 'declined'
  readonly parsed: Template
}

const liveWindows = ({ floodWindows }: AccountSettings) => ({
  pause_seconds: floodWindows.pauseSeconds,
  per_hour: floodWindows.perHour,
  per_day: floodWindows.perDay,
})

/**
 * In test mode only one sandbox number has a window, and it is a pause. The other two values are
 * what this pause allows, because the contract has no value for "no limit".
 */
const TEST_WINDOWS = {
  pause_seconds: SANDBOX_PAUSE_SECONDS,
  per_hour: 3600 / SANDBOX_PAUSE_SECONDS,
  per_day: 86_400 / SANDBOX_PAUSE_SECONDS,
}

/** The body of `/v1/account`. `spending` is needed if a limit is set. Source: ACC-1 to ACC-5. */
export const accountBody = (
  owner: Owner,
  settings: AccountSettings,
  spending: {
    readonly spent: Money
    readonly period: SpendPeriod
    /** Milliseconds since the epoch; `null`: not in this period. */
    readonly softThresholdReachedAt: number | null
  } | null,
) => ({
  id: owner.account,
  object: 'account' as const,
  name: settings.name,
  mode: owner.mode,
  limits: { api_rps: settings.apiRps, batch_max: settings.batchMax },
  flood_windows: owner.mode === 'test' ? TEST_WINDOWS : liveWindows(settings),
  // Absent in test mode, which costs nothing. `null` in live mode without a limit.
  ...(owner.mode === 'test'
    ? undefined
    : {
        spend_limit:
          settings.spendLimit === null || spending === null
            ? null
            : {
                ...spendLimitObject({
                  ...spending,
                  limit: settings.spendLimit,
                  softThresholdPercent: settings.softThresholdPercent,
                }),
                soft_threshold_reached_at:
                  spending.softThresholdReachedAt === null
                    ? null
                    : toTimestamp(spending.softThresholdReachedAt),
              },
      }),
})
