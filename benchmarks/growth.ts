/**
 * `npm run bench -- growth`: what a message costs when the hub has grown. Measures the CPU time of a
 * message with few and with many stored messages, accounts and subscriptions, and that of an idle hub with
 * few and with many partitions. Writes `growth.json` and its section of `COST.md`.
 *
 *   npm run bench -- growth [stored messages]     default: 2,000,000; the goal names 10,000,000
 *
 * Filling the tables takes most of the time, and is not measured.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { client } from '../test/support/client.ts'
import { makeHubAdmin } from '../test/support/hub-admin.ts'
import { type HubProcess, startHubProcess } from '../test/support/hub.ts'
import { conditions } from './conditions.ts'
import { writeGrowth } from './cost.ts'
import { idleUntil, makeMeasurement, REPETITIONS, type Sent, SETTLE_MS, startTime } from './cost-loads.ts'
import { wholeCostOf } from './cost-page.ts'
import { startCostReceiver } from './cost-receiver.ts'
import type { GrowthRow } from './cost-results.ts'
import { addRows } from './fill-read-models.ts'
import { median } from './numbers.ts'

type Log = (line: string) => void

const STORED = { few: 100_000, many: 2_000_000 }
const SUBSCRIPTIONS = { few: 10, many: 10_000 }
const ACCOUNTS = { few: 10, many: 10_000 }
const PARTITIONS = { few: 6, many: 192 }
/** Subscriptions of an account. */
const PER_ACCOUNT = 10
/** Accounts and subscriptions that are created at the same time. */
const AT_ONCE = 16
/** Sends per second, and seconds of a repetition. */
const PACE = 200
const SECONDS = 6
/** After a change of the hub, before the next measurement. */
const SETTLED_MS = 5000

/** Runs `work` for each index, some of them at the same time. */
const forEach = async (count: number, work: (index: number) => Promise<unknown>): Promise<void> => {
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < count) await work(next++)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
}

export const runGrowth = async (log: Log, words: ReadonlyArray<string>): Promise<void> => {
  const stored = words[0] === undefined ? STORED.many : Number(words[0])
  if (words.length > 1 || !Number.isSafeInteger(stored) || stored <= STORED.few) {
    console.error(`Usage: npm run bench -- growth [stored messages, more than ${STORED.few}].`)
    process.exitCode = 2
    return
  }
  const before = conditions()
  const started = performance.now()
  const rows: Array<GrowthRow> = []
  const receiver = await startCostReceiver()

  /** Measures one load three times. Cost in µs per message; of an idle hub in % of a core. */
  const measure = async (
    measurement: ReturnType<typeof makeMeasurement>,
    send: (startAt: number) => Promise<Sent>,
  ): Promise<ReadonlyArray<number>> => {
    await delay(SETTLED_MS)
    const costs: Array<number> = []
    for (let i = 0; i < REPETITIONS; i++) costs.push(wholeCostOf(await measurement.repeat(startTime(), send)))
    return costs
  }
  const record = (row: GrowthRow): void => {
    rows.push(row)
    const [few, many] = [median(row.costs.few), median(row.costs.many)]
    log(
      `${row.what}, ${row.few} and ${row.many}: ${few.toFixed(1)} and ${many.toFixed(1)} (${(many / few).toFixed(2)} ×)`,
    )
  }

  const measureGrowth = async (hub: HubProcess): Promise<ReadonlyArray<number>> => {
    const { base_url, database_url, keys, other_keys } = hub.describe()
    const measurement = makeMeasurement(hub, log)
    const { singles } = measurement.senders
    const admin = makeHubAdmin(hub)
    const paced = (key: string) => (startAt: number) =>
      singles({ loop: 'open', pace: PACE, seconds: SECONDS, key, startAt })
    try {
      const idle = await measure(measurement, idleUntil)
      await measurement.warmUp(keys.live)

      // Accounts: the same sends, by ten accounts or each by another one of ten thousand.
      const liveKeys: Array<string> = []
      const createAccounts = (count: number) =>
        forEach(count - liveKeys.length, async () => {
          liveKeys.push((await admin.createAccount()).keys.live)
        })
      const spread = (startAt: number) => {
        const sends = PACE * SECONDS
        const senders = Math.min(liveKeys.length, sends)
        const step = Math.floor(liveKeys.length / senders)
        const clients = Array.from({ length: senders }, (_, i) => ({
          key: liveKeys[i * step]!,
          pace: PACE / senders,
          firstAfter: (i * 1000) / PACE,
        }))
        return singles({ clients, loop: 'open', pace: 0, key: '', seconds: SECONDS, codesOfTen: 0, startAt })
      }
      await createAccounts(ACCOUNTS.few)
      const fewAccounts = await measure(measurement, spread)
      await createAccounts(ACCOUNTS.many)
      log(`${ACCOUNTS.many} accounts created`)
      record({
        what: 'accounts',
        ...ACCOUNTS,
        costs: { few: fewAccounts, many: await measure(measurement, spread) },
      })

      // Subscriptions: one gets an event of each message, the others belong to other accounts.
      const subscribe = async (key: string, url: string): Promise<void> => {
        const body = { url, event_types: ['message.accepted'] }
        const { status } = await client(base_url, key).post('/v1/webhook_endpoints', body)
        if (status !== 201) throw new Error(`POST /v1/webhook_endpoints returned status ${status}.`)
      }
      await subscribe(other_keys.live, receiver.url)
      const subscribeOthers = async (from: number, to: number): Promise<void> =>
        forEach(to - from, (i) =>
          subscribe(liveKeys[Math.floor((from + i) / PER_ACCOUNT)]!, `${receiver.url}?${from + i}`),
        )
      await subscribeOthers(1, SUBSCRIPTIONS.few)
      await measurement.journal((await paced(other_keys.live)(startTime())).accepted)
      const fewSubscriptions = await measure(measurement, paced(other_keys.live))
      await subscribeOthers(SUBSCRIPTIONS.few, SUBSCRIPTIONS.many)
      log(`${SUBSCRIPTIONS.many} subscriptions created`)
      record({
        what: 'subscriptions',
        ...SUBSCRIPTIONS,
        costs: { few: fewSubscriptions, many: await measure(measurement, paced(other_keys.live)) },
      })

      // Stored messages: those of an account that sends nothing now.
      const owner = randomUUID()
      await admin.sql`INSERT INTO command.accounts (id, name) VALUES (${owner}, 'Filled account')`
      await addRows(database_url, owner, STORED.few)
      const fewMessages = await measure(measurement, paced(keys.live))
      const other = randomUUID()
      await admin.sql`INSERT INTO command.accounts (id, name) VALUES (${other}, 'Larger filled account')`
      await addRows(database_url, other, stored - STORED.few)
      log(`${stored} messages stored`)
      record({
        what: 'stored messages',
        few: STORED.few,
        many: stored,
        costs: { few: fewMessages, many: await measure(measurement, paced(keys.live)) },
      })
      return idle
    } finally {
      await admin.close()
      await measurement.sql.end()
    }
  }

  const withHub = async <A>(partitions: number, use: (hub: HubProcess) => Promise<A>): Promise<A> => {
    const hub = await startHubProcess({
      environment: { ...receiver.environment, HUB_PARTITIONS: String(partitions) },
      apiRps: 1_000_000,
    })
    try {
      await delay(SETTLE_MS)
      return await use(hub)
    } finally {
      await hub.stop()
    }
  }

  try {
    const idleMany = await withHub(PARTITIONS.many, async (hub) => {
      const measurement = makeMeasurement(hub, log)
      try {
        return await measure(measurement, idleUntil)
      } finally {
        await measurement.sql.end()
      }
    })
    const idleFew = await withHub(PARTITIONS.few, measureGrowth)
    record({ what: 'partitions, idle', ...PARTITIONS, costs: { few: idleFew, many: idleMany } })
  } finally {
    receiver.close()
  }
  writeGrowth({ ...before, seconds: (performance.now() - started) / 1000, rows })
  log('wrote benchmarks/growth.json and benchmarks/COST.md')
}
