/**
 * Readers of the API over HTTP, or of PostgreSQL with one bare statement. `queries.ts` runs them in
 * a process of their own.
 */
import { randomInt } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import postgres from 'postgres'
import { answerPlan } from './child-process.ts'
import { type Latencies, latenciesOf } from './numbers.ts'
import { cpuWithChildrenMs } from './process-usage.ts'

export interface ReaderPlan {
  /** The queries, chosen at random: a path, or the parameters of the statement. */
  readonly wanted: ReadonlyArray<ReadonlyArray<string>>
  /** Number of readers. Each sends its next query when the last is answered. */
  readonly readers: number
  readonly durationMs: number
  readonly from:
    | { readonly kind: 'http'; readonly baseUrl: string; readonly key: string }
    | {
        readonly kind: 'sql'
        readonly databaseUrl: string
        readonly statement: string
        readonly connections: number
        /**
         * Queries that wait for a connection share a statement. Its parameters are then the first
         * parameters of these queries as an array, and the smallest and the largest of them.
         */
        readonly isGathered: boolean
      }
}

/** Latencies in ms. */
export interface ReaderResult extends Latencies {
  readonly perSecond: number
  /** CPU time of this process per answer, µs. */
  readonly cpu: number
  /** Answers with an error or without a row. */
  readonly failed: number
}

/** The most queries that share a statement, as in the hub. */
const MAX_GATHERED = 100

/** The first quarter is warm-up: connections, plans and compiled code. */
const WARM_UP_PART = 1 / 4

/** Sends one query; false for an error or an empty answer. */
type Ask = (wanted: ReadonlyArray<string>) => Promise<boolean>

const HEAD_ENDS = Buffer.from('\r\n\r\n')

/**
 * GET over a persistent connection, without an HTTP client. The readers share the machine with the
 * measured app, and a complete HTTP client would take half as much CPU as command-api.
 */
const httpAsker = async ({ baseUrl, key }: Extract<ReaderPlan['from'], { kind: 'http' }>) => {
  const { host, hostname, port } = new URL(baseUrl)
  const socket = await new Promise<Socket>((resolve, reject) => {
    const opened = connect({ host: hostname, port: Number(port), noDelay: true }, () => resolve(opened))
    opened.once('error', reject)
  })
  /** The current answer until its head is complete. Then `left` counts the missing bytes. */
  let head: Buffer = Buffer.alloc(0)
  let isOk = false
  let left = -1
  let settle: ((right: boolean) => void) | null = null
  const end = (right: boolean): void => {
    const answered = settle
    head = Buffer.alloc(0)
    left = -1
    settle = null
    answered?.(right)
  }
  socket.on('data', (chunk: Buffer) => {
    if (left >= 0) left -= chunk.length
    else {
      head = head.length === 0 ? chunk : Buffer.concat([head, chunk])
      const ends = head.indexOf(HEAD_ENDS)
      if (ends < 0) return
      const text = head.toString('latin1', 0, ends)
      isOk = text.startsWith('HTTP/1.1 200 ')
      const length = Number(/\r\ncontent-length: (\d+)/iu.exec(text)?.[1] ?? Number.NaN)
      left = length - (head.length - ends - HEAD_ENDS.length)
    }
    if (left === 0) end(isOk)
    else if (!(left > 0)) socket.destroy()
  })
  socket.on('error', () => socket.destroy())
  socket.on('close', () => end(false))
  const ask: Ask = ([path = '/']) =>
    new Promise((resolve) => {
      if (socket.destroyed) {
        resolve(false)
        return
      }
      settle = resolve
      socket.write(`GET ${path} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${key}\r\n\r\n`)
    })
  return { ask, end: async (): Promise<void> => void socket.destroy() }
}

type SqlSource = Extract<ReaderPlan['from'], { kind: 'sql' }>

const sqlAsker = ({ connections, databaseUrl, isGathered, statement }: SqlSource) => {
  const sql = postgres(databaseUrl, {
    max: connections,
    onnotice: () => {},
    // The settings of the hub's own connections (docs/decisions/0009).
    connection: { plan_cache_mode: 'force_generic_plan', enable_seqscan: false },
  })
  const run = (parameters: ReadonlyArray<string | Array<string>>) =>
    sql.unsafe(statement, [...parameters], { prepare: true })
  const askAlone: Ask = async (parameters) => (await run(parameters)).length > 0

  const waiting: Array<{ readonly wanted: string; readonly settle: (right: boolean) => void }> = []
  let running = 0
  const runGathered = async (): Promise<void> => {
    running++
    while (waiting.length > 0) {
      const together = waiting.splice(0, MAX_GATHERED)
      const sorted = together.map(({ wanted }) => wanted).toSorted()
      const rows = await run([sorted, sorted[0]!, sorted.at(-1)!]).catch(() => [])
      const found = new Set(rows.map((row) => row['id'] as string))
      for (const { settle, wanted } of together) settle(found.has(wanted))
    }
    running--
  }
  const askGathered: Ask = ([wanted = '']) =>
    new Promise((settle) => {
      waiting.push({ wanted, settle })
      if (running < connections) void runGathered()
    })
  return { ask: isGathered ? askGathered : askAlone, end: () => sql.end() }
}

/** One function for each reader: with its own HTTP connection, or a shared pool. */
const askersOf = async ({ from, readers }: ReaderPlan) => {
  if (from.kind === 'http') return Promise.all(Array.from({ length: readers }, () => httpAsker(from)))
  const shared = sqlAsker(from)
  return Array.from({ length: readers }, () => shared)
}

const read = async (plan: ReaderPlan): Promise<ReaderResult> => {
  const askers = await askersOf(plan)
  const times: Array<number> = []
  let failed = 0
  const readFor = async (ms: number, record: (time: number) => void): Promise<void> => {
    const until = performance.now() + ms
    await Promise.all(
      askers.map(async ({ ask }) => {
        for (let at = performance.now(); at < until;) {
          const right = await ask(plan.wanted[randomInt(plan.wanted.length)]!).catch(() => false)
          const now = performance.now()
          if (right) record(now - at)
          else failed += 1
          at = now
        }
      }),
    )
  }
  await readFor(plan.durationMs * WARM_UP_PART, () => {})
  const [started, cpu] = [performance.now(), cpuWithChildrenMs(process.pid)]
  await readFor(plan.durationMs * (1 - WARM_UP_PART), (time) => times.push(time))
  const seconds = (performance.now() - started) / 1000
  const spent = cpuWithChildrenMs(process.pid) - cpu
  await Promise.all([...new Set(askers)].map(({ end }) => end()))
  return {
    ...latenciesOf(times),
    perSecond: times.length / seconds,
    cpu: (spent * 1000) / times.length,
    failed,
  }
}

answerPlan(read)
