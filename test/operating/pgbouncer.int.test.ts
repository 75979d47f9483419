/** PgBouncer between the hub and PostgreSQL: a process does not start with it, and says why. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connectionFault } from '@hub/config'
import { freePortBase } from '@hub/local-stack'
import { makeSql, type SqlShape } from '@hub/store'
import { accepts, eventually, freshDatabase } from '@hub/testkit'
import { Duration, Effect, Redacted } from 'effect'
import { afterAll, beforeAll, describe, expect, it, type TestContext } from 'vitest'
import { debianTool, type Found, orSkip, runTool } from '../support/external-tools.ts'
import { type Program, startProgram } from '../support/program.ts'

/** The parameters with which the hub begins a session, as far as PgBouncer 1.18 does not know them. */
const PARAMETERS = [
  'statement_timeout',
  'idle_in_transaction_session_timeout',
  'tcp_user_timeout',
  'tcp_keepalives_idle',
  'tcp_keepalives_interval',
  'tcp_keepalives_count',
  'plan_cache_mode',
  'enable_seqscan',
]
const WITHIN_MS = 30_000

interface Pooler {
  readonly program: string
  readonly libraries: string
}

const findPooler = async (): Promise<Found<Pooler>> => {
  const found = await debianTool('pgbouncer', ['pgbouncer', 'libevent-2.1-7', 'libc-ares2'])
  if ('missing' in found) return found
  const machine = (await runTool('uname', ['-m'], { withinMs: WITHIN_MS })).text.trim()
  return {
    program: join(found.folder, 'usr/sbin/pgbouncer'),
    libraries: join(found.folder, `usr/lib/${machine}-linux-gnu`),
  }
}

let database: Awaited<ReturnType<typeof freshDatabase>>
let pooler: Found<Pooler>
let folder: string
const running: Array<Program> = []
beforeAll(async () => {
  ;[database, pooler] = await Promise.all([freshDatabase(), findPooler()])
  folder = mkdtempSync(join(tmpdir(), 'hub-pgbouncer-'))
  chmodSync(folder, 0o755)
})
afterAll(async () => {
  await Promise.all(running.map(({ stop }) => stop()))
  await database?.drop()
  rmSync(folder, { recursive: true, force: true })
})

/** Starts PgBouncer in transaction mode, and returns the address of the database behind it. */
const startPooler = async (
  { libraries, program }: Pooler,
  ignored: ReadonlyArray<string>,
): Promise<string> => {
  const port = await freePortBase()
  const url = new URL(database.url)
  const users = join(folder, 'users.txt')
  const settings = join(folder, `${port}.ini`)
  writeFileSync(users, `"${url.username}" "${url.password}"\n`)
  writeFileSync(
    settings,
    `[databases]
* = host=${url.hostname} port=${url.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${users}
pool_mode = transaction
${ignored.length === 0 ? '' : `ignore_startup_parameters = ${ignored.join(', ')}`}
`,
  )
  // PgBouncer refuses to run as root.
  const user = process.getuid?.() === 0 ? ['-u', 'nobody'] : []
  const started = startProgram(program, [...user, settings], {
    env: { ...process.env, LD_LIBRARY_PATH: libraries },
  })
  running.push(started)
  await eventually(async () => {
    if (!started.isRunning()) throw new Error(started.lines.join('\n'))
    return accepts(port)
  })
  url.hostname = '127.0.0.1'
  url.port = String(port)
  return url.href
}

/** Runs statements through PgBouncer, or skips the test. */
const through = async <A, E>(
  context: TestContext,
  ignored: ReadonlyArray<string>,
  use: (sql: SqlShape) => Effect.Effect<A, E>,
): Promise<A> => {
  const url = await startPooler(await orSkip(context, pooler), ignored)
  const sql = makeSql(Redacted.make(url), 4, 'pooler-test', Duration.millis(WITHIN_MS))
  return Effect.runPromise(Effect.scoped(Effect.flatMap(sql, use)))
}

describe('PgBouncer in transaction mode', () => {
  it('refuses the settings of the session, and the sentence says what to correct', async (context) => {
    const error = await through(context, [], (sql) => Effect.flip(sql.run((q) => q`SELECT 1`)))
    const fault = connectionFault(error)
    expect(fault?.sentence).toMatch(/pooler.*HUB_DATABASE_URL.*PostgreSQL itself/u)
    expect(fault?.isRefusal).toBe(true)
  })

  it('drops the settings that it is told to ignore, so that no statement has a time limit', async (context) => {
    const [row] = await through(context, PARAMETERS, (sql) =>
      sql.run(
        (q) =>
          q`SELECT current_setting('statement_timeout') AS timeout, current_setting('plan_cache_mode') AS plans`,
      ),
    )
    expect({ ...row }).toEqual({ timeout: '0', plans: 'auto' })
  })
})
