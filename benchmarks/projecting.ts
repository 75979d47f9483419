/**
 * What the projector carries: a backlog of delivered messages, against a bare COPY of the rows that they became, in one transaction for as
 * many records as a poll has; and how far it is behind at a steady rate.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { decodeId } from '@hub/domain'
import type { Position } from '@hub/kafka'
import postgres from 'postgres'
import { cpuMs } from './cpu.ts'
import { type KnowingWorld, RECORDS_A_MESSAGE } from './knowing-world.ts'
import { percentile } from './numbers.ts'

/** Records of a poll when there are enough: the projector's own bound, `POLL_SIZE`. */
const POLL = 2000
/** Transactions that the projector has under way at a time; the bare one gets as many. */
const AT_A_TIME = 2
/** The part of a backlog that goes before measuring: connections, plans and compiled code. */
const WARM_UP_PART = 1 / 4
/** A backlog that takes longer than this has failed. */
const WITHIN_MS = 120_000
/** Accepted, sent, delivered. */
const EVENTS_A_MESSAGE = 3
/** Messages of one append. */
const CHUNK = 500

/** Where everything that was appended ends, as the checkpoints name it. */
const endsOf = (prefix: string, positions: ReadonlyArray<Position>): Map<string, number> => {
  const ends = new Map<string, number>()
  for (const { offset, partition, topic } of positions) {
    const key = `${topic.slice(prefix.length)}/${partition}`
    ends.set(key, Math.max(ends.get(key) ?? 0, offset + 1))
  }
  return ends
}
const sum = (positions: Iterable<number>): number => [...positions].reduce((all, one) => all + one, 0)

export interface Projected {
  readonly perSecond: number
  /** CPU time of the projector and of PostgreSQL for a record, µs. */
  readonly projectorCpu: number
  readonly postgresCpu: number
  readonly messageIds: ReadonlyArray<string>
}

/** A backlog that the projector finds at its start. */
export const projectBacklog = async (
  world: KnowingWorld,
  messages: number,
  flags: ReadonlyArray<string> = [],
): Promise<Projected> => {
  const before = new Map(await world.checkpoints())
  const messageIds: Array<string> = []
  const ends = new Map(before)
  while (messageIds.length < messages) {
    const some = Array.from({ length: Math.min(CHUNK, messages - messageIds.length) }, world.delivered)
    messageIds.push(...some.map(({ messageId }) => messageId))
    const appended = endsOf(world.prefix, await world.append(some.flatMap(({ records }) => records)))
    for (const [key, end] of appended) ends.set(key, end)
  }
  const records = sum(ends.values()) - sum(before.values())
  const from = sum(before.values()) + records * WARM_UP_PART
  const to = sum(ends.values())
  await world.sql`CHECKPOINT`
  const projector = await world.start('projector', {}, flags)
  const costs = () => ({ projector: cpuMs(projector.pid), postgres: world.postgresCpu() })
  const begun = performance.now()
  let first: { readonly at: number; readonly done: number; readonly cpu: ReturnType<typeof costs> } | null =
    null
  for (;;) {
    const done = sum((await world.checkpoints()).values())
    const now = performance.now()
    if (first === null && done >= from) first = { at: now, done, cpu: costs() }
    if (done >= to) break
    if (now - begun > WITHIN_MS) throw new Error(`projected only ${done} of ${to} records`)
    await delay(20)
  }
  const last = { at: performance.now(), cpu: costs() }
  await projector.kill('SIGTERM')
  if (first === null || first.done >= to) throw new Error('the backlog was too short to be measured')
  const measured = to - first.done
  return {
    perSecond: measured / ((last.at - first.at) / 1000),
    projectorCpu: ((last.cpu.projector - first.cpu.projector) * 1000) / measured,
    postgresCpu: ((last.cpu.postgres - first.cpu.postgres) * 1000) / measured,
    messageIds,
  }
}

/**
 * The tables that a projected message has rows in for good: where they are found, and what makes each another row, so that the same go into
 * the same tables once more.
 */
const other = (id: string): string => `overlay(t.${id}::text PLACING 'b0b0' FROM 33)::uuid`
const joined = (table: string, id: string): string => `wanted w JOIN read.${table} t ON t.${id} = w.id`
const TABLES: ReadonlyArray<{
  readonly name: string
  /** Rows `t` and the `poll` of each. */
  readonly from: string
  readonly changed: Readonly<Record<string, string>>
}> = [
  { name: 'messages', from: joined('messages', 'id'), changed: { id: other('id') } },
  ...['message_history', 'personal_data', 'charges'].map((name) => ({
    name,
    from: joined(name, 'message_id'),
    changed: { message_id: other('message_id') },
  })),
  {
    name: 'operator_ids',
    from: joined('operator_ids', 'message_id'),
    changed: {
      message_id: other('message_id'),
      operator_id: `overlay(t.operator_id PLACING 'b0b0' FROM 33)`,
    },
  },
  {
    name: 'events',
    // They do not name their message in a column: the newest, as many as the messages have. Only these journals are of live keys.
    from: `(SELECT e.*, ((row_number() OVER (ORDER BY created_at, account, sequence) - 1) * (SELECT max(poll) + 1 FROM wanted)
                         / count(*) OVER ())::integer AS poll
              FROM (SELECT * FROM read.events WHERE mode = 'live'
                     ORDER BY created_at DESC, account, sequence DESC LIMIT (SELECT count(*) * ${EVENTS_A_MESSAGE} FROM wanted)) e) t`,
    changed: { id: other('id'), sequence: 't.sequence + 1000000000' },
  },
]

interface Portion {
  /** The statement that takes the rows. */
  readonly copy: string
  readonly rows: Buffer
}

/** What the tables hold of messages, as COPY wants it, a list for each poll. */
const portionsOf = async (
  databaseUrl: string,
  messageIds: ReadonlyArray<string>,
): Promise<ReadonlyArray<ReadonlyArray<Portion>>> => {
  // Temporary tables are a connection's own.
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => {} })
  const size = POLL / RECORDS_A_MESSAGE
  await sql`
    CREATE TEMP TABLE wanted AS
    SELECT id, ((place - 1) / ${size}::integer)::integer AS poll
      FROM unnest(${messageIds.map((id) => decodeId('msg', id)!)}::uuid[]) WITH ORDINALITY AS w (id, place)`
  await sql`ANALYZE wanted`
  const polls: ReadonlyArray<Array<Portion>> = Array.from(
    { length: Math.ceil(messageIds.length / size) },
    () => [],
  )
  for (const { changed, from, name } of TABLES) {
    const columns = (
      await sql<{ name: string }[]>`
        SELECT attname AS name FROM pg_attribute
         WHERE attrelid = ${`read.${name}`}::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`
    ).map((column) => column.name)
    const values = columns.map((column) => `${changed[column] ?? `t.${column}`} AS ${column}`)
    await sql.unsafe(`CREATE TEMP TABLE copied AS SELECT poll AS of_poll, ${values.join()} FROM ${from}`)
    for (const [poll, portions] of polls.entries()) {
      const rows: Array<Buffer> = []
      const out = await sql
        .unsafe(`COPY (SELECT ${columns.join()} FROM copied WHERE of_poll = ${poll}) TO STDOUT`)
        .readable()
      for await (const chunk of out) rows.push(chunk as Buffer)
      portions.push({ copy: `COPY read.${name} (${columns.join()}) FROM STDIN`, rows: Buffer.concat(rows) })
    }
    await sql`DROP TABLE copied`
  }
  await sql.end()
  return polls
}

export interface Copied {
  readonly perSecond: number
  /** CPU time of PostgreSQL for a record, µs. */
  readonly postgresCpu: number
}

/**
 * COPY is many small writes that nothing answers: the kernel would hold each back until the one before is acknowledged, for 40 ms. The driver
 * knows this option, its types do not.
 */
const prompt: object = {
  socket: ({ host, port }: { readonly host: Array<string>; readonly port: Array<number> }) =>
    connect({ host: host[0]!, port: port[0]!, noDelay: true }),
}

/** A bound on what hangs. */
const COPY_WITHIN_MS = 30_000

/** The rows of projected messages into the same tables, by COPY, a transaction a poll. */
export const copyBare = async (
  world: KnowingWorld,
  messageIds: ReadonlyArray<string>,
  atATime = AT_A_TIME,
): Promise<Copied> => {
  const polls = await portionsOf(world.databaseUrl, messageIds)
  const sql = postgres(world.databaseUrl, { max: atATime, onnotice: () => {}, ...prompt })
  await Promise.all(Array.from({ length: atATime }, () => sql`SELECT 1`))
  await world.sql`CHECKPOINT`
  const warmUp = Math.floor(polls.length * WARM_UP_PART)
  let next = 0
  const copyTo = async (end: number): Promise<void> => {
    while (next < end) {
      const portions = polls[next++]!
      await sql.begin(async (transaction) => {
        for (const { copy, rows } of portions) {
          const copying = await transaction.unsafe(copy).writable()
          // The driver says CopyFail when it destroys a stream, also one that is done. Behind the next COPY it would abort that one,
          // whose stream then waits for ever.
          await Promise.all([
            once(copying, 'close'),
            pipeline(Readable.from([rows]), copying, { signal: AbortSignal.timeout(COPY_WITHIN_MS) }),
          ])
        }
      })
    }
  }
  const all = (end: number) => Promise.all(Array.from({ length: atATime }, () => copyTo(end)))
  await all(warmUp)
  const [begun, cpu] = [performance.now(), world.postgresCpu()]
  await all(polls.length)
  const records = messageIds.length * RECORDS_A_MESSAGE * (1 - warmUp / polls.length)
  const result = {
    perSecond: records / ((performance.now() - begun) / 1000),
    postgresCpu: ((world.postgresCpu() - cpu) * 1000) / records,
  }
  await sql.end()
  return result
}

export interface Lag {
  readonly messagesPerSecond: number
  /** From the append of records until what they say can be read, ms. */
  readonly p50: number
  readonly p99: number
  /** CPU time of the projector and of PostgreSQL, cores. */
  readonly projectorCpu: number
  readonly postgresCpu: number
}

/** How often something is appended and looked at, ms. */
const STEP_MS = 25
const LOOK_MS = 5

/** Messages at an even pace; the first quarter warms up. */
export const lagAt = async (
  world: KnowingWorld,
  plan: { readonly perSecond: number; readonly durationMs: number },
): Promise<Lag> => {
  const projector = await world.start('projector')
  const costs = () => ({ projector: cpuMs(projector.pid), postgres: world.postgresCpu() })
  const waiting = new Set<{ readonly written: number; readonly ends: ReadonlyMap<string, number> }>()
  const lags: Array<number> = []
  const warmAt = performance.now() + plan.durationMs * WARM_UP_PART
  let over = false
  const watching = (async () => {
    while (!over || waiting.size > 0) {
      const now = await world.checkpoints()
      const at = performance.now()
      for (const one of waiting) {
        if (![...one.ends].every(([key, end]) => (now.get(key) ?? 0) >= end)) {
          if (at - one.written > WITHIN_MS) throw new Error('the projector does not come along')
          continue
        }
        waiting.delete(one)
        if (one.written >= warmAt) lags.push(at - one.written)
      }
      await delay(LOOK_MS)
    }
  })()
  const begun = performance.now()
  const cpu = costs()
  const appends: Array<Promise<unknown>> = []
  for (let step = 0; step * STEP_MS < plan.durationMs; step++) {
    const wait = begun + step * STEP_MS - performance.now()
    if (wait > 0) await delay(wait)
    const count = Math.round((plan.perSecond * STEP_MS) / 1000)
    const records = Array.from({ length: count }, world.delivered).flatMap((one) => one.records)
    const written = performance.now()
    appends.push(
      world
        .append(records)
        .then((positions) => waiting.add({ written, ends: endsOf(world.prefix, positions) })),
    )
  }
  await Promise.all(appends)
  const [seconds, after] = [(performance.now() - begun) / 1000, costs()]
  over = true
  await watching
  await projector.kill('SIGTERM')
  lags.sort((a, b) => a - b)
  return {
    messagesPerSecond: plan.perSecond,
    p50: percentile(lags, 0.5),
    p99: percentile(lags, 0.99),
    projectorCpu: (after.projector - cpu.projector) / 1000 / seconds,
    postgresCpu: (after.postgres - cpu.postgres) / 1000 / seconds,
  }
}
