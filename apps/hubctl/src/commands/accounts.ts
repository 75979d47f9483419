/** `hubctl accounts`: accounts with their settings and their spend. */
import { confirm, defineGroup, fields, NOTHING, show, showList, table, usageError } from '@hub/command-line'
import {
  ACCOUNT_SETTINGS,
  type AmountSetting,
  CACHE_TTL_MS,
  CURRENCY,
  type IntegerSetting,
  mapSettings,
  MODES,
  SETTING_NAMES,
  type SettingName,
} from '@hub/domain'
import { Accounts } from '@hub/operations'
import { Effect, Option } from 'effect'
import { Argument, Flag } from 'effect/cli'
import { accountArgument, accountFlag, limitFlag, plainLine, takesEffect } from '../command-line/arguments.ts'
import { defineCommand } from '../command-line/command.ts'
import { run } from '../operations.ts'

const flagName = (name: SettingName): string => name.replaceAll('_', '-')

const describe = (setting: IntegerSetting | AmountSetting): string =>
  `${setting.meaning} (default ${setting.default ?? 'none'})`

const integerFlag = (setting: IntegerSetting, name: SettingName) =>
  Flag.Int(flagName(name)).pipe(
    Flag.withDescription(describe(setting)),
    Flag.filter(
      (value) => value >= setting.minimum && value <= setting.maximum,
      () => `a whole number from ${setting.minimum} to ${setting.maximum}`,
    ),
    Flag.optional,
  )

/** Parses an amount to two fraction digits; `null` for other texts. */
export const parseAmount = (text: string): string | null => {
  const [, units, fraction = ''] = /^(\d{1,9})(?:\.(\d{1,2}))?$/u.exec(text) ?? []
  return units === undefined ? null : `${BigInt(units)}.${fraction.padEnd(2, '0')}`
}

const amountFlag = (setting: AmountSetting, name: SettingName) =>
  Flag.String(flagName(name)).pipe(
    Flag.withDescription(describe(setting)),
    Flag.withMetavar('12.50'),
    Flag.filterMap(
      (text) => Option.fromNullishOr(parseAmount(text)),
      () => 'an amount, such as 12.50',
    ),
    Flag.optional,
  )

const list = defineCommand(
  'list',
  {
    short: 'List accounts',
    about:
      'Lists accounts, newest first, with the numbers of their working keys, their weights and their ' +
      'certification.',
    changes: NOTHING,
    examples: [{ command: 'hubctl accounts list' }],
  },
  { limit: limitFlag },
  Effect.fnUntraced(function* ({ limit }) {
    const { data } = yield* run(Accounts.list, { limit, cursor: null })
    yield* showList(data, {
      account: (row) => row.id,
      name: (row) => row.name,
      created: (row) => row.created_at,
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
  },
  { account: accountArgument },
  Effect.fnUntraced(function* ({ account }) {
    const details = yield* run(Accounts.get, { account: account })
    const { modes, name, spending } = details
    yield* show(details, () =>
      [
        fields({ account: account, name }),
        '',
        table(SETTING_NAMES, {
          setting: (setting) => setting,
          ...Object.fromEntries(
            modes.map((mode) => [
              mode.mode,
              (setting: SettingName) =>
                `${mode.in_force[setting] ?? 'none'}${mode.overridden.includes(setting) ? ' *' : ''}`,
            ]),
          ),
          meaning: (setting) => ACCOUNT_SETTINGS[setting].meaning,
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
      'Shows how many messages of each account, mode and class are accepted and not submitted to an ' +
      'operator, and how long the oldest one has waited. The account with the longest wait is first. ' +
      'While several accounts wait, they are submitted in proportion to their weights. The figures ' +
      'come from the read model, which is some seconds behind when the projector is.',
    changes: NOTHING,
    examples: [
      { command: 'hubctl accounts backlog' },
      { command: 'hubctl accounts backlog --account acc_01m7yt89qhe54swwc8wkxj6n8e' },
    ],
  },
  { account: accountFlag, limit: limitFlag },
  Effect.fnUntraced(function* (filter) {
    const { data } = yield* run(Accounts.backlog, filter)
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
  },
  {
    name: Argument.String('name').pipe(
      Argument.withDescription('A name for people. It need not be unique'),
      Argument.filter(...plainLine),
    ),
  },
  Effect.fnUntraced(function* ({ name }) {
    const account = yield* run(Accounts.create, { name })
    yield* show(account, ({ id }) => fields({ account: id, name, next: `hubctl keys issue ${id}` }))
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
  },
  {
    account: accountArgument,
    mode: Flag.Literals('mode', MODES).pipe(
      Flag.withDescription('The mode to change'),
      Flag.withDefault('live' as const),
    ),
    ...mapSettings(integerFlag, amountFlag),
    unset: Flag.Literals('unset', SETTING_NAMES).pipe(
      Flag.withDescription('Restore the default of this setting. The flag can be repeated'),
      Flag.atLeast(0),
    ),
  },
  Effect.fnUntraced(function* ({ account, mode, unset, ...given }) {
    const changes: Partial<Record<SettingName, number | string | null>> = {}
    for (const name of SETTING_NAMES) {
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
    // Each flag has the type of its setting.
    const input = { account: account, mode, changes: changes as Accounts.SettingChanges }
    const changed = yield* run(Accounts.set, input)
    const { modes } = changed
    yield* show(changed, () =>
      table(SETTING_NAMES, {
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
  },
  { account: accountArgument },
  Effect.fnUntraced(function* ({ account }) {
    const { name } = yield* run(Accounts.get, { account: account })
    yield* confirm(`Reset the spend of ${name} (${account}) in this month?`)
    const reset = yield* run(Accounts.resetSpend, { account: account })
    yield* show(reset, ({ currency, period, struck_off }) =>
      fields({ account: account, month: period, 'struck off': `${struck_off} ${currency}` }),
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
