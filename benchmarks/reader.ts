/**
 * Readers: a process of their own, so that their event loop is not the one that is measured. They ask the API over HTTP, or PostgreSQL for
 * the same rows by one bare statement. Started with a plan over IPC; answers with what it saw.
 */
import { randomInt } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import postgres from 'postgres'
import { cpuMs } from './cpu.ts'
import { percentile } from './numbers.ts'

export interface ReaderPlan {
  /** What is asked for, in a new order each time: a path, or the parameters of the statement. */
  readonly wanted: ReadonlyArray<ReadonlyArray<string>>
  /** Readers at a time, each of which asks again when it is answered. */
  readonly readers: number
  readonly durationMs: number
  readonly from:
    | { readonly kind: 'http'; readonly baseUrl: string; readonly key: string }
    | {
        readonly kind: 'sql'
        readonly databaseUrl: string
        readonly statement: string
        readonly connections: number
      }
}

export interface ReaderResult {
  readonly perSecond: number
  /** ms. */
  readonly p50: number
  readonly p99: number
  /** CPU time of this process for an answer, µs. */
  readonly cpu: number
  /** Answers that were not what was asked for. */
  readonly failed: number
}

/** The first part is for connections, plans and compiled code. */
const WARM_UP_PART = 1 / 4

/** Asks for something; false where the answer is not what was asked for. */
type Ask = (wanted: ReadonlyArray<string>) => Promise<boolean>

const HEAD_ENDS = Buffer.from('\r\n\r\n')

/**
 * GET over a connection that stays open. By hand: readers share the machine with what they ask, clients do not, and a whole HTTP client took as much of it
 * as half of command-api.
 */
const httpAsker = async ({ baseUrl, key }: Extract<ReaderPlan['from'], { kind: 'http' }>) => {
  const { host, hostname, port } = new URL(baseUrl)
  const socket = await new Promise<Socket>((resolve, reject) => {
    const opened = connect({ host: hostname, port: Number(port), noDelay: true }, () => resolve(opened))
    opened.once('error', reject)
  })
  /** Of the answer that is being read: its beginning until its head is whole, then how many bytes are to come. */
  let begun: Buffer = Buffer.alloc(0)
  let isOk = false
  let left = -1
  let settle: ((right: boolean) => void) | null = null
  const end = (right: boolean): void => {
    const answered = settle
    begun = Buffer.alloc(0)
    left = -1
    settle = null
    answered?.(right)
  }
  socket.on('data', (chunk: Buffer) => {
    if (left >= 0) left -= chunk.length
    else {
      begun = begun.length === 0 ? chunk : Buffer.concat([begun, chunk])
      const ends = begun.indexOf(HEAD_ENDS)
      if (ends < 0) return
      const head = begun.toString('latin1', 0, ends)
      isOk = head.startsWith('HTTP/1.1 200 ')
      const length = Number(/\r\ncontent-length: (\d+)/iu.exec(head)?.[1] ?? Number.NaN)
      left = length - (begun.length - ends - HEAD_ENDS.length)
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

const sqlAsker = ({ connections, databaseUrl, statement }: Extract<ReaderPlan['from'], { kind: 'sql' }>) => {
  const sql = postgres(databaseUrl, {
    max: connections,
    onnotice: () => {},
    // As the hub's own connections are (docs/decisions/0009).
    connection: { plan_cache_mode: 'force_generic_plan', enable_seqscan: false },
  })
  const ask: Ask = async (parameters) =>
    (await sql.unsafe(statement, [...parameters], { prepare: true })).length > 0
  return { ask, end: () => sql.end() }
}

/** One for each reader: a connection each over HTTP, and a pool for all of them to PostgreSQL. */
const askersOf = async ({ from, readers }: ReaderPlan) => {
  if (from.kind === 'http') return Promise.all(Array.from({ length: readers }, () => httpAsker(from)))
  const shared = sqlAsker(from)
  return Array.from({ length: readers }, () => shared)
}

const read = async (plan: ReaderPlan): Promise<ReaderResult> => {
  const askers = await askersOf(plan)
  const times: Array<number> = []
  let failed = 0
  const readFor = async (ms: number, note: (time: number) => void): Promise<void> => {
    const until = performance.now() + ms
    await Promise.all(
      askers.map(async ({ ask }) => {
        for (let at = performance.now(); at < until;) {
          const right = await ask(plan.wanted[randomInt(plan.wanted.length)]!).catch(() => false)
          const now = performance.now()
          if (right) note(now - at)
          else failed += 1
          at = now
        }
      }),
    )
  }
  await readFor(plan.durationMs * WARM_UP_PART, () => {})
  const [begun, cpu] = [performance.now(), cpuMs(process.pid)]
  await readFor(plan.durationMs * (1 - WARM_UP_PART), (time) => times.push(time))
  const seconds = (performance.now() - begun) / 1000
  const spent = cpuMs(process.pid) - cpu
  await Promise.all([...new Set(askers)].map(({ end }) => end()))
  times.sort((a, b) => a - b)
  return {
    perSecond: times.length / seconds,
    p50: percentile(times, 0.5),
    p99: percentile(times, 0.99),
    cpu: (spent * 1000) / times.length,
    failed,
  }
}

process.once('message', (plan: ReaderPlan) => {
  void read(plan).then((result) => {
    process.send?.(result)
    process.disconnect()
  })
})
