/**
 * Section `read-models`: the projector against a bare COPY of the same rows, its lag at a steady
 * rate, queries through command-api against the bare SQL, and all of it again with fifty times as
 * many rows. Runs on servers of its own.
 */
import { openDatabase } from '@hub/testkit'
import type { TestStack } from '../test/support/hub.ts'
import { latencyText } from './numbers.ts'
import { makeReadModelEnvironment } from './read-model-environment.ts'
import { copyBare, type Copied, lagAt, projectBacklog, type Projected } from './projection.ts'
import { fillTables } from './fill-read-models.ts'
import { makeQueries, type QueryFigures } from './queries.ts'
import { type Section, target } from './results.ts'

/** The growth that the targets name. Filling the tables takes half of the time of this section. */
const FEW = 100_000
const MANY = 5_000_000
/** Messages of a backlog, with four records each. COPY uses a part of them. */
const BACKLOG = 12_000
const COPIED = 6000
const LAG = { perSecond: 2000, durationMs: 6000 }
const READ_MS = 4000
const BARE_READ_MS = 3000
/**
 * Reads before the measurement: V8 compiles until a read takes 157 instead of 185 µs of CPU. Later
 * measurements use the same process and need less.
 */
const WARM_UP = { messages: 15_000, others: 2500 }

const projectedText = (one: Projected): string =>
  `${one.perSecond.toFixed(0)} records/s; CPU of a record: projector ${one.projectorCpu.toFixed(0)} µs, PostgreSQL ${one.postgresCpu.toFixed(0)} µs`
const copiedText = (one: Copied): string =>
  `${one.perSecond.toFixed(0)} records/s; CPU of a record: PostgreSQL ${one.postgresCpu.toFixed(0)} µs`
const readText = (one: QueryFigures, server: string): string =>
  `${one.perSecond.toFixed(0)}/s, ${latencyText(one, 1)}; CPU of one: ${server} ${one.serverCpu.toFixed(0)} µs, PostgreSQL ${one.postgresCpu.toFixed(0)} µs`

/**
 * Settings of PostgreSQL that need a restart: the cache of a machine of its own (a quarter of 8
 * GiB), and a `wal_level` that halves the time to fill the tables.
 */
const SETTINGS = { shared_buffers: '2GB', wal_level: 'minimal', max_wal_senders: '0' }

const applySettings = async (stack: TestStack): Promise<void> => {
  const sql = openDatabase(stack.adminDatabaseUrl)
  for (const [name, value] of Object.entries(SETTINGS)) {
    await sql.unsafe(`ALTER SYSTEM SET ${name} = '${value}'`)
  }
  await sql.end()
  await stack.server('postgres').restart()
}

export const measureReadModels = async (stack: TestStack, log: (line: string) => void): Promise<Section> => {
  await applySettings(stack)
  const environment = await makeReadModelEnvironment({
    brokers: stack.brokers,
    databaseUrl: stack.adminDatabaseUrl,
    redisUrl: stack.redisUrl,
  })
  try {
    const queries = await makeQueries(environment, stack.redisUrl)
    const few = await fillTables(environment, queries.account, FEW)
    log(`${FEW} rows inserted`)
    // Reads come first, while nothing writes to the tables and no vacuum runs.
    await queries.messages(few, WARM_UP.messages)
    // Each measurement directly precedes its limit: the machine changes its speed within minutes.
    const messages = await queries.messages(few, READ_MS)
    const bareMessages = await queries.bareMessages(few, BARE_READ_MS)
    log(`messages by id: ${readText(messages, 'command-api')}; bare ${readText(bareMessages, 'reader')}`)
    await queries.pages(few, WARM_UP.others)
    const pages = await queries.pages(few, READ_MS)
    const barePages = await queries.barePages(few, BARE_READ_MS)
    log(`pages of 1,000 events: ${readText(pages, 'command-api')}; bare ${readText(barePages, 'reader')}`)

    const projected = await projectBacklog(environment, BACKLOG)
    log(`projecting: ${projectedText(projected)}`)
    const copied = await copyBare(environment, projected.messageIds.slice(-COPIED))
    log(`bare COPY of the same rows: ${copiedText(copied)}`)
    const lag = await lagAt(environment, LAG)
    log(`lag at ${LAG.perSecond} messages/s: ${latencyText(lag)}`)

    const many = await fillTables(environment, queries.account, MANY)
    log(`${MANY} rows inserted`)
    await queries.messages(many, WARM_UP.others)
    const manyMessages = await queries.messages(many, READ_MS)
    const manyPages = await queries.pages(many, READ_MS)
    await queries.end()
    const manyProjected = await projectBacklog(environment, BACKLOG)
    log(
      `with these rows: ${projectedText(manyProjected)}; messages by id ${manyMessages.perSecond.toFixed(0)}/s, pages ${manyPages.perSecond.toFixed(0)}/s`,
    )

    const growth = (before: number, after: number): string =>
      `${(before / after).toFixed(2)} × the cost with ${FEW} rows`
    return {
      figures: {
        copiedPerSecond: copied.perSecond,
        projectedPerSecond: projected.perSecond,
        projectedManyPerSecond: manyProjected.perSecond,
        lagP50Ms: lag.p50,
        lagP99Ms: lag.p99,
        messagesPerSecond: messages.perSecond,
        pagesPerSecond: pages.perSecond,
      },
      rows: [
        [
          'bare: COPY of the rows of projected records, 2,000 records per transaction, two transactions at a time',
          copiedText(copied),
          'the limit',
        ],
        [
          `projecting a backlog of ${BACKLOG} delivered messages`,
          projectedText(projected),
          `${(projected.perSecond / copied.perSecond).toFixed(2)} of the bare COPY`,
        ],
        [
          `the same with ${MANY} messages and events in the tables`,
          projectedText(manyProjected),
          growth(projected.perSecond, manyProjected.perSecond),
        ],
        [
          `lag of the projector at ${LAG.perSecond} messages/s, from the append until a query can read it`,
          latencyText(lag),
          `projector ${lag.projectorCpu.toFixed(2)} of a core, PostgreSQL ${lag.postgresCpu.toFixed(2)}`,
        ],
        [
          'bare: the same SELECT of messages with their history, 64 readers, up to 100 messages in a statement, three statements at a time',
          readText(bareMessages, 'reader'),
          'the limit',
        ],
        [
          'GET /v1/messages/{id}, 64 connections',
          readText(messages, 'command-api'),
          `${(messages.perSecond / bareMessages.perSecond).toFixed(2)} of the bare SELECT`,
        ],
        [
          `the same with ${MANY} messages`,
          readText(manyMessages, 'command-api'),
          growth(messages.perSecond, manyMessages.perSecond),
        ],
        [
          'bare: the same SELECT of a page of 1,000 events, 8 at a time',
          readText(barePages, 'reader'),
          'the limit',
        ],
        [
          'GET /v1/events?limit=1000, 8 connections',
          readText(pages, 'command-api'),
          `${(pages.perSecond / barePages.perSecond).toFixed(2)} of the bare SELECT`,
        ],
        [
          `the same with ${MANY} events`,
          readText(manyPages, 'command-api'),
          growth(pages.perSecond, manyPages.perSecond),
        ],
      ],
      targets: [
        target('bare COPY records/s ÷ projected records/s', copied.perSecond / projected.perSecond, 1 / 0.2),
        target(
          'bare SELECTs/s ÷ GET /v1/messages/{id}/s',
          bareMessages.perSecond / messages.perSecond,
          1 / 0.4,
        ),
        target(
          'bare pages/s ÷ GET /v1/events/s, pages of 1,000',
          barePages.perSecond / pages.perSecond,
          1 / 0.4,
        ),
        target(
          `cost of a projected record, ${MANY} rows ÷ ${FEW}`,
          projected.perSecond / manyProjected.perSecond,
          1.3,
        ),
        target(
          `cost of GET /v1/messages/{id}, ${MANY} rows ÷ ${FEW}`,
          messages.perSecond / manyMessages.perSecond,
          1.3,
        ),
        target(`cost of a page of events, ${MANY} rows ÷ ${FEW}`, pages.perSecond / manyPages.perSecond, 1.3),
        target(`lag of the projector at ${LAG.perSecond} messages/s, p99, ms`, lag.p99, 1000),
      ],
    }
  } finally {
    await environment.close()
  }
}
