/** The spend of an account by day, from the charges. The days of a month add up to its bill. */
import { Month } from './month.ts'
import { ReadCharges, Sql, uuidOf } from '@hub/store'
import { Duration, Effect, Schema } from 'effect'
import { requireAccount } from '../accounts.ts'
import { publicId } from '../fields.ts'
import { defineUseCase } from '../use-case.ts'

const Decimal = Schema.String.annotate({ description: 'A decimal amount.' })

const DaySpend = Schema.Struct({
  day: Schema.String.annotate({ description: 'The day (UTC) of acceptance.', examples: ['2026-11-21'] }),
  currency: Schema.String,
  messages: Schema.Int.annotate({ description: 'Charged messages, also those whose charge was returned.' }),
  charged: Decimal,
  returned: Decimal,
  price: Decimal.annotate({ description: '`charged` without `returned`.' }),
}).annotate({ identifier: 'DaySpend' })

/** A million charges take PostgreSQL about a second. */
const DEADLINE = { deadline: Duration.seconds(9) }

/** The days of a month with charges, in order. */
export const days = defineUseCase({
  name: 'usage days',
  permission: 'usage.read',
  members: 'named',
  input: Schema.Struct({
    account: publicId('acc'),
    month: Month,
  }),
  output: Schema.Struct({
    object: Schema.Literal('list'),
    month: Schema.String,
    data: Schema.Array(DaySpend),
  }),
  audit: null,
  run: Effect.fnUntraced(function* ({ account, month }) {
    const sql = yield* Sql
    yield* requireAccount(account)
    const rows = yield* sql.run(
      (q) => ReadCharges.readDays(q, uuidOf('acc', account), `${month}-01`),
      DEADLINE,
    )
    const data = rows.map((row) => ({ ...row, messages: Number(row.messages) }))
    return { object: 'list' as const, month, data }
  }),
})
