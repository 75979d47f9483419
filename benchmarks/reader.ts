/**
 * Readers: a process of their own, so that their event loop is not the one that is measured. They ask the API over HTTP, or PostgreSQL for
 * the same rows by one bare statement. Started with a plan over IPC; answers with what it saw.
 */
import { randomInt } from 'node:crypto'
import postgres from 'postgres'
import { Pool } from 'undici'
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

const asker = (
  from: ReaderPlan['from'],
  readers: number,
): {
  readonly ask: (wanted: ReadonlyArray<string>) => Promise<boolean>
  readonly end: () => Promise<void>
} => {
  if (from.kind === 'http') {
    const pool = new Pool(from.baseUrl, { connections: readers, pipelining: 1 })
    const headers = { authorization: `Bearer ${from.key}` }
    return {
      ask: async ([path = '/']) => {
        const { body, statusCode } = await pool.request({ method: 'GET', path, headers })
        return (await body.arrayBuffer()).byteLength > 0 && statusCode === 200
      },
      end: () => pool.close(),
    }
  }
  const sql = postgres(from.databaseUrl, {
    max: from.connections,
    onnotice: () => {},
    // As the hub's own connections are (docs/decisions/0009).
    connection: { plan_cache_mode: 'force_generic_plan', enable_seqscan: false },
  })
  return {
    ask: async (parameters) =>
      (await sql.unsafe(from.statement, [...parameters], { prepare: true })).length > 0,
    end: () => sql.end(),
  }
}

const read = async (plan: ReaderPlan): Promise<ReaderResult> => {
  const { ask, end } = asker(plan.from, plan.readers)
  const times: Array<number> = []
  let failed = 0
  const readFor = async (ms: number, note: (time: number) => void): Promise<void> => {
    const until = performance.now() + ms
    await Promise.all(
      Array.from({ length: plan.readers }, async () => {
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
  await end()
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
