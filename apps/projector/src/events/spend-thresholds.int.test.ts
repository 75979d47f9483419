/**
 * `account.spend_threshold` after a change of the limit, without a charge. Source: EVT-8, EVT-9.
 */
import { assert, describe, it } from '@effect/vitest'
import { decodeId } from '@hub/domain'
import { Sql } from '@hub/store'
import { Effect } from 'effect'
import { account, startProjector, until, useTestEnvironment } from '../testing/harness.ts'

const environment = await useTestEnvironment('thresholds')

/** Creates an account that has spent 90.00 in this month. */
const createSpender = (owner: string, limit: string | null) =>
  Effect.flatMap(Sql, (sql) =>
    sql.transaction(async (q) => {
      const id = decodeId('acc', owner)
      await q`INSERT INTO command.accounts (id, name) VALUES (${id}, 'Shop')`
      await q`INSERT INTO command.account_settings (account, mode, spend_limit) VALUES (${id}, 'live', ${limit})`
      await q`INSERT INTO command.spend_periods (account, period, spent)
              VALUES (${id}, date_trunc('month', now() AT TIME ZONE 'UTC'), 90)`
    }),
  )
const setLimit = (owner: string, limit: string | null, percent: number | null = null) =>
  Effect.flatMap(Sql, (sql) =>
    sql.run(
      (q) => q`UPDATE command.account_settings SET spend_limit = ${limit}, soft_threshold_percent = ${percent}
                WHERE account = ${decodeId('acc', owner)}`,
    ),
  )
const told = (owner: string) =>
  Effect.flatMap(Sql, (sql) =>
    sql.run(async (q) => {
      const rows = await q<{ body: string }[]>`
        SELECT body FROM read.events
         WHERE account = ${decodeId('acc', owner)} AND type = 'account.spend_threshold'`
      return rows.map(({ body }) => (JSON.parse(body) as { data: { object: object } }).data.object)
    }),
  )
const isTold = (owner: string) =>
  until(
    async (q) =>
      (
        await q`SELECT 1 FROM read.events WHERE account = ${decodeId('acc', owner)}
                AND type = 'account.spend_threshold'`
      ).length > 0,
  )

describe('account.spend_threshold', () => {
  // Rules: EVT-8, EVT-9
  it.live('is recorded once when a limit is set or lowered, or the threshold, below the amount spent', () =>
    Effect.gen(function* () {
      const [unlimited, lowered, percent, raised] = [account(1), account(2), account(3), account(4)]
      yield* createSpender(unlimited, null)
      for (const owner of [lowered, percent, raised]) yield* createSpender(owner, '1000.00')
      yield* startProjector(environment)
      yield* startProjector(environment)

      yield* setLimit(unlimited, '100.00')
      yield* setLimit(lowered, '112.50')
      yield* setLimit(percent, '1000.00', 9)
      yield* setLimit(raised, '50.00')
      for (const owner of [unlimited, lowered, percent, raised]) yield* isTold(owner)
      const [event] = yield* told(lowered)
      assert.deepInclude(event, {
        object: 'spend_limit',
        limit: { amount: '112.50', currency: 'RUB' },
        spent: { amount: '90.00', currency: 'RUB' },
        soft_threshold_percent: 80,
      })

      // A later account is found only after the raised one was looked at again.
      yield* setLimit(raised, '5000.00')
      yield* setLimit(raised, '60.00')
      const later = account(5)
      yield* createSpender(later, '100.00')
      yield* isTold(later)
      for (const owner of [unlimited, lowered, percent, raised, later]) {
        assert.lengthOf(yield* told(owner), 1)
      }
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )

  // Rules: EVT-8
  it.live('is not recorded below the threshold', () =>
    Effect.gen(function* () {
      const [below, reached] = [account(6), account(7)]
      yield* createSpender(below, '112.51')
      yield* createSpender(reached, '112.50')
      yield* startProjector(environment)
      yield* isTold(reached)
      assert.deepStrictEqual(yield* told(below), [])
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )
})
