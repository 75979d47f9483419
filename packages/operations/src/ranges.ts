/**
 * Number ranges of an account: for which ones far too many codes are requested, and which ones staff have blocked. A
 * send to a blocked range is refused with `recipient_range_blocked`. Nothing is blocked without a person.
 */
import { encodeId, toTimestamp } from '@hub/domain'
import { CommandAccounts, CommandRangeBlocks, ReadInsights, Sql, uuidOf } from '@hub/store'
import { Clock, Effect, Schema } from 'effect'
import { requireAccount } from './accounts.ts'
import { refused } from './failures.ts'
import { Count, NumberRange, publicId, Reason, Timestamp } from './fields.ts'
import { pageFields } from './pages.ts'
import { query } from './sql.ts'
import { defineUseCase } from './use-case.ts'

/** Longer than an attack, and short enough that a forgotten block ends. */
export const MAX_BLOCK_SECONDS = 30 * 86_400

const Rate = Schema.NullOr(Schema.Number)

const blockFields = {
  account: publicId('acc'),
  range: NumberRange,
  until: Timestamp.annotate({ description: 'The block ends then by itself.' }),
  reason: Schema.String,
  blocked_by: Schema.String,
  blocked_at: Timestamp,
}
const RangeBlock = Schema.Struct({
  object: Schema.Literal('range_block'),
  ...blockFields,
  name: Schema.String.annotate({ description: 'The name of the account.' }),
}).annotate({ identifier: 'RangeBlock' })

const toBlock = (row: CommandRangeBlocks.RangeBlockRow, name: string) => ({
  object: 'range_block' as const,
  account: encodeId('acc', row.account),
  range: row.number_range,
  until: row.until.toISOString(),
  reason: row.reason,
  blocked_by: row.blocked_by,
  blocked_at: row.blocked_at.toISOString(),
  name,
})

/** The blocks in force, the newest first. */
export const list = defineUseCase({
  name: 'ranges list',
  permission: 'accounts.read',
  input: Schema.Struct({ account: Schema.NullOr(publicId('acc')), limit: pageFields.limit }),
  output: Schema.Struct({ object: Schema.Literal('list'), data: Schema.Array(RangeBlock) }),
  audit: null,
  run: ({ account, limit }) =>
    query(async (q) => {
      const rows = await CommandRangeBlocks.read(q, account === null ? null : uuidOf('acc', account), limit)
      const names = await CommandAccounts.readNames(
        q,
        rows.map((row) => row.account),
      )
      return {
        object: 'list' as const,
        data: rows.map((row) => toBlock(row, names.get(row.account) ?? '')),
      }
    }),
})

/** Blocks a range for an account from now on. A block in force is replaced, with its end and its reason. */
export const block = defineUseCase({
  name: 'ranges block',
  permission: 'accounts.change',
  input: Schema.Struct({
    account: publicId('acc'),
    range: NumberRange,
    seconds: Schema.Int.check(Schema.isBetween({ minimum: 60, maximum: MAX_BLOCK_SECONDS })),
    reason: Reason,
  }),
  output: Schema.Struct({
    ...RangeBlock.fields,
    replaced_until: Schema.NullOr(Timestamp).annotate({
      description: 'When the block that this one replaces would have ended; `null` if there was none.',
    }),
  }),
  audit: ({ account, range, reason, seconds }) => ({ account, range, seconds, reason }),
  result: ({ replaced_until, until }) => ({ until, replaced_until }),
  run: Effect.fnUntraced(function* ({ account, range, reason, seconds }, actor) {
    const sql = yield* Sql
    const name = yield* requireAccount(account)
    const of = {
      account: uuidOf('acc', account),
      number_range: range,
      seconds,
      reason,
      blocked_by: actor.name,
    }
    const row = yield* sql.transaction((q) => CommandRangeBlocks.block(q, of))
    return { ...toBlock(row, name), replaced_until: row.before?.toISOString() ?? null }
  }),
})

/** Ends a block before its time. */
export const unblock = defineUseCase({
  name: 'ranges unblock',
  permission: 'accounts.change',
  input: Schema.Struct({ account: publicId('acc'), range: NumberRange }),
  output: Schema.Struct({
    object: Schema.Literal('range_block'),
    account: publicId('acc'),
    range: NumberRange,
    ended_before: Timestamp.annotate({ description: 'When the block would have ended.' }),
  }),
  audit: ({ account, range }) => ({ account, range }),
  result: ({ ended_before }) => ({ ended_before }),
  run: Effect.fnUntraced(function* ({ account, range }) {
    yield* requireAccount(account)
    const until = yield* query((q) => CommandRangeBlocks.unblock(q, uuidOf('acc', account), range))
    if (until === null) {
      return yield* refused('range_not_blocked', `Range ${range} is not blocked for ${account}.`)
    }
    return { object: 'range_block' as const, account, range, ended_before: until.toISOString() }
  }),
})

const SuspiciousRange = Schema.Struct({
  object: Schema.Literal('suspicious_range'),
  account: publicId('acc'),
  name: Schema.String.annotate({ description: 'The name of the account.' }),
  range: NumberRange,
  since: Timestamp,
  requests: Count.annotate({ description: 'Accepted codes since then.' }),
  expected: Schema.Number.annotate({
    description: 'What is expected of the account for this range, by the same hours of earlier weeks.',
  }),
  delivery_rate: Rate.annotate({
    description: 'Delivered among the codes with a final status, from 0 to 1; `null` without any.',
  }),
  usual_rate: Rate.annotate({ description: 'The same of earlier weeks; `null` without any.' }),
  blocked_until: Schema.NullOr(Timestamp).annotate({ description: '`null`: not blocked.' }),
}).annotate({ identifier: 'SuspiciousRange' })

/** Staff block by hand, so there are fewer. */
const MOST_BLOCKS = 1000

/** The accounts and ranges with far more codes than expected in the last hours, the most first. */
export const suspicious = defineUseCase({
  name: 'ranges suspicious',
  permission: 'usage.read',
  input: Schema.Struct({ account: Schema.NullOr(publicId('acc')), limit: pageFields.limit }),
  output: Schema.Struct({ object: Schema.Literal('list'), data: Schema.Array(SuspiciousRange) }),
  audit: null,
  run: Effect.fnUntraced(function* ({ account, limit }) {
    const now = yield* Clock.currentTimeMillis
    return yield* query(async (q) => {
      const uuid = account === null ? null : uuidOf('acc', account)
      const found = (await ReadInsights.readSuspiciousRequests(q, now))
        .filter((one) => uuid === null || one.account === uuid)
        .slice(0, limit)
      const names = await CommandAccounts.readNames(
        q,
        found.map((one) => one.account),
      )
      const blocks = new Map(
        (await CommandRangeBlocks.read(q, uuid, MOST_BLOCKS)).map((row) => [
          `${row.account} ${row.number_range}`,
          row.until,
        ]),
      )
      return {
        object: 'list' as const,
        data: found.map((one) => ({
          object: 'suspicious_range' as const,
          account: encodeId('acc', one.account),
          name: names.get(one.account) ?? '',
          range: one.range,
          since: toTimestamp(one.since),
          requests: one.accepted,
          expected: Math.round(one.expected),
          delivery_rate: one.rate,
          usual_rate: one.usualRate,
          blocked_until: blocks.get(`${one.account} ${one.range}`)?.toISOString() ?? null,
        })),
      }
    })
  }),
})
