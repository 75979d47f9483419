/**
 * The search and the list of messages of hub staff among many messages: the latency of each kind of
 * page, as statements and as requests to the operations API, and what its indexes cost. Runs alone, on
 * servers of its own.
 *
 *   node scripts/run.mjs benchmarks/search.ts [messages]
 */
import './end-on-signal.ts'
import { randomBytes, randomInt } from 'node:crypto'
import { encodeId, recipientHash, REJECTED_REASONS } from '@hub/domain'
import {
  CommandClientRefs,
  makeSql,
  MessageSearch,
  ReadMessages,
  ReadOperatorIds,
  timeOfUuid,
  type Queries,
} from '@hub/store'
import { Effect, Redacted } from 'effect'
import postgres from 'postgres'
import { startHub, type TestHub } from '../test/support/hub.ts'
import { FILL_CONNECTION, fillSearch, TEMPLATES } from './fill-search.ts'
import { latenciesOf, latencyText, median } from './numbers.ts'

const MESSAGES = Number(process.argv[2] ?? 5_000_000)
const SAMPLES = 400
const PAGE = 50
/** The hash secret of the hub, to find messages by numbers. */
const HASH_SECRET = randomBytes(32).toString('hex')

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

/** A number whose messages the search finds: of the message with this place among the subjects. */
const numberOf = (place: number): string => `+79${String(place).padStart(9, '0')}`

/** Gives the subjects recipients whose numbers are known. The recipients of all others have no number. */
const setNumbers = async (sql: postgres.Sql, { ids }: Subjects): Promise<void> => {
  const hashes = ids.map((_, place) => recipientHash(HASH_SECRET, numberOf(place)))
  await sql`
    UPDATE read.personal_data SET recipient = decode(known.hash, 'hex')
      FROM unnest(${[...ids]}::uuid[], ${hashes}::text[]) AS known (id, hash) WHERE message_id = known.id`
}

/** Gives each subject a batch and an event with its own UUID. */
const addBatchesAndEvents = async (sql: postgres.Sql, { ids }: Subjects): Promise<void> => {
  await sql`
    INSERT INTO read.batches (id, account, mode)
    SELECT id, account, 'live' FROM search_rows WHERE id = ANY (${[...ids]}::uuid[])`
  const bodies = ids.map((id) => JSON.stringify({ data: { object: { id: encodeId('msg', id) } } }))
  await sql`
    INSERT INTO read.events (account, mode, sequence, id, type, created_at, body)
    SELECT account, 'live', n, id, 'message.delivered', at, about.body
      FROM search_rows JOIN unnest(${[...ids]}::uuid[], ${bodies}::text[]) AS about (id, body) USING (id)`
}

type Get = (path: string, filter: Readonly<Record<string, string | number>>) => Promise<void>
type Find = (typed: string) => Promise<void>

/** The requests of the search box and of the list, as the console makes them. */
const REQUESTS: Readonly<Record<string, (subjects: Subjects, find: Find, get: Get) => Promise<void>>> =
  (() => {
    const list =
      (filter: (subjects: Subjects) => Readonly<Record<string, string>>) =>
      (subjects: Subjects, _: Find, get: Get) =>
        get('/v1/messages', { limit: PAGE, ...filter(subjects) })
    const account = ({ accounts }: Subjects) => ({ account: encodeId('acc', pick(accounts)) })
    const from = ({ ids }: Subjects) => ({ created_before: new Date(timeOfUuid(pick(ids))).toISOString() })
    return {
      'by number': ({ ids }, find) => find(numberOf(randomInt(ids.length))),
      'by msg_ id': ({ ids }, find) => find(encodeId('msg', pick(ids))),
      'by bat_ id': ({ ids }, find) => find(encodeId('bat', pick(ids))),
      'by evt_ id': ({ ids }, find) => find(encodeId('evt', pick(ids))),
      'by req_ id (the lanes are empty)': ({ ids }, find) => find(encodeId('req', pick(ids))),
      'by client_ref': (_, find) => find(`order-${randomInt(MESSAGES / 10) * 10 + 1}`),
      'by operator id': (_, find) => find(`part-${randomInt(1, MESSAGES)}`),
      'by acc_ id': ({ accounts }, find) => find(encodeId('acc', pick(accounts))),
      'by an unknown text': (_, find) => find(`unknown-${randomInt(MESSAGES)}`),
      'one message': ({ ids }, _, get) => get(`/v1/messages/${encodeId('msg', pick(ids))}`, {}),
      newest: list(() => ({})),
      'before any time': list(from),
      'of a mode and a class': list((s) => ({ ...from(s), mode: 'test', class: 'otp' })),
      'of an account': list(account),
      'of an account and a template': list((s) => ({
        ...account(s),
        template: `template_${randomInt(TEMPLATES)}`,
      })),
      'of an account and a failed status': list((s) => ({ ...account(s), status: 'rejected' })),
      'of a failed status': list((s) => ({ ...from(s), status: 'undelivered' })),
      'of a reason': list((s) => ({ ...from(s), reason: pick(REJECTED_REASONS) })),
      'of a reason and an account': list((s) => ({
        ...from(s),
        ...account(s),
        reason: pick(REJECTED_REASONS),
      })),
      'of a rare template': list((s) => ({ ...from(s), template: 'rare' })),
      'of a status without messages': list((s) => ({ ...from(s), status: 'sent' })),
    }
  })()

/** Not measured: the first requests of each kind. */
const WARM_UP = 20

/** Measures the operations API, with the session of a viewer. */
const measureRequests = async (hub: TestHub, subjects: Subjects): Promise<void> => {
  const { operations_url: url = '' } = hub.describe()
  const login = await fetch(hub.loginLink('bench', ['viewer']), { redirect: 'manual' })
  const cookie = login.headers.getSetCookie()[0]?.split(';', 1)[0] ?? ''
  const read = async (response: Response): Promise<string> => {
    const text = await response.text()
    if (response.status !== 200) throw new Error(`the operations API answers ${response.status} ${text}`)
    return text
  }
  const me = JSON.parse(await read(await fetch(`${url}/v1/me`, { headers: { cookie } }))) as {
    readonly csrf_token: string
  }
  const get: Get = async (path, filter) => {
    const query = new URLSearchParams(
      Object.entries(filter).map(([name, value]): [string, string] => [name, String(value)]),
    )
    await read(await fetch(`${url}${path}?${query.toString()}`, { headers: { cookie } }))
  }
  const headers = { cookie, 'x-csrf-token': me.csrf_token, 'content-type': 'application/json' }
  const find: Find = async (typed) => {
    const body = JSON.stringify({ q: typed })
    await read(await fetch(`${url}/v1/search`, { method: 'POST', headers, body }))
  }
  for (const [name, request] of Object.entries(REQUESTS)) {
    const times: Array<number> = []
    for (let i = -WARM_UP; i < SAMPLES; i++) {
      const began = performance.now()
      await request(subjects, find, get)
      if (i >= 0) times.push(performance.now() - began)
    }
    console.log(`over HTTP, ${name}: ${latencyText(latenciesOf(times), 1)}`)
  }
}

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

const hub = await startHub({
  operations: true,
  apps: [],
  environment: { HUB_NUMBER_HASH_SECRET: HASH_SECRET },
})
try {
  const { database_url: databaseUrl } = hub.describe()
  const sql = postgres(databaseUrl, { max: 2, onnotice: () => {}, connection: FILL_CONNECTION })
  await fillSearch(sql, MESSAGES)
  await sql`CHECKPOINT`
  const accounts = await sql<{ id: string }[]>`SELECT id FROM search_accounts ORDER BY n`
  const ids = await sql<{ id: string }[]>`
    SELECT id FROM search_rows WHERE n % ${Math.floor(MESSAGES / 1000)}::bigint = 0`
  const subjects = { accounts: accounts.map(({ id }) => id), ids: ids.map(({ id }) => id) }
  await Effect.runPromise(
    Effect.gen(function* () {
      // The settings of the connections of the hub decide about the plans.
      const pool = yield* makeSql(Redacted.make(databaseUrl), 2, 'bench')
      for (const [name, query] of Object.entries(QUERIES)) {
        const times: Array<number> = []
        for (let i = 0; i < SAMPLES; i++) {
          const began = performance.now()
          yield* pool.run((q) => query(q, subjects), { deadline: '10 seconds' })
          times.push(performance.now() - began)
        }
        console.log(`${name}: ${latencyText(latenciesOf(times), 1)}`)
      }
    }).pipe(Effect.scoped),
  )
  await setNumbers(sql, subjects)
  await addBatchesAndEvents(sql, subjects)
  await measureRequests(hub, subjects)
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
} finally {
  await hub.stop()
}
