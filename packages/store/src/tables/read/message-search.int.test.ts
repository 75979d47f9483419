/** A page of the search reads a bounded number of rows, whatever the filter is, and misses none. */
import { randomUUID } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import { freshDatabase } from '@hub/testkit'
import { Effect, Layer, Redacted } from 'effect'
import { afterAll, beforeAll } from 'vitest'
import { makeSql, MessageSearch, Sql } from '../../index.ts'

const { drop, url } = await freshDatabase()
afterAll(drop)
const layer = Layer.effect(Sql, makeSql(Redacted.make(url), 2, 'message-search-test'))

const ACCOUNT = randomUUID()
const ROWS = 30_000
const PAGE = 20

/**
 * Messages of three months. A hundredth failed, half of them as spam. A thousandth is of a rare
 * template; one message has a rare reason.
 */
const insertMessages = Effect.gen(function* () {
  const sql = yield* Sql
  yield* sql.run((q) => q`SELECT command.ensure_months('read.messages', now() - interval '3 months', 4)`)
  yield* sql.run(
    (q) => q`
      INSERT INTO read.messages (id, account, mode, class, recipient, template, sender, parts, price, currency, variables,
                                 created_at, updated_at, status, reason_code, rank, final)
      SELECT overlay(gen_random_uuid()::text PLACING left(command.uuid_floor(at)::text, 13) FROM 1 FOR 13)::uuid,
             CASE WHEN n % 10 = 5 THEN ${ACCOUNT}::uuid ELSE gen_random_uuid() END, 'live',
             'service', '\\x00', CASE WHEN n % 1000 = 1 THEN 'rare' ELSE 'usual' END, 'HUB', 1, 2, 'RUB', '{}', at, at,
             CASE WHEN n % 100 = 2 THEN 'rejected' WHEN n = 20000 THEN 'expired' ELSE 'delivered' END,
             CASE WHEN n % 200 = 2 THEN 'spam_filter_content' WHEN n % 100 = 2 THEN 'operator_rejected'
                  WHEN n = 20000 THEN 'dlr_timeout' END, 3, true
        FROM generate_series(1, ${ROWS}) AS n,
             LATERAL (SELECT now() - n * interval '4 minutes' AS at) AS moment`,
    { deadline: '60 seconds' },
  )
})

beforeAll(() => Effect.runPromise(insertMessages.pipe(Effect.provide(layer))), 90_000)

const ANY: MessageSearch.SearchFilter = {
  account: null,
  mode: null,
  class: null,
  template: null,
  status: null,
  reason: null,
  range: null,
  createdAfter: null,
  createdBefore: null,
  below: null,
}

/** A page, and how many entries of indexes and rows PostgreSQL read for it. */
const measured = (filter: MessageSearch.SearchFilter, limit: number) =>
  Effect.flatMap(Sql, (sql) =>
    sql.transaction(async (q) => {
      const page = await MessageSearch.findPage(q, filter, limit)
      const [row] = await q<{ read: string }[]>`
        SELECT sum(pg_stat_get_xact_tuples_returned(i.indexrelid) + pg_stat_get_xact_tuples_returned(i.indrelid)) AS read
          FROM pg_index i JOIN pg_inherits h ON h.inhrelid = i.indrelid
         WHERE h.inhparent = 'read.messages'::regclass`
      return { page, read: Number(row?.read) }
    }),
  )

/** A full page reads its rows, and the first one of each range in each month. */
const MOST_READ = 6 * PAGE
/** Entries of the index and rows. A page that is not full also looks for the place where it stopped. */
const MOST_EXAMINED = 2 * 2 * (MessageSearch.EXAMINED + PAGE)

describe('a page of the search', () => {
  it.live.each([
    ['without a filter', {}, PAGE, MOST_READ],
    ['of an account', { account: ACCOUNT }, PAGE, MOST_READ],
    ['of a failed status', { status: 'rejected' }, PAGE, MOST_READ],
    ['of a reason', { reason: 'spam_filter_content' }, PAGE, MOST_READ],
    ['of a rare reason', { reason: 'dlr_timeout' }, 1, MOST_READ],
    ['of a status without messages', { status: 'undelivered' }, 0, MOST_READ],
    ['of an account without failures', { reason: 'operator_rejected', account: ACCOUNT }, 0, MOST_EXAMINED],
    ['of a rare template', { template: 'rare' }, 10, MOST_EXAMINED],
    ['of an old month', { createdBefore: Date.now() - 60 * 86_400_000 }, PAGE, MOST_READ],
  ] as const)('%s reads a bounded number of rows', ([, filter, length, most]) =>
    Effect.gen(function* () {
      const sql = yield* Sql
      for (const statistics of ['without', 'with'] as const) {
        if (statistics === 'with') yield* sql.run((q) => q`ANALYZE read.messages`, { deadline: '30 seconds' })
        const { page, read } = yield* measured({ ...ANY, ...filter }, PAGE)
        assert.lengthOf(page.ids, length)
        assert.deepStrictEqual([...page.ids], page.ids.toSorted().toReversed())
        assert.isAtMost(read, most, `${statistics} statistics`)
      }
    }).pipe(Effect.provide(layer)),
  )

  it.live('and the following ones find every message, also after pages without one', () =>
    Effect.gen(function* () {
      for (const [filter, count] of [
        [{ template: 'rare' }, ROWS / 1000],
        [{ status: 'rejected' }, ROWS / 100],
        [{ reason: 'operator_rejected' }, ROWS / 200],
      ] as const) {
        const seen: Array<string> = []
        let below: string | null = null
        do {
          const { page }: { page: MessageSearch.SearchPage } = yield* measured(
            { ...ANY, ...filter, below },
            200,
          )
          seen.push(...page.ids)
          below = page.next
        } while (below !== null)
        assert.lengthOf(seen, count)
        assert.lengthOf([...new Set(seen)], count)
      }
    }).pipe(Effect.provide(layer)),
  )
})
