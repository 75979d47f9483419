/**
 * What the overview of hub staff costs, with the messages of a busy hour: the processor time of
 * operations-api and of its PostgreSQL connections, without viewers and with some. Runs alone, on servers
 * of its own.
 *
 *   node scripts/run.mjs benchmarks/overview.ts [messages per second] [seconds]
 */
import './end-on-signal.ts'
import { setTimeout as delay } from 'node:timers/promises'
import { openDatabase } from '@hub/testkit'
import type postgres from 'postgres'
import { cpuMs } from '../test/support/cpu-time.ts'
import { startHub } from '../test/support/hub.ts'

const PER_SECOND = Number(process.argv[2] ?? 200)
const SECONDS = Number(process.argv[3] ?? 120)
/** Not measured: the first reads of the whole hour. */
const WARM_UP_SECONDS = 30
const MANY_VIEWERS = 20

const MESSAGES = PER_SECOND * 3600

/** The messages of the last hour: each was submitted 50 ms after its acceptance. */
const fill = async (sql: postgres.Sql): Promise<void> => {
  await sql.unsafe(
    `INSERT INTO read.messages (id, account, mode, class, recipient, template, sender, parts, price, currency, variables,
                                created_at, updated_at, status, rank, final, handed_over)
     SELECT uuidv7(make_interval(secs => -3600 * (1 - n::float8 / $1))), a.id, 'live',
            CASE WHEN n % 3 = 0 THEN 'otp' ELSE 'service' END::command.class, sha256(int8send(n)), 'order', 'HUB', 1, 1, 'RUB',
            '{}', now() - make_interval(secs => 3600 * (1 - n::float8 / $1)), now(),
            CASE WHEN n % 50 = 0 THEN 'undelivered' ELSE 'delivered' END, 3, true, true
       FROM generate_series(1, $1::bigint) n, (SELECT id FROM command.accounts LIMIT 1) a`,
    [MESSAGES],
  )
  await sql`
    INSERT INTO read.message_history (message_id, fact_id, status, at)
    SELECT id, gen_random_uuid(), status, created_at + CASE status WHEN 'sent' THEN 50 ELSE 900 END * interval '1 ms'
      FROM (SELECT id, created_at, unnest(ARRAY['sent', 'delivered']) AS status FROM read.messages) AS m`
  await sql`ANALYZE read.messages`
  await sql`ANALYZE read.message_history`
}

const hub = await startHub({ operations: true, apps: [], report: console.log })
const sql = openDatabase(hub.describe().database_url)
try {
  const { operations_url: url = '' } = hub.describe()
  await fill(sql)
  console.log(`${MESSAGES} messages in the last hour (${PER_SECOND} per second)`)
  const login = await fetch(hub.loginLink('bench', ['viewer']), { redirect: 'manual' })
  const cookie = login.headers.getSetCookie()[0]?.split(';', 1)[0] ?? ''

  /** The processor time of the process, and of its connections to PostgreSQL. */
  const spent = async (): Promise<{ readonly app: number; readonly postgres: number }> => {
    const rows = await sql<{ pid: number }[]>`
      SELECT pid FROM pg_stat_activity WHERE application_name = 'operations-api'`
    return {
      app: cpuMs(hub.operationsApi().pid()),
      postgres: rows.reduce((sum, { pid }) => sum + cpuMs(pid), 0),
    }
  }

  const watch = (signal: AbortSignal): Promise<number> =>
    (async () => {
      let bytes = 0
      try {
        while (!signal.aborted) {
          const response = await fetch(`${url}/v1/overview/stream`, { headers: { cookie }, signal })
          for await (const chunk of response.body!) bytes += chunk.length
        }
      } catch (error) {
        if (!signal.aborted) throw error
      }
      return bytes
    })()

  for (const viewers of [0, 1, MANY_VIEWERS]) {
    const abort = new AbortController()
    const watching = Array.from({ length: viewers }, () => watch(abort.signal))
    await delay(WARM_UP_SECONDS * 1000)
    const before = await spent()
    await delay(SECONDS * 1000)
    const after = await spent()
    abort.abort()
    const bytes = (await Promise.all(watching)).reduce((sum, one) => sum + one, 0)
    const share = (ms: number): string => `${(ms / SECONDS / 10).toFixed(2)} %`
    console.log(
      `${viewers} viewers: operations-api ${share(after.app - before.app)} of a core, PostgreSQL ${share(after.postgres - before.postgres)}; ${(bytes / 1024 / Math.max(1, viewers)).toFixed(0)} KiB per viewer`,
    )
  }
} finally {
  await sql.end()
  await hub.stop()
}
