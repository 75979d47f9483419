/**
 * The search and the list of messages of hub staff among many messages: the latency of each kind of
 * page, and what its indexes cost. Runs alone, on servers of its own.
 *
 *   node scripts/run.mjs benchmarks/search.ts [messages]
 */
import './end-on-signal.ts'
import { randomInt } from 'node:crypto'
import { REJECTED_REASONS } from '@hub/domain'
import {
  CommandClientRefs,
  makeSql,
  MessageSearch,
  migrate,
  ReadMessages,
  ReadOperatorIds,
  type Queries,
} from '@hub/store'
import { freshDatabase } from '@hub/testkit'
import { Effect, Redacted } from 'effect'
import postgres from 'postgres'
import { startStack } from '../test/support/hub.ts'
import { FILL_CONNECTION, fillSearch, TEMPLATES } from './fill-search.ts'
import { latenciesOf, latencyText, median } from './numbers.ts'

const MESSAGES = Number(process.argv[2] ?? 5_000_000)
const SAMPLES = 400
const PAGE = 50

const ANY: MessageSearch.SearchFilter = {
  account: null,
  mode: null,
  class: null,
  template: null,
  status: null,
  reason: null,
  createdAfter: null,
  createdBefore: null,
  below: null,
}

interface Subjects {
  readonly accounts: ReadonlyArray<string>
  /** Messages spread over the table. */
  readonly ids: ReadonlyArray<string>
}

const pick = <A>(values: ReadonlyArray<A>): A => values[randomInt(values.length)]!

/** The kinds of pages. Each begins at a random message, as a reader who continues does. */
const QUERIES: Readonly<Record<string, (q: Queries, subjects: Subjects) => Promise<unknown>>> = (() => {
  const page =
    (filter: (subjects: Subjects) => Partial<MessageSearch.SearchFilter>) =>
    async (q: Queries, subjects: Subjects) => {
      const found = await MessageSearch.findPage(q, { ...ANY, ...filter(subjects) }, PAGE)
      return found.ids.length === 0 ? [] : ReadMessages.readAll(q, found.ids)
    }
  const from = ({ ids }: Subjects) => ({ below: pick(ids) })
  return {
    'by number': (q) =>
      q`SELECT encode(sha256(int8send(${randomInt(MESSAGES)}::bigint)), 'hex') AS hash`.then(
        async ([row]) => {
          const ids = await ReadMessages.findOfRecipient(q, (row as { hash: string }).hash, null, PAGE)
          return ReadMessages.readAll(q, ids)
        },
      ),
    'by id': (q, { ids }) => ReadMessages.readAll(q, [pick(ids)]),
    'by client_ref, all accounts': async (q) =>
      ReadMessages.readAll(
        q,
        await CommandClientRefs.findInAllAccounts(q, `order-${randomInt(MESSAGES / 10) * 10 + 1}`, PAGE),
      ),
    'by operator id': (q) =>
      ReadOperatorIds.findMessages(
        q,
        ['smpp', 'http', 'sandbox'].map((operator) => ({
          operator,
          operatorId: `part-${randomInt(MESSAGES)}`,
          recipient: null,
        })),
      ),
    newest: page(() => ({})),
    'from any message': page(from),
    'of a mode and a class': page((s) => ({ ...from(s), mode: 'test', class: 'otp' })),
    'of an account': page((s) => ({ account: pick(s.accounts) })),
    'of an account and a template': page((s) => ({
      account: pick(s.accounts),
      template: `template_${randomInt(TEMPLATES)}`,
    })),
    'of an account and a failed status': page((s) => ({ account: pick(s.accounts), status: 'rejected' })),
    'of a failed status': page((s) => ({ ...from(s), status: 'undelivered' })),
    'of a reason': page((s) => ({ ...from(s), reason: pick(REJECTED_REASONS) })),
    'of a reason and an account': page((s) => ({
      ...from(s),
      reason: pick(REJECTED_REASONS),
      account: pick(s.accounts),
    })),
    'of a rare template': page((s) => ({ ...from(s), template: 'rare' })),
    'of a status without messages': page((s) => ({ ...from(s), status: 'sent' })),
  }
})()

/** Rows of one measurement of the cost of an index. */
const WRITTEN = 100_000
const ROUNDS = 5

/**
 * The time to insert rows into a copy of a table, with each set of further indexes. The variants take
 * turns, so that other work on the machine affects all of them.
 */
const writeTimes = async (
  sql: postgres.Sql,
  table: string,
  variants: Readonly<Record<string, ReadonlyArray<string>>>,
): Promise<void> => {
  const times = new Map(Object.keys(variants).map((name) => [name, [] as Array<number>]))
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, indexes] of Object.entries(variants)) {
      await sql.unsafe(`CREATE TABLE written (LIKE read.${table} INCLUDING DEFAULTS)`)
      for (const index of indexes) await sql.unsafe(`CREATE INDEX ON written ${index}`)
      const began = performance.now()
      await sql.unsafe(`INSERT INTO written SELECT * FROM read.${table} ORDER BY 1 LIMIT ${WRITTEN}`)
      times.get(name)!.push(performance.now() - began)
      await sql`DROP TABLE written`
    }
  }
  for (const [name, measured] of times) {
    console.log(`${table}, ${name}: ${((median(measured) * 1000) / WRITTEN).toFixed(2)} µs for a row`)
  }
}

/** The indexes of `read.messages` before the search. */
const LISTS = [
  '(id)',
  '(account, mode, class, status, created_at, id)',
  '(account, mode, template, status, created_at, id)',
]

const stack = await startStack()
try {
  const database = await freshDatabase(stack.adminDatabaseUrl)
  await Effect.runPromise(migrate(database.url))
  const sql = postgres(database.url, { max: 2, onnotice: () => {}, connection: FILL_CONNECTION })
  await fillSearch(sql, MESSAGES)
  await sql`CHECKPOINT`
  const accounts = await sql<{ id: string }[]>`SELECT id FROM search_accounts ORDER BY n`
  const ids = await sql<{ id: string }[]>`
    SELECT id FROM search_rows WHERE n % ${Math.floor(MESSAGES / 1000)}::bigint = 0`
  const subjects = { accounts: accounts.map(({ id }) => id), ids: ids.map(({ id }) => id) }
  await Effect.runPromise(
    Effect.gen(function* () {
      // The settings of the connections of the hub decide about the plans.
      const hub = yield* makeSql(Redacted.make(database.url), 2, 'bench')
      for (const [name, query] of Object.entries(QUERIES)) {
        const times: Array<number> = []
        for (let i = 0; i < SAMPLES; i++) {
          const began = performance.now()
          yield* hub.run((q) => query(q, subjects), { deadline: '10 seconds' })
          times.push(performance.now() - began)
        }
        console.log(`${name}: ${latencyText(latenciesOf(times), 1)}`)
      }
    }).pipe(Effect.scoped),
  )
  const sizes = await sql<{ name: string; mb: number }[]>`
    SELECT i.indexrelid::regclass::text AS name, round(pg_relation_size(i.indexrelid) / 1e6)::integer AS mb
      FROM pg_index i JOIN pg_inherits h ON h.inhrelid = i.indrelid
     WHERE h.inhparent IN ('read.messages'::regclass, 'read.personal_data'::regclass) AND pg_relation_size(i.indexrelid) > 1e6
     ORDER BY 1`
  for (const { mb, name } of sizes) console.log(`${name}: ${mb} MB`)
  await writeTimes(sql, 'messages', {
    before: LISTS,
    'with the index of failed messages': [...LISTS, '(reason_code, id) WHERE reason_code IS NOT NULL'],
  })
  await writeTimes(sql, 'personal_data', {
    before: ['(message_id)', '(recipient)'],
    'with the message in the index of recipients': ['(message_id)', '(recipient, message_id)'],
  })
  await sql.end()
  await database.drop()
} finally {
  await stack.stop()
}
