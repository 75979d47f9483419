/**
 * Throughput of the projector with a backlog of delivered messages, a bare COPY of the same rows as
 * its limit, and the lag of the projector at a steady rate.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { decodeId } from '@hub/domain'
import type { Position } from '@hub/kafka'
import postgres from 'postgres'
import { EVENTS_PER_MESSAGE } from './event-journal.ts'
import { cpuWithChildrenMs } from './process-usage.ts'
import { type ReadModelEnvironment, RECORDS_PER_MESSAGE } from './read-model-environment.ts'
import { type Latencies, latenciesOf } from './numbers.ts'

/** Records of a transaction batch in a backlog: the projector's own bound. */
const BATCH_RECORDS = 2000
/** Concurrent transactions of the projector. COPY uses the same number. */
const CONCURRENT_TRANSACTIONS = 2
/** The share of a backlog that is warm-up: connections, plans and compiled code. */
const WARM_UP_PART = 1 / 4
/** A backlog that takes longer than this has failed. */
const WITHIN_MS = 120_000
/** Messages per append. */
const CHUNK = 500

/** The next offset after the appended records, by topic (without prefix) and partition. */
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

/** Appends a backlog, starts a projector, and measures until it has applied everything. */
export const projectBacklog = async (
  environment: ReadModelEnvironment,
  messages: number,
): Promise<Projected> => {
  const before = new Map(await environment.checkpoints())
  const messageIds: Array<string> = []
  const ends = new Map(before)
  while (messageIds.length < messages) {
    const some = Array.from({ length: Math.min(CHUNK, messages - messageIds.length) }, environment.delivered)
    messageIds.push(...some.map(({ messageId }) => messageId))
    const appended = endsOf(
      environment.prefix,
      await environment.append(some.flatMap(({ records }) => records)),
    )
    for (const [key, end] of appended) ends.set(key, end)
  }
  const records = sum(ends.values()) - sum(before.values())
  const from = sum(before.values()) + records * WARM_UP_PART
  const to = sum(ends.values())
  await environment.sql`CHECKPOINT`
  const projector = await environment.start('projector')
  const costs = () => ({ projector: cpuWithChildrenMs(projector.pid), postgres: environment.postgresCpu() })
  const started = performance.now()
  let first: { readonly at: number; readonly done: number; readonly cpu: ReturnType<typeof costs> } | null =
    null
  for (;;) {
    const done = sum((await environment.checkpoints()).values())
    const now = performance.now()
    if (first === null && done >= from) first = { at: now, done, cpu: costs() }
    if (done >= to) break
    if (now - started > WITHIN_MS)
      throw new Error(`The projector applied only ${done} of ${to} records within two minutes.`)
    await delay(20)
  }
  const last = { at: performance.now(), cpu: costs() }
  await projector.kill('SIGTERM')
  if (first === null || first.done >= to)
    throw new Error('The backlog was too short to measure. Increase BACKLOG in read-models.ts.')
  const measured = to - first.done
  return {
    perSecond: measured / ((last.at - first.at) / 1000),
    projectorCpu: ((last.cpu.projector - first.cpu.projector) * 1000) / measured,
    postgresCpu: ((last.cpu.postgres - first.cpu.postgres) * 1000) / measured,
    messageIds,
  }
}

/** Another UUID: version 8, which no id of the hub has, so that it differs from every stored id. */
const otherUuid = (column: string): string => `overlay(t.${column}::text PLACING '8' FROM 15)`
const otherId = (column: string): string => `${otherUuid(column)}::uuid`
const joined = (table: string, id: string): string => `wanted w JOIN read.${table} t ON t.${id} = w.id`
/**
 * The tables in which a projected message has rows. `from` selects the rows; `changed` gives each
 * row another key, so that COPY can insert it into the same table once more.
 */
const TABLES: ReadonlyArray<{
  readonly name: string
  /** Rows `t`, and the transaction batch (`batch`) of each. */
  readonly from: string
  readonly changed: Readonly<Record<string, string>>
}> = [
  { name: 'messages', from: joined('messages', 'id'), changed: { id: otherId('id') } },
  ...['message_history', 'personal_data', 'charges'].map((name) => ({
    name,
    from: joined(name, 'message_id'),
    changed: { message_id: otherId('message_id') },
  })),
  {
    name: 'operator_ids',
    from: joined('operator_ids', 'message_id'),
    changed: {
      message_id: otherId('message_id'),
      operator_id: otherUuid('operator_id'),
    },
  },
  {
    name: 'events',
    // No column of an event names its message: select as many of the newest live events.
    from: `(SELECT e.*, ((row_number() OVER (ORDER BY created_at, account, sequence) - 1) * (SELECT max(batch) + 1 FROM wanted)
                         / count(*) OVER ())::integer AS batch
              FROM (SELECT * FROM read.events WHERE mode = 'live'
                     ORDER BY created_at DESC, account, sequence DESC LIMIT (SELECT count(*) * ${EVENTS_PER_MESSAGE} FROM wanted)) e) t`,
    changed: { id: otherId('id'), sequence: 't.sequence + 1000000000' },
  },
]

interface CopyStep {
  readonly copy: string
  readonly rows: Buffer
}

/** The rows of the messages in COPY format, for each transaction batch. */
const copyStepsOf = async (
  databaseUrl: string,
  messageIds: ReadonlyArray<string>,
): Promise<ReadonlyArray<ReadonlyArray<CopyStep>>> => {
  // One connection, because temporary tables belong to a connection.
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => {} })
  const size = BATCH_RECORDS / RECORDS_PER_MESSAGE
  await sql`
    CREATE TEMP TABLE wanted AS
    SELECT id, ((place - 1) / ${size}::integer)::integer AS batch
      FROM unnest(${messageIds.map((id) => decodeId('msg', id)!)}::uuid[]) WITH ORDINALITY AS w (id, place)`
  await sql`ANALYZE wanted`
  const batches: ReadonlyArray<Array<CopyStep>> = Array.from(
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
    await sql.unsafe(`CREATE TEMP TABLE copied AS SELECT batch AS of_batch, ${values.join()} FROM ${from}`)
    for (const [number, steps] of batches.entries()) {
      const rows: Array<Buffer> = []
      const out = await sql
        .unsafe(`COPY (SELECT ${columns.join()} FROM copied WHERE of_batch = ${number}) TO STDOUT`)
        .readable()
      for await (const chunk of out) rows.push(chunk as Buffer)
      steps.push({ copy: `COPY read.${name} (${columns.join()}) FROM STDIN`, rows: Buffer.concat(rows) })
    }
    await sql`DROP TABLE copied`
  }
  await sql.end()
  return batches
}

export interface Copied {
  readonly perSecond: number
  /** CPU time of PostgreSQL for a record, µs. */
  readonly postgresCpu: number
}

/**
 * Disables Nagle's algorithm, which would delay the small writes of COPY by up to 40 ms. The types
 * of the driver do not contain this option.
 */
const noDelaySocket: object = {
  socket: ({ host, port }: { readonly host: Array<string>; readonly port: Array<number> }) =>
    connect({ host: host[0]!, port: port[0]!, noDelay: true }),
}

/** Ends a COPY that hangs, as after an error: the driver reports none, but PostgreSQL logs it. */
const COPY_WITHIN_MS = 30_000

/** Inserts the rows of projected messages by COPY, with one transaction per batch. */
export const copyBare = async (
  environment: ReadModelEnvironment,
  messageIds: ReadonlyArray<string>,
): Promise<Copied> => {
  const batches = await copyStepsOf(environment.databaseUrl, messageIds)
  const sql = postgres(environment.databaseUrl, {
    max: CONCURRENT_TRANSACTIONS,
    onnotice: () => {},
    ...noDelaySocket,
  })
  await Promise.all(Array.from({ length: CONCURRENT_TRANSACTIONS }, () => sql`SELECT 1`))
  await environment.sql`CHECKPOINT`
  const warmUp = Math.floor(batches.length * WARM_UP_PART)
  let next = 0
  const copyTo = async (end: number): Promise<void> => {
    while (next < end) {
      const steps = batches[next++]!
      await sql.begin(async (transaction) => {
        for (const { copy, rows } of steps) {
          const copying = await transaction.unsafe(copy).writable()
          // Wait for 'close' before the next COPY. The driver sends CopyFail when it destroys a
          // stream, even a finished one. A CopyFail after the start of the next COPY would abort
          // that COPY, and its stream would never end.
          await Promise.all([
            once(copying, 'close'),
            pipeline(Readable.from([rows]), copying, { signal: AbortSignal.timeout(COPY_WITHIN_MS) }),
          ])
        }
      })
    }
  }
  const all = (end: number) => Promise.all(Array.from({ length: CONCURRENT_TRANSACTIONS }, () => copyTo(end)))
  await all(warmUp)
  const [started, cpu] = [performance.now(), environment.postgresCpu()]
  await all(batches.length)
  const records = messageIds.length * RECORDS_PER_MESSAGE * (1 - warmUp / batches.length)
  const result = {
    perSecond: records / ((performance.now() - started) / 1000),
    postgresCpu: ((environment.postgresCpu() - cpu) * 1000) / records,
  }
  await sql.end()
  return result
}

/** The latencies are from the append of records until their rows can be read, ms. */
export interface Lag extends Latencies {
  /** CPU time of the projector and of PostgreSQL, cores. */
  readonly projectorCpu: number
  readonly postgresCpu: number
}

/** Interval between two appends, ms. */
const APPEND_EVERY_MS = 25
/** Interval between two reads of the checkpoints, ms. */
const READ_EVERY_MS = 5

/** Appends messages at an even pace. The first quarter is warm-up. */
export const lagAt = async (
  environment: ReadModelEnvironment,
  plan: { readonly perSecond: number; readonly durationMs: number },
): Promise<Lag> => {
  const projector = await environment.start('projector')
  const costs = () => ({ projector: cpuWithChildrenMs(projector.pid), postgres: environment.postgresCpu() })
  const waiting = new Set<{ readonly written: number; readonly ends: ReadonlyMap<string, number> }>()
  const lags: Array<number> = []
  const warmAt = performance.now() + plan.durationMs * WARM_UP_PART
  let over = false
  // The first failure of what runs beside the loop below ends the loop.
  const failed = Promise.withResolvers<never>()
  failed.promise.catch(() => {})
  const beside = (work: Promise<unknown>): Promise<unknown> => {
    work.catch(failed.reject)
    return work
  }
  const watch = async () => {
    while (!over || waiting.size > 0) {
      const now = await environment.checkpoints()
      const at = performance.now()
      for (const one of waiting) {
        if (![...one.ends].every(([key, end]) => (now.get(key) ?? 0) >= end)) {
          if (at - one.written > WITHIN_MS) throw new Error('The projector lags more than two minutes.')
          continue
        }
        waiting.delete(one)
        if (one.written >= warmAt) lags.push(at - one.written)
      }
      await delay(READ_EVERY_MS)
    }
  }
  const watching = beside(watch())
  const started = performance.now()
  const cpu = costs()
  const appends: Array<Promise<unknown>> = []
  for (let step = 0; step * APPEND_EVERY_MS < plan.durationMs; step++) {
    const wait = started + step * APPEND_EVERY_MS - performance.now()
    await Promise.race([failed.promise, wait > 0 ? delay(wait) : null])
    const count = Math.round((plan.perSecond * APPEND_EVERY_MS) / 1000)
    const records = Array.from({ length: count }, environment.delivered).flatMap((one) => one.records)
    const written = performance.now()
    appends.push(
      beside(
        environment
          .append(records)
          .then((positions) => waiting.add({ written, ends: endsOf(environment.prefix, positions) })),
      ),
    )
  }
  await Promise.all(appends)
  const [seconds, after] = [(performance.now() - started) / 1000, costs()]
  over = true
  await watching
  await projector.kill('SIGTERM')
  return {
    ...latenciesOf(lags),
    projectorCpu: (after.projector - cpu.projector) / 1000 / seconds,
    postgresCpu: (after.postgres - cpu.postgres) / 1000 / seconds,
  }
}
