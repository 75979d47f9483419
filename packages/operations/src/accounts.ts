/** Accounts: the clients of the hub, with their settings, their spend and their backlog. */
import { LONGEST_LIFETIME_SECONDS } from '@hub/config'
import {
  CURRENCY,
  DEFAULT_SETTINGS,
  encodeId,
  mapSettings,
  MESSAGE_CLASSES,
  SETTING_NAMES,
  settingValues,
  spendPeriodOf,
} from '@hub/domain'
import {
  CommandAccounts,
  CommandAccountSettings,
  CommandSpendPeriods,
  ReadMessages,
  Sql,
  uuidOf,
} from '@hub/store'
import { Clock, Effect, Schema } from 'effect'
import { accountsOf } from './actor.ts'
import { refused } from './failures.ts'
import { Line, Mode, publicId, Timestamp } from './fields.ts'
import { generateId } from './ids.ts'
import { decodeRowCursor, listOf, pageFields, pageOf, rowKey } from './pages.ts'
import { query } from './sql.ts'
import * as Certifications from './tables/certifications.ts'
import { defineUseCase } from './use-case.ts'

/** An amount with two decimals, as a text. */
const Amount = Schema.String.check(Schema.isPattern(/^\d{1,9}\.\d{2}$/u))

const change = <Value extends Schema.Top>(value: Value) => Schema.optionalKey(Schema.NullOr(value))

/** The settings to change. `null` restores the default; absent ones stay. */
export const SettingChanges = Schema.Struct(
  mapSettings(
    ({ maximum, minimum }) => change(Schema.Int.check(Schema.isBetween({ minimum, maximum }))),
    () => change(Amount),
  ),
)
export type SettingChanges = typeof SettingChanges.Type

const ModeSettings = Schema.Struct({
  mode: Mode,
  in_force: Schema.Struct({
    ...mapSettings(
      () => Schema.Int,
      () => Amount,
    ),
    spend_limit: Schema.NullOr(Amount),
  }),
  /** The names of the settings that differ from the defaults. */
  overridden: Schema.Array(Schema.Literals(SETTING_NAMES)),
})

export const AccountSummary = Schema.Struct({
  id: publicId('acc'),
  name: Schema.String,
  created_at: Timestamp,
  /** Keys that work. */
  test_keys: Schema.Int,
  live_keys: Schema.Int,
  test_weight: Schema.Int,
  live_weight: Schema.Int,
  /** Whether the account may have live keys. */
  certified: Schema.Boolean,
})

const accountFields = {
  id: publicId('acc'),
  object: Schema.Literal('account'),
  name: Schema.String,
}

export const AccountDetails = Schema.Struct({
  ...accountFields,
  modes: Schema.Array(ModeSettings),
  /** The spend of the current calendar month in UTC. */
  spending: Schema.Struct({
    period: Schema.String,
    spent: Schema.String,
    currency: Schema.String,
    threshold_told: Schema.Boolean,
  }),
})

/** Returns the name of an account (`acc_…`), or fails if it does not exist. */
export const requireAccount = Effect.fnUntraced(function* (account: string) {
  const name = yield* query((q) => CommandAccounts.readName(q, uuidOf('acc', account)))
  return name ?? (yield* refused('account_not_found', `There is no account ${account}.`, 'account'))
})

/** The effective settings of an account in each mode, and the names of the overridden ones. */
const readModes = Effect.fnUntraced(function* (account: string) {
  const rows = yield* query((q) => CommandAccountSettings.readAll(q, uuidOf('acc', account)))
  return rows.map((row) => {
    const values = settingValues(row)
    return {
      mode: row.mode,
      in_force: row.mode === 'test' ? { ...values, spend_limit: null } : values,
      overridden: SETTING_NAMES.filter((setting) => row[setting] !== null),
    }
  })
})

/** Accounts, newest first, with the numbers of their working keys, their weights and their certification. */
export const list = defineUseCase({
  name: 'accounts list',
  permission: 'accounts.read',
  members: 'self',
  input: Schema.Struct(pageFields),
  output: listOf(AccountSummary),
  audit: null,
  run: Effect.fnUntraced(function* ({ cursor, limit }, actor) {
    const before = yield* decodeRowCursor(cursor)
    const only = accountsOf(actor)?.map((account) => uuidOf('acc', account)) ?? null
    const rows = yield* query((q) => CommandAccounts.readNewest(q, { before, only, limit: limit + 1 }))
    const ids = rows.map(({ id }) => id)
    const certifications = yield* query((q) => Certifications.read(q, ids))
    return pageOf(
      rows,
      limit,
      (row) => ({
        ...row,
        id: encodeId('acc', row.id),
        created_at: row.created_at.toISOString(),
        test_weight: row.test_weight ?? DEFAULT_SETTINGS.weight,
        live_weight: row.live_weight ?? DEFAULT_SETTINGS.weight,
        certified: certifications.has(row.id),
      }),
      rowKey,
    )
  }),
})

/** The settings of an account in each mode, and the spend of the current month. */
export const get = defineUseCase({
  name: 'accounts show',
  permission: 'accounts.read',
  members: 'named',
  input: Schema.Struct({ account: publicId('acc') }),
  output: AccountDetails,
  audit: null,
  run: Effect.fnUntraced(function* ({ account }) {
    const name = yield* requireAccount(account)
    const period = spendPeriodOf(yield* Clock.currentTimeMillis)
    const [modes, spend] = yield* Effect.all([
      readModes(account),
      query((q) => CommandSpendPeriods.read(q, { account, period: period.day })),
    ])
    const spending = {
      period: period.day.slice(0, 7),
      spent: spend?.spent ?? '0.00',
      currency: CURRENCY,
      threshold_told: spend?.threshold_told ?? false,
    }
    return { id: account, object: 'account' as const, name, modes, spending }
  }),
})

/** A million entries of an index are read in a second. */
const BACKLOG_DEADLINE = '20 seconds'

/** The waiting messages of each account, mode and class: the `limit` longest waits first. */
export const backlog = defineUseCase({
  name: 'accounts backlog',
  permission: 'accounts.read',
  members: 'named',
  input: Schema.Struct({ account: Schema.NullOr(publicId('acc')), limit: pageFields.limit }),
  output: Schema.Struct({
    object: Schema.Literal('list'),
    data: Schema.Array(
      Schema.Struct({
        account: publicId('acc'),
        name: Schema.String,
        mode: Mode,
        class: Schema.Literals(MESSAGE_CLASSES),
        weight: Schema.Int,
        waiting: Schema.Int,
        longest_wait_seconds: Schema.Int,
      }),
    ),
  }),
  audit: null,
  run: Effect.fnUntraced(function* ({ account, limit }) {
    const sql = yield* Sql
    const now = yield* Clock.currentTimeMillis
    const rows = yield* sql.run(
      (q) =>
        ReadMessages.readWaiting(q, {
          account: account === null ? null : uuidOf('acc', account),
          lifetimeSeconds: LONGEST_LIFETIME_SECONDS.service,
          limit,
        }),
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
    return { object: 'list' as const, data }
  }),
})

export const create = defineUseCase({
  name: 'accounts create',
  permission: 'accounts.change',
  input: Schema.Struct({ name: Line }),
  output: Schema.Struct(accountFields),
  audit: ({ name }) => ({ name }),
  result: ({ id }) => ({ account: id }),
  run: Effect.fnUntraced(function* ({ name }) {
    const { id, uuid } = yield* generateId('acc')
    yield* query((q) => CommandAccounts.insert(q, { id: uuid, name }))
    return { id, object: 'account' as const, name }
  }),
})

/** Changes settings of an account in one mode. The output has only this mode. */
export const set = defineUseCase({
  name: 'accounts set',
  permission: 'accounts.change',
  input: Schema.Struct({ account: publicId('acc'), mode: Mode, changes: SettingChanges }),
  output: Schema.Struct({ ...accountFields, modes: Schema.Array(ModeSettings) }),
  check: ({ changes, mode }) => {
    if (Object.keys(changes).length === 0) return 'No setting is given.'
    return mode === 'test' && changes.spend_limit !== undefined
      ? 'Test keys cost nothing and have no spend limit.'
      : null
  },
  audit: ({ account, changes, mode }) => ({ account, mode, ...changes }),
  run: Effect.fnUntraced(function* ({ account, changes, mode }) {
    const name = yield* requireAccount(account)
    yield* query((q) => CommandAccountSettings.update(q, uuidOf('acc', account), mode, changes))
    const modes = (yield* readModes(account)).filter((one) => one.mode === mode)
    return { id: account, object: 'account' as const, name, modes }
  }),
})

/** Sets the spend of the current month to zero, so that the spend limit counts from now. */
export const resetSpend = defineUseCase({
  name: 'accounts reset-spend',
  permission: 'accounts.change',
  input: Schema.Struct({ account: publicId('acc') }),
  output: Schema.Struct({
    id: publicId('acc'),
    object: Schema.Literal('account'),
    period: Schema.String,
    /** The spend until now. */
    struck_off: Schema.String,
    currency: Schema.String,
  }),
  audit: ({ account }) => ({ account }),
  result: ({ currency, period, struck_off }) => ({ period, struck_off, currency }),
  run: Effect.fnUntraced(function* ({ account }) {
    const sql = yield* Sql
    yield* requireAccount(account)
    const { day } = spendPeriodOf(yield* Clock.currentTimeMillis)
    const amount = yield* sql.transaction((q) => CommandSpendPeriods.reset(q, { account, period: day }))
    return {
      id: account,
      object: 'account' as const,
      period: day.slice(0, 7),
      struck_off: amount,
      currency: CURRENCY,
    }
  }),
})
