/** `hubctl accounts`: accounts, what is in force for them, and what they have spent. */
import {
  type AccountOverrides,
  CURRENCY,
  DEFAULT_SETTINGS,
  encodeId,
  type Mode,
  MODES,
  effectiveSettings,
  spendPeriodOf,
} from '@hub/domain'
import { insertAccount, type Queries, Sql } from '@hub/store'
import { Clock, Effect, Option } from 'effect'
import { Argument, Flag } from 'effect/cli'
import { audited } from '../audit/audit-trail.ts'
import { defineCommand, defineGroup, NOTHING } from '../command-line/command.ts'
import { confirm } from '../command-line/confirm.ts'
import { database } from '../command-line/connections.ts'
import { usageError, refused } from '../command-line/failure.ts'
import { fields, show, table } from '../command-line/output.ts'
import {
  accountArgument,
  generateId,
  type Id,
  takesEffect,
  isPlainLine,
  MAX_LINE_LENGTH,
  limitFlag,
} from '../command-line/arguments.ts'

/** What may be set, and how it is told. The names are those of the columns, and of the flags with dashes. */
const OVERRIDES = {
  api_rps: { about: 'Requests per second, for each key', default: DEFAULT_SETTINGS.apiRps },
  batch_max: { about: 'Messages in a batch', default: DEFAULT_SETTINGS.batchMax },
  flood_pause_seconds: {
    about: 'Seconds between two messages to one number',
    default: DEFAULT_SETTINGS.floodWindows.pauseSeconds,
  },
  flood_per_hour: {
    about: 'Messages to one number in an hour',
    default: DEFAULT_SETTINGS.floodWindows.perHour,
  },
  flood_per_day: { about: 'Messages to one number in a day', default: DEFAULT_SETTINGS.floodWindows.perDay },
  spend_limit: { about: `What may be spent in a calendar month (UTC), ${CURRENCY}`, default: null },
  soft_threshold_percent: {
    about: 'Share of the limit at which account.spend_threshold is sent, percent',
    default: DEFAULT_SETTINGS.softThresholdPercent,
  },
  price_otp: {
    about: `Price of a part of class otp, ${CURRENCY}`,
    default: DEFAULT_SETTINGS.pricePerPart.otp.amount,
  },
  price_service: {
    about: `Price of a part of class service, ${CURRENCY}`,
    default: DEFAULT_SETTINGS.pricePerPart.service.amount,
  },
} as const satisfies Record<keyof AccountOverrides, { about: string; default: number | string | null }>
type Override = keyof typeof OVERRIDES
const NAMES = Object.keys(OVERRIDES) as ReadonlyArray<Override>

const flagName = (name: Override): string => name.replaceAll('_', '-')

const about = (name: Override): string =>
  `${OVERRIDES[name].about} (default ${OVERRIDES[name].default ?? 'none'})`

/** A batch has at most so many bytes, and nobody writes to a number so often: a larger value is a slip. */
const WHOLE_MOST = 1_000_000

const whole = (name: Override, least: number, most: number = WHOLE_MOST) =>
  Flag.Int(flagName(name)).pipe(
    Flag.withDescription(about(name)),
    Flag.filter(
      (value) => value >= least && value <= most,
      () => `a whole number from ${least} to ${most}`,
    ),
    Flag.optional,
  )

/** An amount with two fraction digits; `null` where it is none. */
export const parseAmount = (text: string): string | null => {
  const [, units, fraction = ''] = /^(\d{1,9})(?:\.(\d{1,2}))?$/u.exec(text) ?? []
  return units === undefined ? null : `${BigInt(units)}.${fraction.padEnd(2, '0')}`
}

const amount = (name: Override) =>
  Flag.String(flagName(name)).pipe(
    Flag.withDescription(about(name)),
    Flag.withMetavar('12.50'),
    Flag.filterMap(
      (text) => Option.fromNullishOr(parseAmount(text)),
      () => 'an amount, such as 12.50',
    ),
    Flag.optional,
  )

const existing = async (q: Queries, account: Id): Promise<string | null> => {
  const [row] = await q<{ name: string }[]>`SELECT name FROM command.accounts WHERE id = ${account.uuid}`
  return row?.name ?? null
}

/** Fails where there is no such account; answers its name. */
export const requireAccount = Effect.fnUntraced(function* (account: Id) {
  const sql = yield* Sql
  const name = yield* sql.run((q) => existing(q, account))
  return name ?? (yield* refused('account_not_found', `There is no account ${account.id}.`))
})

interface SettingsRow extends AccountOverrides {
  readonly mode: Mode
}

const overridesOf = async (q: Queries, account: Id): Promise<ReadonlyArray<SettingsRow>> =>
  q<SettingsRow[]>`
    SELECT m.mode, s.api_rps, s.batch_max, s.flood_pause_seconds, s.flood_per_hour, s.flood_per_day, s.spend_limit::text,
           s.soft_threshold_percent, s.price_otp::text, s.price_service::text
      FROM unnest(enum_range(NULL::command.mode)) AS m (mode)
      LEFT JOIN command.account_settings s ON s.account = ${account.uuid} AND s.mode = m.mode
     ORDER BY m.mode`

const inForce = (name: string, row: SettingsRow) => {
  const settings = effectiveSettings({ name, ...row })
  return {
    mode: row.mode,
    in_force: {
      api_rps: settings.apiRps,
      batch_max: settings.batchMax,
      flood_pause_seconds: settings.floodWindows.pauseSeconds,
      flood_per_hour: settings.floodWindows.perHour,
      flood_per_day: settings.floodWindows.perDay,
      spend_limit: row.mode === 'test' ? null : (settings.spendLimit?.amount ?? null),
      soft_threshold_percent: settings.softThresholdPercent,
      price_otp: settings.pricePerPart.otp.amount,
      price_service: settings.pricePerPart.service.amount,
    },
    overridden: NAMES.filter((override) => row[override] !== null),
  }
}

const list = defineCommand(
  'list',
  {
    short: 'All accounts',
    about:
      'Lists the accounts, newest first, with their keys that work and whether they are certified for live keys.',
    changes: NOTHING,
    examples: [{ command: 'hubctl accounts list' }],
    needs: database,
  },
  { limit: limitFlag },
  Effect.fnUntraced(function* ({ limit }) {
    const sql = yield* Sql
    const rows = yield* sql.run(
      (q) => q<
        {
          id: string
          name: string
          created_at: Date
          test_keys: number
          live_keys: number
          certified: boolean
        }[]
      >`
        SELECT a.id, a.name, a.created_at,
               count(k.id) FILTER (WHERE k.mode = 'test')::integer AS test_keys,
               count(k.id) FILTER (WHERE k.mode = 'live')::integer AS live_keys,
               EXISTS (SELECT 1 FROM command.certifications c WHERE c.account = a.id) AS certified
          FROM command.accounts a
          LEFT JOIN command.api_keys k ON k.account = a.id AND (k.revoked_at IS NULL OR k.revoked_at > now())
         GROUP BY a.id ORDER BY a.created_at DESC, a.id DESC LIMIT ${limit}`,
    )
    const data = rows.map((row) => ({ ...row, id: encodeId('acc', row.id) }))
    yield* show({ object: 'list', data }, () =>
      table(data, {
        account: (row) => row.id,
        name: (row) => row.name,
        created: (row) => row.created_at.toISOString(),
        'test keys': (row) => row.test_keys,
        'live keys': (row) => row.live_keys,
        certified: (row) => row.certified,
      }),
    )
  }),
)

const showOne = defineCommand(
  'show',
  {
    short: 'One account: limits, prices, spending',
    about:
      'Shows what is in force for an account in each mode, which of it is set for this account, and what it has spent this month.',
    changes: NOTHING,
    examples: [{ command: 'hubctl accounts show acc_01m7yt89qhe54swwc8wkxj6n8e' }],
    needs: database,
  },
  { account: accountArgument },
  Effect.fnUntraced(function* ({ account }) {
    const sql = yield* Sql
    const name = yield* requireAccount(account)
    const period = spendPeriodOf(yield* Clock.currentTimeMillis)
    const [rows, [spent]] = yield* Effect.all([
      sql.run((q) => overridesOf(q, account)),
      sql.run(
        (q) => q<{ spent: string; threshold_told: boolean }[]>`
          SELECT greatest(spent, 0)::text AS spent, threshold_told FROM command.spend_periods
           WHERE account = ${account.uuid} AND period = ${period.day}`,
      ),
    ])
    const modes = rows.map((row) => inForce(name, row))
    const value = {
      id: account.id,
      object: 'account',
      name,
      modes,
      spending: {
        period: period.day.slice(0, 7),
        spent: spent?.spent ?? '0.00',
        currency: CURRENCY,
        threshold_told: spent?.threshold_told ?? false,
      },
    }
    yield* show(value, () =>
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
          'what it is': (setting) => OVERRIDES[setting].about,
        }),
        '',
        `* is set for this account. Spent in ${value.spending.period}: ${value.spending.spent} ${CURRENCY}.`,
      ].join('\n'),
    )
  }),
)

const create = defineCommand(
  'create',
  {
    short: 'A new account',
    about: 'Makes an account with default limits. It has no keys yet: hubctl keys issue gives it a test key.',
    changes: 'A new account. It cannot be removed; without keys that work it can do nothing.',
    examples: [{ command: 'hubctl accounts create "Online shop"' }],
    needs: database,
  },
  {
    name: Argument.String('name').pipe(
      Argument.withDescription('For people; two accounts may have the same'),
      Argument.filter(
        (name) => isPlainLine(name, MAX_LINE_LENGTH),
        () => `one line of 1 to ${MAX_LINE_LENGTH} characters`,
      ),
    ),
  },
  Effect.fnUntraced(function* ({ name }) {
    const sql = yield* Sql
    const account = yield* generateId('acc')
    yield* audited(
      { command: 'accounts create', arguments: { name } },
      sql.run((q) => insertAccount(q, { id: account.uuid, name })),
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
    short: 'Limits, prices, windows and the spend limit of an account',
    about:
      'Sets what is different for an account in one mode. What is not named stays as it is; --unset puts a default back.',
    changes: `Limits or prices of an account in a mode. ${takesEffect('settings')} A message that was accepted keeps its price.`,
    examples: [
      {
        command: 'hubctl accounts set acc_01m7yt89qhe54swwc8wkxj6n8e --api-rps 500 --batch-max 5000',
        description: 'More requests and larger batches with live keys',
      },
      {
        command:
          'hubctl accounts set acc_01m7yt89qhe54swwc8wkxj6n8e --spend-limit 150000 --soft-threshold-percent 90',
        description: 'At most 150,000.00 a month, and a word at 90 %',
      },
      {
        command: 'hubctl accounts set acc_01m7yt89qhe54swwc8wkxj6n8e --unset spend_limit',
        description: 'No limit any more',
      },
    ],
    needs: database,
  },
  {
    account: accountArgument,
    mode: Flag.Literals('mode', MODES).pipe(
      Flag.withDescription('In which mode'),
      Flag.withDefault('live' as const),
    ),
    api_rps: whole('api_rps', 1),
    batch_max: whole('batch_max', 1, 10_000),
    flood_pause_seconds: whole('flood_pause_seconds', 0, 86_400),
    flood_per_hour: whole('flood_per_hour', 1),
    flood_per_day: whole('flood_per_day', 1),
    spend_limit: amount('spend_limit'),
    soft_threshold_percent: whole('soft_threshold_percent', 1, 100),
    price_otp: amount('price_otp'),
    price_service: amount('price_service'),
    unset: Flag.Literals('unset', NAMES as [Override, ...Array<Override>]).pipe(
      Flag.withDescription('Put the default of this one back; may be given several times'),
      Flag.atLeast(0),
    ),
  },
  Effect.fnUntraced(function* ({ account, mode, unset, ...given }) {
    const sql = yield* Sql
    const changes: Partial<Record<Override, number | string | null>> = {}
    for (const name of NAMES) {
      const value: Option.Option<number | string> = given[name]
      if (Option.isSome(value)) changes[name] = value.value
    }
    for (const name of unset) {
      if (name in changes) return yield* usageError(`--${flagName(name)} is both set and unset.`)
      changes[name] = null
    }
    const names = NAMES.filter((name) => name in changes)
    if (names.length === 0)
      return yield* usageError('Nothing to set was named. See: hubctl accounts set --help')
    if (mode === 'test' && changes.spend_limit !== undefined) {
      return yield* usageError('Test keys cost nothing and have no spend limit.')
    }
    const accountName = yield* requireAccount(account)
    const row = { account: account.uuid, mode, ...changes }
    yield* audited(
      { command: 'accounts set', arguments: { account: account.id, mode, ...changes } },
      sql.run(
        (q) => q`
          INSERT INTO command.account_settings ${q(row, 'account', 'mode', ...names)}
          ON CONFLICT (account, mode) DO UPDATE SET ${q(row, ...names)}`,
      ),
    )
    const rows = yield* sql.run((q) => overridesOf(q, account))
    const modes = rows.map((one) => inForce(accountName, one)).filter((one) => one.mode === mode)
    yield* show({ id: account.id, object: 'account', name: accountName, modes }, () =>
      table(
        modes.flatMap((one) =>
          NAMES.map((name) => ({ name, value: one.in_force[name], changed: names.includes(name) })),
        ),
        {
          setting: (one) => one.name,
          [mode]: (one) => `${one.value ?? 'none'}${one.changed ? ' (changed)' : ''}`,
        },
      ),
    )
  }),
)

const resetSpend = defineCommand(
  'reset-spend',
  {
    short: 'Begin the month of an account anew',
    about:
      'Sets what an account has spent in this calendar month (UTC) back to nothing, so that its spend limit counts from now. The charges themselves, which ' +
      'invoices are made from, stay as they are.',
    changes:
      'The amount that the spend limit is compared with; sends are accepted again at once. account.spend_threshold is not sent a second time in the month. ' +
      'There is no way back: the audit trail keeps the amount.',
    examples: [{ command: 'hubctl accounts reset-spend acc_01m7yt89qhe54swwc8wkxj6n8e' }],
    needs: database,
  },
  { account: accountArgument },
  Effect.fnUntraced(function* ({ account }) {
    const sql = yield* Sql
    const name = yield* requireAccount(account)
    yield* confirm(`Begin this month of ${name} (${account.id}) anew?`)
    const period = spendPeriodOf(yield* Clock.currentTimeMillis)
    const spent = yield* audited(
      { command: 'accounts reset-spend', arguments: { account: account.id, period: period.day.slice(0, 7) } },
      sql.transaction(async (q) => {
        const [row] = await q<{ spent: string }[]>`
          SELECT spent::text FROM command.spend_periods WHERE account = ${account.uuid} AND period = ${period.day} FOR UPDATE`
        await q`UPDATE command.spend_periods SET spent = 0 WHERE account = ${account.uuid} AND period = ${period.day}`
        return row?.spent ?? '0.00'
      }),
      (amountOff) => ({ struck_off: amountOff, currency: CURRENCY }),
    )
    yield* show(
      {
        id: account.id,
        object: 'account',
        period: period.day.slice(0, 7),
        struck_off: spent,
        currency: CURRENCY,
      },
      (value) => fields({ account: value.id, month: value.period, 'struck off': `${spent} ${CURRENCY}` }),
    )
  }),
)

export const accounts = defineGroup(
  'accounts',
  {
    short: 'Accounts, their limits, prices and spending',
    about:
      'Accounts are the clients of the hub. Each has keys, templates and senders of its own, in two modes that never meet.',
  },
  [list, showOne, create, set, resetSpend],
)
