/** Lists of messages read about as many rows as they return, however many rows the owner has. */
import { randomUUID } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import { freshDatabase } from '@hub/testkit'
import { Effect, Layer, Redacted } from 'effect'
import { afterAll, beforeAll } from 'vitest'
import { makeSql, ReadMessages, Sql } from '../../index.ts'

const { drop, url } = await freshDatabase()
afterAll(drop)
const layer = Layer.effect(Sql, makeSql(Redacted.make(url), 2, 'message-lists-test'))

const OWNER = { account: randomUUID(), mode: 'live' } as const
const ROWS = 30_000
const PAGE = 20

/** Messages of three months: a thousandth is expired, of a rare template, or a code. */
const insertMessages = Effect.gen(function* () {
  const sql = yield* Sql
  yield* sql.run((q) => q`SELECT command.ensure_months('read.messages', now() - interval '3 months', 4)`)
  yield* sql.run(
    (q) => q`
      INSERT INTO read.messages (id, account, mode, class, recipient, template, sender, parts, price, currency, variables,
                                 created_at, updated_at, status, rank, final)
      SELECT overlay(gen_random_uuid()::text PLACING left(command.uuid_floor(at)::text, 13) FROM 1 FOR 13)::uuid,
             CASE WHEN n % 10 = 5 THEN gen_random_uuid() ELSE ${OWNER.account}::uuid END, 'live',
             CASE WHEN n % 1000 = 0 THEN 'otp' ELSE 'service' END::command.class, '\\x00',
             CASE WHEN n % 1000 = 1 THEN 'rare' ELSE 'usual' END, 'HUB', 1, 2, 'RUB', '{}', at, at,
             CASE WHEN n % 1000 = 2 THEN 'expired' ELSE 'delivered' END, 3, true
        FROM generate_series(1, ${ROWS}) AS n,
             LATERAL (SELECT now() - n * interval '4 minutes' AS at) AS moment`,
    { deadline: '60 seconds' },
  )
})

const ANY: ReadMessages.ListFilter = {
  status: null,
  class: null,
  template: null,
  createdAfter: null,
  createdBefore: null,
  before: null,
}

const OLD = new Date(Date.now() - 60 * 86_400_000)
/** For each filter a value that few messages have, or the middle of the times. A page of messages passes it. */
const EACH: Readonly<Record<keyof ReadMessages.ListFilter, Partial<ReadMessages.ListFilter>>> = {
  status: { status: 'expired' },
  class: { class: 'otp' },
  template: { template: 'rare' },
  createdAfter: { createdAfter: OLD },
  createdBefore: { createdBefore: OLD },
  before: { before: { id: OWNER.account, created_at: OLD } },
}

/** The rows that a list returns, and how many entries of indexes PostgreSQL read for it. */
const measured = (filter: ReadMessages.ListFilter) =>
  Effect.flatMap(Sql, (sql) =>
    sql.transaction(async (q) => {
      const rows = await q<ReadMessages.ListPosition[]>`
        SELECT * FROM (${ReadMessages.selectNewest(q, OWNER, filter, PAGE)}) AS found
         ORDER BY created_at DESC, id DESC LIMIT ${PAGE}`
      const [row] = await q<{ read: string }[]>`
        SELECT sum(pg_stat_get_xact_tuples_returned(i.indexrelid) + pg_stat_get_xact_tuples_returned(i.indrelid)) AS read
          FROM pg_index i JOIN pg_inherits h ON h.inhrelid = i.indrelid
         WHERE h.inhparent = 'read.messages'::regclass`
      return { rows, read: Number(row?.read) }
    }),
  )

/** A list reads a page of each class and status, and the first row of each month. */
const MOST_READ = 4 * PAGE

beforeAll(() => Effect.runPromise(insertMessages.pipe(Effect.provide(layer))), 90_000)

describe('a list of messages', () => {
  it.live.each<readonly [name: string, filter: Partial<ReadMessages.ListFilter>, length: number]>([
    ['without a filter', {}, PAGE],
    ['of the usual class', { class: 'service' }, PAGE],
    ...Object.entries(EACH).map(([name, filter]) => [`with ${name}`, filter, PAGE] as const),
    ['of a status without messages', { status: 'rejected' }, 0],
    ['of a template without messages', { template: 'unknown', status: 'delivered' }, 0],
    ['of a template without messages of the class', { template: 'rare', class: 'otp' }, 0],
    ['of a status that the class does not have', { class: 'otp', status: 'expired' }, 0],
    ['of a status that the template does not have', { template: 'usual', status: 'sent' }, 0],
  ])('%s reads no more than a few rows beside its own', ([, filter, length]) =>
    Effect.gen(function* () {
      const sql = yield* Sql
      for (const statistics of ['without', 'with'] as const) {
        if (statistics === 'with') yield* sql.run((q) => q`ANALYZE read.messages`, { deadline: '30 seconds' })
        const { read, rows } = yield* measured({ ...ANY, ...filter })
        assert.lengthOf(rows, length)
        const times = rows.map(({ created_at }) => created_at.getTime())
        assert.deepStrictEqual(
          times,
          times.toSorted((a, b) => b - a),
        )
        assert.isAtMost(read, MOST_READ, `${statistics} statistics`)
      }
    }).pipe(Effect.provide(layer)),
  )
})
