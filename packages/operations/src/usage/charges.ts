/**
 * The usage of a month from the charges: what live messages cost, by account, class and template. The
 * charges never change, so the bill of a month is the same whenever it is made; the returns of charges
 * are in the month of the acceptance.
 */
import { decodeId, encodeId, MESSAGE_CLASSES } from '@hub/domain'
import { ACCEPTANCE_AFTER_ID_MS, CommandAccounts, ReadCharges, Sql } from '@hub/store'
import { Duration, Effect, Schema } from 'effect'
import { publicId } from '../fields.ts'
import { defineUseCase } from '../use-case.ts'
import { Month } from './month.ts'

const Decimal = Schema.String.annotate({ description: 'A decimal amount.' })

const ChargedUsage = Schema.Struct({
  account: publicId('acc'),
  name: Schema.String,
  class: Schema.NullOr(Schema.Literals(MESSAGE_CLASSES)),
  template: Schema.NullOr(Schema.String),
  messages: Schema.Int.annotate({ description: 'Charged messages.' }),
  parts: Schema.Int,
  charged: Decimal,
  reversals: Schema.Int.annotate({ description: 'Messages whose charge was returned.' }),
  returned: Decimal,
  price: Decimal.annotate({ description: '`charged` without `returned`.' }),
  currency: Schema.String,
}).annotate({ identifier: 'ChargedUsage' })
type ChargedUsage = typeof ChargedUsage.Type

const DAY_MS = 86_400_000

/** One day of the largest account takes PostgreSQL some seconds. */
const DEADLINE = { deadline: Duration.seconds(9) }

/** Amounts have two decimals. Sums of them are exact as whole hundredths. */
const hundredths = (amount: string): bigint => BigInt(amount.replace('.', ''))
const amountOf = (sum: bigint): string => {
  const digits = (sum < 0n ? -sum : sum).toString().padStart(3, '0')
  return `${sum < 0n ? '-' : ''}${digits.slice(0, -2)}.${digits.slice(-2)}`
}

interface Sum {
  readonly first: ReadCharges.ChargeSum
  messages: number
  parts: number
  charged: bigint
  reversals: number
  returned: bigint
}

/** The days (their first moments) whose ids may belong to messages that were accepted in the month. */
const daysOf = (month: string): ReadonlyArray<number> => {
  const [year = 0, number = 1] = month.split('-').map(Number)
  const [from, to] = [Date.UTC(year, number - 1), Date.UTC(year, number)]
  const days: Array<number> = []
  for (let day = from - ACCEPTANCE_AFTER_ID_MS; day < to; day += DAY_MS) days.push(day)
  return days
}

const readSums = Effect.fnUntraced(function* (month: string, account: string | null) {
  const sql = yield* Sql
  const sums = new Map<string, Sum>()
  for (const from of daysOf(month)) {
    const rows = yield* sql.run(
      (q) => ReadCharges.readSums(q, { from, to: from + DAY_MS, month: `${month}-01`, account }),
      DEADLINE,
    )
    for (const row of rows) {
      const key = JSON.stringify([row.account, row.class, row.template, row.currency])
      const sum = sums.get(key) ?? {
        first: row,
        messages: 0,
        parts: 0,
        charged: 0n,
        reversals: 0,
        returned: 0n,
      }
      sum.messages += Number(row.messages)
      sum.parts += Number(row.parts)
      sum.charged += hundredths(row.charged)
      sum.reversals += Number(row.reversals)
      sum.returned += hundredths(row.returned)
      sums.set(key, sum)
    }
  }
  return [...sums.values()]
})

const compare = (a: ChargedUsage, b: ChargedUsage): number => {
  const keyOf = ({ account, class: of, currency, name, template }: ChargedUsage) =>
    JSON.stringify([name, account, of, template, currency])
  return keyOf(a) < keyOf(b) ? -1 : 1
}

export const charges = defineUseCase({
  name: 'usage charges',
  permission: 'usage.read',
  members: 'named',
  input: Schema.Struct({
    month: Month,
    account: Schema.NullOr(publicId('acc')),
  }),
  output: Schema.Struct({
    object: Schema.Literal('charged_usage_report'),
    month: Schema.String,
    data: Schema.Array(ChargedUsage),
  }).annotate({ identifier: 'ChargedUsageReport' }),
  audit: null,
  run: ({ account, month }) =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const sums = yield* readSums(month, account === null ? null : decodeId('acc', account))
      const names = yield* sql.run((q) =>
        CommandAccounts.readNames(q, [...new Set(sums.map(({ first }) => first.account))]),
      )
      const data = sums.map(({ charged, first, messages, parts, returned, reversals }): ChargedUsage => ({
        account: encodeId('acc', first.account),
        name: names.get(first.account) ?? '',
        class: first.class,
        template: first.template,
        currency: first.currency,
        messages,
        parts,
        charged: amountOf(charged),
        reversals,
        returned: amountOf(returned),
        price: amountOf(charged - returned),
      }))
      return { object: 'charged_usage_report' as const, month, data: data.toSorted(compare) }
    }),
})
