/**
 * The sections about knowing, on a stack of their own (alone: `node benchmarks/knowing.ts`): what the projector carries against a bare COPY, how
 * far it is behind at a steady rate, what command-api carries of reads against the bare SQL, and both again behind fifty times as many rows.
 */
import { startStack } from '../test/support/hub.ts'
import postgres from 'postgres'
import type { Servers } from './dispatch-world.ts'
import { makeKnowingWorld } from './knowing-world.ts'
import type { Page } from './numbers.ts'
import { copyBare, type Copied, lagAt, projectBacklog, type Projected } from './projecting.ts'
import { fillTables } from './read-tables.ts'
import { makeReading, type Read } from './reading.ts'

/** The growth that the issue names. Filling takes half of the section's time. */
const FEW = 100_000
const MANY = 5_000_000
/** Messages of a backlog; four records each. A part of them is copied: more would only take longer. */
const BACKLOG = 12_000
const COPIED = 6000
const LAG = { perSecond: 2000, durationMs: 6000 }
const READ_MS = 4000
const BARE_READ_MS = 3000
/**
 * A process compiles what it does often; one that has served for hours has done so. A message is mostly code: in seconds 2 to 8 it takes 185 µs of
 * CPU, in 10 to 14 some 165, and 157 from then on. Among many rows it has served already, and so has what reads pages.
 */
const WARM_UP = { messages: 15_000, others: 2500 }

export type Section = Pick<Page, 'rows' | 'bars'>

export interface KnowingServers extends Servers {
  readonly redisUrl: string
}

const projectedText = (one: Projected): string =>
  `${one.perSecond.toFixed(0)} records/s; CPU of a record: projector ${one.projectorCpu.toFixed(0)} µs, PostgreSQL ${one.postgresCpu.toFixed(0)} µs`
const copiedText = (one: Copied): string =>
  `${one.perSecond.toFixed(0)} records/s; CPU of a record: PostgreSQL ${one.postgresCpu.toFixed(0)} µs`
const readText = (one: Read, server: string): string =>
  `${one.perSecond.toFixed(0)}/s, p50 ${one.p50.toFixed(1)} ms, p99 ${one.p99.toFixed(1)} ms; CPU of one: ${server} ${one.serverCpu.toFixed(0)} µs, PostgreSQL ${one.postgresCpu.toFixed(0)} µs`

export const measureKnowing = async (
  servers: KnowingServers,
  say: (line: string) => void,
): Promise<Section> => {
  const world = await makeKnowingWorld(servers)
  try {
    const reading = await makeReading(world, servers.redisUrl)
    const few = await fillTables(world, reading.account, FEW)
    say(`${FEW} rows are there`)
    // Reads first, of tables that nobody writes to or tidies up.
    await reading.messages(few, WARM_UP.messages)
    // Each right behind what it is held against: machines have moods.
    const messages = await reading.messages(few, READ_MS)
    const bareMessages = await reading.bareMessages(few, BARE_READ_MS)
    say(`messages by id: ${readText(messages, 'command-api')}; bare ${readText(bareMessages, 'reader')}`)
    await reading.pages(few, WARM_UP.others)
    const pages = await reading.pages(few, READ_MS)
    const barePages = await reading.barePages(few, BARE_READ_MS)
    say(`pages of 1,000 events: ${readText(pages, 'command-api')}; bare ${readText(barePages, 'reader')}`)

    const projected = await projectBacklog(world, BACKLOG)
    say(`projecting: ${projectedText(projected)}`)
    const copied = await copyBare(world, projected.messageIds.slice(-COPIED))
    say(`bare COPY of the same rows: ${copiedText(copied)}`)
    const lag = await lagAt(world, LAG)
    say(`lag at ${LAG.perSecond} messages/s: p50 ${lag.p50.toFixed(0)} ms, p99 ${lag.p99.toFixed(0)} ms`)

    const many = await fillTables(world, reading.account, MANY)
    say(`${MANY} rows are there`)
    await reading.messages(many, WARM_UP.others)
    const manyMessages = await reading.messages(many, READ_MS)
    const manyPages = await reading.pages(many, READ_MS)
    await reading.end()
    const manyProjected = await projectBacklog(world, BACKLOG)
    say(
      `behind them: ${projectedText(manyProjected)}; messages by id ${manyMessages.perSecond.toFixed(0)}/s, pages ${manyPages.perSecond.toFixed(0)}/s`,
    )

    const grown = (at: number, before: number): string =>
      `${(before / at).toFixed(2)} × the cost of one among ${FEW}`
    return {
      rows: [
        [
          'bare: COPY of the rows of projected records, a transaction for 2,000 of them, two at a time',
          copiedText(copied),
          'the limit',
        ],
        [
          `projecting a backlog of ${BACKLOG} delivered messages`,
          projectedText(projected),
          `${(projected.perSecond / copied.perSecond).toFixed(2)} of the bare COPY`,
        ],
        [
          `the same behind ${MANY} messages and events`,
          projectedText(manyProjected),
          grown(manyProjected.perSecond, projected.perSecond),
        ],
        [
          `lag of the projector at ${LAG.perSecond} messages/s, from the append of records until they can be read`,
          `p50 ${lag.p50.toFixed(0)} ms, p99 ${lag.p99.toFixed(0)} ms`,
          `projector ${lag.projectorCpu.toFixed(2)} of a core, PostgreSQL ${lag.postgresCpu.toFixed(2)}`,
        ],
        [
          'bare: the same SELECT of a message with its history, 64 at a time over as many connections',
          readText(bareMessages, 'reader'),
          'the limit',
        ],
        [
          'GET /v1/messages/{id}, 64 connections',
          readText(messages, 'command-api'),
          `${(messages.perSecond / bareMessages.perSecond).toFixed(2)} of the bare SELECT`,
        ],
        [
          `the same among ${MANY} messages`,
          readText(manyMessages, 'command-api'),
          grown(manyMessages.perSecond, messages.perSecond),
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
          `the same in a journal of ${MANY} events`,
          readText(manyPages, 'command-api'),
          grown(manyPages.perSecond, pages.perSecond),
        ],
      ],
      bars: [
        {
          what: 'bare COPY records/s ÷ projected records/s',
          value: copied.perSecond / projected.perSecond,
          bar: 1 / 0.2,
        },
        {
          what: 'bare SELECTs/s ÷ GET /v1/messages/{id}/s',
          value: bareMessages.perSecond / messages.perSecond,
          bar: 1 / 0.4,
        },
        {
          what: 'bare pages/s ÷ GET /v1/events/s, pages of 1,000',
          value: barePages.perSecond / pages.perSecond,
          bar: 1 / 0.4,
        },
        {
          what: `cost of a projected record, ${MANY} rows ÷ ${FEW}`,
          value: projected.perSecond / manyProjected.perSecond,
          bar: 1.3,
        },
        {
          what: `cost of GET /v1/messages/{id}, ${MANY} rows ÷ ${FEW}`,
          value: messages.perSecond / manyMessages.perSecond,
          bar: 1.3,
        },
        {
          what: `cost of a page of events, ${MANY} rows ÷ ${FEW}`,
          value: pages.perSecond / manyPages.perSecond,
          bar: 1.3,
        },
        { what: `lag of the projector at ${LAG.perSecond} messages/s, p99, ms`, value: lag.p99, bar: 1000 },
      ],
    }
  } finally {
    await world.close()
  }
}

/**
 * What PostgreSQL is given here and has to be started anew for: a cache such as a machine of its own would give it (a quarter of 8 GiB), and no more of a
 * log than recovery needs, which halves the time of filling and changes nothing of what is measured.
 */
const SETTINGS = { shared_buffers: '2GB', wal_level: 'minimal', max_wal_senders: '0' }

/** The same on servers of its own, which nobody else has filled. */
export const measureKnowingAlone = async (say: (line: string) => void): Promise<Section> => {
  const stack = await startStack()
  try {
    const sql = postgres(stack.adminDatabaseUrl, { max: 1, onnotice: () => {} })
    for (const [name, value] of Object.entries(SETTINGS)) {
      await sql.unsafe(`ALTER SYSTEM SET ${name} = '${value}'`)
    }
    await sql.end()
    await stack.server('postgres').restart()
    return await measureKnowing(
      { brokers: stack.brokers, databaseUrl: stack.adminDatabaseUrl, redisUrl: stack.redisUrl },
      say,
    )
  } finally {
    await stack.stop()
  }
}

if (import.meta.main) {
  const begun = performance.now()
  const section = await measureKnowingAlone((line) =>
    console.log(`${((performance.now() - begun) / 1000).toFixed(0).padStart(4)} s  ${line}`),
  )
  console.table(section.rows)
  console.table(section.bars)
  console.log(`${((performance.now() - begun) / 1000).toFixed(0)} s`)
}
