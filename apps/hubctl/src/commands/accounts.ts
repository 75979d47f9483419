/** `hubctl accounts`: accounts with their settings and their spend. */
import {
  type AccountOverrides,
  type AccountSettings,
  CACHE_TTL_MS,
  CURRENCY,
  DEFAULT_SETTINGS,
  effectiveSettings,
  encodeId,
  MAX_WEIGHT,
  MODES,
  spendPeriodOf,
} from '@hub/domain'
import { LONGEST_LIFETIME_SECONDS } from '@hub/config'
import { CommandAccounts, CommandAccountSettings, CommandSpendPeriods, ReadMessages, Sql } from '@hub/store'
import { Clock, Effect, Option } from 'effect'
import { Argument, Flag } from 'effect/cli'
import { audited } from '../audit/audit-trail.ts'
import {
  accountArgument,
  accountFlag,
  generateId,
  type Id,
  limitFlag,
  plainLine,
  takesEffect,
} from '../command-line/arguments.ts'
import { defineCommand, defineGroup, NOTHING } from '../command-line/command.ts'
import { confirm } from '../command-line/confirm.ts'
import { database, query } from '../command-line/connections.ts'
import { refused, usageError } from '../command-line/failure.ts'
import { fields, show, showList, table } from '../command-line/output.ts'
import * as Certifications from '../tables/certifications.ts'

/** The settings of an account, by column. A flag has the name of the column with dashes. */
const OVERRIDES = {
  api_rps: 'Requests per second, for each key',
  batch_max: 'Messages in a batch',
  flood_pause_seconds: 'Seconds between two messages to one number',
  flood_per_hour: 'Messages to one number in an hour',
  flood_per_day: 'Messages to one number in a day',
  spend_limit: `Maximum spend in a calendar month (UTC), ${CURRENCY}`,
  soft_threshold_percent: 'Percentage of the spend limit at which the event account.spend_threshold is sent',
  price_otp: `Price of a part of class otp, ${CURRENCY}`,
  price_service: `Price of a part of class service, ${CURRENCY}`,
  weight: 'Parts that are handed over for one part of an account with weight 1, while both wait',
} as const satisfies Record<keyof AccountOverrides, string>
type Override = keyof typeof OVERRIDES
const NAMES = Object.keys(OVERRIDES) as ReadonlyArray<Override>

const valuesOf = (settings: AccountSettings): Readonly<Record<Override, number | string | null>> => ({
  api_rps: settings.apiRps,
  batch_max: settings.batchMax,
  flood_pause_seconds: settings.floodWindows.pauseSeconds,
  flood_per_hour: settings.floodWindows.perHour,
  flood_per_day: settings.floodWindows.perDay,
  spend_limit: settings.spendLimit?.amount ?? null,
  soft_threshold_percent: settings.softThresholdPercent,
  price_otp: settings.pricePerPart.otp.amount,
  price_service: settings.pricePerPart.service.amount,
  weight: settings.weight,
})
const DEFAULTS = valuesOf(DEFAULT_SETTINGS)

const flagName = (name: Override): string => name.replaceAll('_', '-')

const describeFlag = (name: Override): string => `${OVERRIDES[name]} (default ${DEFAULTS[name] ?? 'none'})`

/** A million entries of an index are read in a second. */
const BACKLOG_DEADLINE = '20 seconds'

/** A plausibility limit: no rate or window of an account needs more. */
const MAX_INTEGER = 1_000_000

const integerFlag = (name: Override, min: number, max: number = MAX_INTEGER) =>
  Flag.Int(flagName(name)).pipe(
    Flag.withDescription(describeFlag(name)),
    Flag.filter(
      (value) => value >= min && value <= max,
      () => `a whole number from ${min} to ${max}`,
    ),
    Flag.optional,
  )

/** Parses an amount to two fraction digits; `null` for other texts. */
export const parseAmount = (text: string): string | null => {
  const [, units, fraction = ''] = /^(\d{1,9})(?:\.(\d{1,2}))?$/u.exec(text) ?? []
  return units === undefined ? null : `${BigInt(units)}.${fraction.padEnd(2, '0')}`
}

const amountFlag = (name: Override) =>
  Flag.String(flagName(name)).pipe(
    Flag.withDescription(describeFlag(name)),
    Flag.withMetavar('12.50'),
    Flag.filterMap(
      (text) => Option.fromNullishOr(parseAmount(text)),
      () => 'an amount, such as 12.50',
    ),
    Flag.optional,
  )

export const accountNotFound = ({ id }: Id) => refused('account_not_found', `There is no account ${id}.`)

/** Returns the name of the account, or fails if it does not exist. */
export const requireAccount = Effect.fnUntraced(function* (account: Id) {
  const name = yield* query((q) => CommandAccounts.readName(q, account.uuid))
  return name ?? (yield* accountNotFound(account))
})

/** The effective settings of an account in each mode, and the names of the overridden ones. */
const readModes = Effect.fnUntraced(function* (account: Id, name: string) {
  const rows = yield* query((q) => CommandAccountSettings.readAll(q, account.uuid))
  return rows.map((row) => {
    const values = valuesOf(effectiveSettings({ name, ...row }))
    return {
      mode: row.mode,
      in_force: row.mode === 'test' ? { ...values, spend_limit: null } : values,
      overridden: NAMES.filter((override) => row[override] !== null),
    }
  })
})

const list = defineCommand(
  'list',
  {
    short: 'List accounts',
    about:
      'Lists accounts, newest first, with the numbers of their working keys, their weights and their ' +
      'certification.',
    changes: NOTHING,
    examples: [{ command: 'hubctl accounts list' }],
    needs: database,
  },
  { limit: limitFlag },
  Effect.fnUntraced(function* ({ limit }) {
    const rows = yield* query((q) => CommandAccounts.readNewest(q, limit))
    const ids = rows.map(({ id }) => id)
    const certifications = yield* query((q) => Certifications.read(q, ids))
    const data = rows.map((row) => ({
      ...row,
      id: encodeId('acc', row.id),
      test_weight: row.test_weight ?? DEFAULT_SETTINGS.weight,
      live_weight: row.live_weight ?? DEFAULT_SETTINGS.weight,
      certified: certifications.has(row.id),
    }))
    yield* showList(data, {
      account: (row) => row.id,
      name: (row) => row.name,
      created: (row) => row.created_at.toISOString(),
      'test keys': (row) => row.test_keys,
      'live keys': (row) => row.live_keys,
      'test weight': (row) => row.test_weight,
      'live weight': (row) => row.live_weight,
      certified: (row) => row.certified,
    })
  }),
)

const showOne = defineCommand(
  'show',
  {
    short: 'Show the settings and the spend of an account',
    about:
      'Shows the effective settings of an account in each mode, marks those that differ from the ' +
      'defaults, and shows the spend of the current month.',
    changes: NOTHING,
    examples: [{ command: 'hubctl accounts show acc_01m7yt89qhe54swwc8wkxj6n8e' }],
    needs: database,
  },
  { account: accountArgument },
  Effect.fnUntraced(function* ({ account }) {
    const name = yield* requireAccount(account)
    const period = spendPeriodOf(yield* Clock.currentTimeMillis)
    const [modes, spend] = yield* Effect.all([
      readModes(account, name),
      query((q) => CommandSpendPeriods.read(q, { account: account.id, period: period.day })),
    ])
    const spending = {
      period: period.day.slice(0, 7),
      spent: spend?.spent ?? '0.00',
      currency: CURRENCY,
      threshold_told: spend?.threshold_told ?? false,
    }
    yield* show({ id: account.id, object: 'account', name, modes, spending }, () =>
      [
        fields({ account: account.id, name }),
        '',
        table(NAMES, {
          setting: (setting) => setting,
          ...Object.fromEntries(
            modes.map((mode) => [
              mode.mode,
              (setting: Override) =>
                `${mode.in_force[setting] ?? 'none'}${mode.overridden.includes(setting) ? ' *' : ''}`,
            ]),
          ),
          meaning: (setting) => OVERRIDES[setting],
        }),
        '',
        `* differs from the default. Spend in ${spending.period}: ${spending.spent} ${CURRENCY}.`,
      ].join('\n'),
    )
  }),
)

const backlog = defineCommand(
  'backlog',
  {
    short: 'Show the waiting messages of each account',
    about:
      'Shows how many messages of each account, mode and class are accepted and not handed over to an ' +
      'operator, and how long the oldest one has waited. The account with the longest wait is first. ' +
      'While several accounts wait, they are handed over in proportion to their weights. The figures ' +
      'come from the read model, which is some seconds behind when the projector is.',
    changes: NOTHING,
    examples: [
      { command: 'hubctl accounts backlog' },
      { command: 'hubctl accounts backlog --account acc_01m7yt89qhe54swwc8wkxj6n8e' },
    ],
    needs: database,
  },
  { account: accountFlag },
  Effect.fnUntraced(function* ({ account }) {
    const sql = yield* Sql
    const now = yield* Clock.currentTimeMillis
    const rows = yield* sql.run(
      (q) => ReadMessages.readWaiting(q, { account, lifetimeSeconds: LONGEST_LIFETIME_SECONDS.service }),
      { deadline: BACKLOG_DEADLINE },
    )
    const data = rows.map((row) => ({
      account: encodeId('acc', row.account),
      name: row.name,
      mode: row.mode,
      class: row.class,
      weight: row.weight ?? DEFAULT_SETTINGS.weight,
      waiting: row.messages,
      longest_wait_seconds: Math.max(0, Math.floor((now - row.oldest_at.getTime()) / 1000)),
    }))
    yield* showList(data, {
      account: (row) => row.account,
      name: (row) => row.name,
      mode: (row) => row.mode,
      class: (row) => row.class,
      weight: (row) => row.weight,
      waiting: (row) => row.waiting,
      'longest wait': (row) => `${row.longest_wait_seconds} s`,
    })
  }),
)

const create = defineCommand(
  'create',
  {
    short: 'Create an account',
    about: 'Creates an account with default settings and without keys. hubctl keys issue issues a test key.',
    changes: 'A new account. It cannot be deleted, but it can do nothing without working keys.',
    examples: [{ command: 'hubctl accounts create "Online shop"' }],
    needs: database,
  },
  {
    name: Argument.String('name').pipe(
      Argument.withDescription('A name for people. It need not be unique'),
      Argument.filter(...plainLine),
    ),
  },
  Effect.fnUntraced(function* ({ name }) {
    const account = yield* generateId('acc')
    yield* audited(
      { command: 'accounts create', arguments: { name } },
      query((q) => CommandAccounts.insert(q, { id: account.uuid, name })),
      () => ({ account: account.id }),
    )
    yield* show({ id: account.id, object: 'account', name }, () =>
      fields({ account: account.id, name, next: `hubctl keys issue ${account.id}` }),
    )
  }),
)

const set = defineCommand(
  'set',
  {
    short: 'Change the limits, prices and weight of an account',
    about: 'Changes settings of an account in one mode. --unset restores a default. Other settings stay.',
    changes: `Limits, prices or weight of an account in a mode. ${takesEffect('settings')} Accepted messages keep their price. Dispatchers apply a weight within ${CACHE_TTL_MS.weight / 1000} seconds, also to waiting messages.`,
    examples: [
      {
        command: 'hubctl accounts set acc_01m7yt89qhe54swwc8wkxj6n8e --api-rps 500 --batch-max 5000',
        description: 'More requests and larger batches with live keys',
      },
      {
        command:
          'hubctl accounts set acc_01m7yt89qhe54swwc8wkxj6n8e --spend-limit 150000 --soft-threshold-percent 90',
        description: 'At most 150,000.00 per month, and an event at 90 %',
      },
      {
        command: 'hubctl accounts set acc_01m7yt89qhe54swwc8wkxj6n8e --unset spend_limit',
        description: 'No spend limit',
      },
      {
        command: 'hubctl accounts set acc_01m7yt89qhe54swwc8wkxj6n8e --weight 3',
        description: 'Three times as much as others, while all wait for the operator',
      },
    ],
    needs: database,
  },
  {
    account: accountArgument,
    mode: Flag.Literals('mode', MODES).pipe(
      Flag.withDescription('The mode to change'),
      Flag.withDefault('live' as const),
    ),
    api_rps: integerFlag('api_rps', 1),
    batch_max: integerFlag('batch_max', 1, 10_000),
    flood_pause_seconds: integerFlag('flood_pause_seconds', 0, 86_400),
    flood_per_hour: integerFlag('flood_per_hour', 1),
    flood_per_day: integerFlag('flood_per_day', 1),
    spend_limit: amountFlag('spend_limit'),
    soft_threshold_percent: integerFlag('soft_threshold_percent', 1, 100),
    price_otp: amountFlag('price_otp'),
    price_service: amountFlag('price_service'),
    weight: integerFlag('weight', 1, MAX_WEIGHT),
    unset: Flag.Literals('unset', NAMES as [Override, ...Array<Override>]).pipe(
      Flag.withDescription('Restore the default of this setting. The flag can be repeated'),
      Flag.atLeast(0),
    ),
  },
  Effect.fnUntraced(function* ({ account, mode, unset, ...given }) {
    const changes: Partial<Record<Override, number | string | null>> = {}
    for (const name of NAMES) {
      const value: Option.Option<number | string> = given[name]
      if (Option.isSome(value)) changes[name] = value.value
    }
    for (const name of unset) {
      if (name in changes) return yield* usageError(`--${flagName(name)} is both set and unset.`)
      changes[name] = null
    }
    if (Object.keys(changes).length === 0) {
      return yield* usageError('No setting is given. See: hubctl accounts set --help')
    }
    if (mode === 'test' && changes.spend_limit !== undefined) {
      return yield* usageError('Test keys cost nothing and have no spend limit.')
    }
    const accountName = yield* requireAccount(account)
    yield* audited(
      { command: 'accounts set', arguments: { account: account.id, mode, ...changes } },
      query((q) => CommandAccountSettings.update(q, account.uuid, mode, changes)),
    )
    const modes = (yield* readModes(account, accountName)).filter((one) => one.mode === mode)
    yield* show({ id: account.id, object: 'account', name: accountName, modes }, () =>
      table(NAMES, {
        setting: (name) => name,
        [mode]: (name) =>
          `${modes[0]?.in_force[name] ?? 'none'}${changes[name] === undefined ? '' : ' (changed)'}`,
      }),
    )
  }),
)

const resetSpend = defineCommand(
  'reset-spend',
  {
    short: 'Reset the spend of the current month',
    about:
      'Sets the spend of an account in this calendar month (UTC) to zero, so that the spend limit ' +
      'counts from now. The charges for invoices stay.',
    changes:
      'The amount that is compared with the spend limit. The account can send again immediately. The ' +
      'event account.spend_threshold is not sent again this month. It cannot be undone, but the audit ' +
      'trail contains the amount.',
    examples: [{ command: 'hubctl accounts reset-spend acc_01m7yt89qhe54swwc8wkxj6n8e' }],
    needs: database,
  },
  { account: accountArgument },
  Effect.fnUntraced(function* ({ account }) {
    const sql = yield* Sql
    const name = yield* requireAccount(account)
    yield* confirm(`Reset the spend of ${name} (${account.id}) in this month?`)
    const { day } = spendPeriodOf(yield* Clock.currentTimeMillis)
    const period = day.slice(0, 7)
    const amount = yield* audited(
      { command: 'accounts reset-spend', arguments: { account: account.id, period } },
      sql.transaction((q) => CommandSpendPeriods.reset(q, { account: account.id, period: day })),
      (spent) => ({ struck_off: spent, currency: CURRENCY }),
    )
    const result = { id: account.id, object: 'account', period, struck_off: amount, currency: CURRENCY }
    yield* show(result, () =>
      fields({ account: account.id, month: period, 'struck off': `${amount} ${CURRENCY}` }),
    )
  }),
)

export const accounts = defineGroup(
  'accounts',
  {
    short: 'Accounts, their limits, prices, weights and spend',
    about: 'Accounts are the clients of the hub. Each has own keys, templates and senders in each mode.',
  },
  [list, showOne, backlog, create, set, resetSpend],
)
