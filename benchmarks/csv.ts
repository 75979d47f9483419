/**
 * `hub send --csv` beside batches of the same size from a load generator, in turns on one hub with all of its
 * apps. The rate of the command includes its start and the check of the file. The command also runs with two
 * kills; then its rate includes three starts. Each row must be accepted exactly once.
 *
 *   npm run bench -- csv [rows] [turns]
 *   npm run bench -- csv 1000000 1 killed    # without the run that is not killed: about 20 minutes
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually, openDatabase } from '@hub/testkit'
import { client, subscribeToNothing } from '../test/support/client.ts'
import { startHub, type TestHub } from '../test/support/hub.ts'
import { lastResultRow, startHubCommand } from '../test/support/hub-command.ts'
import { startScript, tied } from './child-process.ts'
import { awaitEvents } from './event-journal.ts'
import type { LoadPlan, LoadResult } from './load-generator.ts'
import { median } from './numbers.ts'

const DEFAULT_ROWS = 100_000
const DEFAULT_TURNS = 3
const KILLS = 2
const NAMES = { whole: 'not interrupted', killed: `killed ${KILLS} times` } as const
/** How often a run that is to be killed is looked at. */
const LOOK_EVERY_MS = 50
/** As in section `accepting`. */
const BATCHES = { connections: 2, batch: 1000 }
const WARM_UP_MESSAGES = 20_000
const SETTLED_WITHIN_MS = 600_000
const SETTLED_EVERY_MS = 200

const SEND = '--template order_ready --map to=phone --map order=order_no --yes --json'.split(' ')

const writeRows = async (file: string, rows: number, first: number): Promise<void> => {
  const handle = await open(file, 'w')
  await handle.write('phone,order_no\n')
  for (let row = first; row < first + rows; row += 1000) {
    const length = Math.min(1000, first + rows - row)
    const lines = Array.from({ length }, (_, index) => `+79${100_000_000 + row + index},A-${row + index}\n`)
    await handle.write(lines.join(''))
  }
  await handle.close()
}

type Log = (line: string) => void

interface CsvPlan {
  readonly rows: number
  readonly turns: number
  /** Without the run that is not killed. */
  readonly killedOnly: boolean
}

const measureCsv = async (hub: TestHub, { killedOnly, rows, turns }: CsvPlan, log: Log): Promise<void> => {
  const folder = mkdtempSync(join(tmpdir(), 'hub-csv-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const { base_url, database_url, keys } = hub.describe()
  await subscribeToNothing(client(base_url, keys.test))
  const sql = openDatabase(database_url)
  let sent = 0
  /** Waits until the hub has finished everything, so that the next measurement has the hub for itself. */
  const settle = (messages: number): Promise<true> => {
    sent += messages
    return awaitEvents(sql, sent, SETTLED_WITHIN_MS, SETTLED_EVERY_MS)
  }
  const countAccepted = async (): Promise<number> => {
    const [row] = await sql`select count(*)::int as messages from command.acceptances`
    return Number(row?.['messages'])
  }
  const batchRate = async (messages: number): Promise<number> => {
    const plan: LoadPlan = {
      ...BATCHES,
      baseUrl: base_url,
      key: keys.test,
      run: randomBytes(3).toString('hex'),
      count: Math.ceil(messages / BATCHES.batch),
    }
    const { first } = await startScript<LoadResult>('load-generator.ts', plan)
    log(`batches: ${JSON.stringify(first.outcomes)}`)
    await settle(first.accepted)
    return first.accepted / first.seconds
  }
  /** `kills`: the command is killed so often, after equal shares of the rows, and starts again. */
  const csvRate = async (first: number, kills: number): Promise<number> => {
    const file = join(folder, `${first}.csv`)
    await writeRows(file, rows, first)
    const before = await countAccepted()
    const startedAt = performance.now()
    for (let start = 1; start <= kills + 1; start++) {
      const running = startHubCommand(hub, folder, ['send', '--csv', file, ...SEND])
      tied(running.child)
      if (start <= kills) {
        const share = (rows * start) / (kills + 1)
        await eventually(async () => (await lastResultRow(`${file.slice(0, -4)}.result.csv`)) >= share, {
          withinMs: SETTLED_WITHIN_MS,
          everyMs: LOOK_EVERY_MS,
        })
        running.child.kill('SIGKILL')
        await running.ended
      } else if ((await running.ended) !== 0) throw new Error(`hub send failed:\n${running.err()}`)
    }
    const seconds = (performance.now() - startedAt) / 1000
    await settle(rows)
    const accepted = (await countAccepted()) - before
    if (accepted !== rows) throw new Error(`The hub accepted ${accepted} messages of ${rows} rows.`)
    return rows / seconds
  }
  await batchRate(WARM_UP_MESSAGES)
  const ratios: Record<'whole' | 'killed', Array<number>> = { whole: [], killed: [] }
  let next = 0
  for (let turn = 0; turn < turns; turn++) {
    const limit = await batchRate(rows)
    log(`batches ${limit.toFixed(0)} messages/s`)
    for (const kind of killedOnly ? (['killed'] as const) : (['whole', 'killed'] as const)) {
      const rate = await csvRate(rows * next++, kind === 'whole' ? 0 : KILLS)
      ratios[kind].push(rate / limit)
      log(`hub send, ${NAMES[kind]}: ${rate.toFixed(0)} rows/s, ${(rate / limit).toFixed(2)} of the batches`)
    }
  }
  for (const kind of ['whole', 'killed'] as const) {
    if (ratios[kind].length > 0) log(`median ${NAMES[kind]}: ${median(ratios[kind]).toFixed(2)}`)
  }
  await sql.end()
}

export const runCsv = async (log: Log, words: ReadonlyArray<string>): Promise<void> => {
  // The accounts get no rate limit: the machine is the limit.
  const hub = await startHub({ report: log, apiRps: 1_000_000 })
  try {
    const [rows = DEFAULT_ROWS, turns = DEFAULT_TURNS, kind] = words
    await measureCsv(hub, { rows: Number(rows), turns: Number(turns), killedOnly: kind === 'killed' }, log)
  } finally {
    await hub.stop()
  }
}
