/**
 * `npm run bench -- growth`: what a message costs when the hub has grown. Measures the CPU time of a
 * message with few and with many stored messages, accounts and subscriptions, and that of an idle hub with
 * few and with many partitions. Writes the rows that it measured into their section of `COST.md`.
 *
 *   npm run bench -- growth                  all parts, with 2,000,000 stored messages
 *   npm run bench -- growth <part> …         some parts: accounts, subscriptions, messages, partitions
 *   npm run bench -- growth … 10000000       with this number of stored messages; the goal names 10,000,000,
 *                                            which take 55 GB on the disk meanwhile
 *
 * Filling the tables takes most of the time, and is not measured.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { client } from '../../test/support/client.ts'
import { makeHubAdmin } from '../../test/support/hub-admin.ts'
import { type HubProcess, startHubProcess } from '../../test/support/hub.ts'
import { conditions } from './conditions.ts'
import { idleUntil, makeMeasurement, REPETITIONS, type Sent, SETTLE_MS, startTime } from './cost-loads.ts'
import { mergedGrowth, wholeCostOf } from '../pages/cost-page.ts'
import { store, stored } from '../pages/report.ts'
import { startCostReceiver } from '../loads/cost-receiver.ts'
import type { GrowthCosts } from '../pages/cost-results.ts'
import { addRows } from '../loads/fill-messages.ts'
import type { Log } from './section.ts'
import { median } from './numbers.ts'

const PARTS = ['accounts', 'subscriptions', 'messages', 'partitions'] as const
type Part = (typeof PARTS)[number]

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

interface Wanted {
  readonly parts: ReadonlySet<Part>
  /** Stored messages, the larger number. */
  readonly storedMessages: number
}

/** Null: a word is neither a part nor a number of messages. */
const wantedOf = (words: ReadonlyArray<string>): Wanted | null => {
  const parts = PARTS.filter((part) => words.includes(part))
  const [count = String(STORED.many), ...others] = words.filter(
    (word) => !PARTS.some((part) => part === word),
  )
  if (others.length > 0 || !Number.isSafeInteger(Number(count)) || Number(count) <= STORED.few) return null
  return { parts: new Set(parts.length === 0 ? PARTS : parts), storedMessages: Number(count) }
}

export const runGrowth = async (log: Log, words: ReadonlyArray<string>): Promise<void> => {
  const wanted = wantedOf(words)
  if (wanted === null) {
    console.error(
      `Usage: npm run bench -- growth [part …] [stored messages, more than ${STORED.few}]. The parts are: ${PARTS.join(', ')}.`,
    )
    process.exitCode = 2
    return
  }
  const { parts, storedMessages } = wanted
  const before = conditions()
  const started = performance.now()
  const rows: Array<GrowthCosts> = []
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
  const record = (row: GrowthCosts): void => {
    rows.push(row)
    const [few, many] = [median(row.costs.few), median(row.costs.many)]
    log(
      `${row.what}, ${row.few} and ${row.many}: ${few.toFixed(1)} and ${many.toFixed(1)} (${(many / few).toFixed(2)} ×)`,
    )
  }

  const measureMessages = async (hub: HubProcess): Promise<void> => {
    const { base_url, database_url, keys, other_keys } = hub.describe()
    const measurement = makeMeasurement(hub, log)
    const { singles } = measurement.senders
    const admin = makeHubAdmin(hub)
    const paced = (key: string) => (startAt: number) =>
      singles({ loop: 'open', pace: PACE, seconds: SECONDS, key, startAt })
    const liveKeys: Array<string> = []
    const createAccounts = async (count: number): Promise<void> => {
      await forEach(count - liveKeys.length, async () => {
        liveKeys.push((await admin.createAccount()).keys.live)
      })
      log(`${count} accounts created`)
    }

    /** The same sends, by ten accounts or each by another one of ten thousand. */
    const accounts = async (): Promise<void> => {
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
      const few = await measure(measurement, spread)
      await createAccounts(ACCOUNTS.many)
      record({ what: 'accounts', ...ACCOUNTS, costs: { few, many: await measure(measurement, spread) } })
    }

    /** One gets an event of each message, the others belong to other accounts. */
    const subscriptions = async (): Promise<void> => {
      const subscribe = async (key: string, url: string): Promise<void> => {
        const body = { url, event_types: ['message.accepted'] }
        const { status } = await client(base_url, key).post('/v1/webhook_endpoints', body)
        if (status !== 201) throw new Error(`POST /v1/webhook_endpoints returned status ${status}.`)
      }
      const owners = SUBSCRIPTIONS.many / PER_ACCOUNT
      if (liveKeys.length < owners) await createAccounts(owners)
      await subscribe(other_keys.live, receiver.url)
      const subscribeOthers = async (from: number, to: number): Promise<void> =>
        forEach(to - from, (i) =>
          subscribe(liveKeys[Math.floor((from + i) / PER_ACCOUNT)]!, `${receiver.url}?${from + i}`),
        )
      await subscribeOthers(1, SUBSCRIPTIONS.few)
      await measurement.journal((await paced(other_keys.live)(startTime())).accepted)
      const few = await measure(measurement, paced(other_keys.live))
      await subscribeOthers(SUBSCRIPTIONS.few, SUBSCRIPTIONS.many)
      log(`${SUBSCRIPTIONS.many} subscriptions created`)
      record({
        what: 'subscriptions',
        ...SUBSCRIPTIONS,
        costs: { few, many: await measure(measurement, paced(other_keys.live)) },
      })
    }

    /** Those of an account that sends nothing now. */
    const messages = async (): Promise<void> => {
      const fill = async (count: number, name: string): Promise<void> => {
        const account = randomUUID()
        await admin.sql`INSERT INTO command.accounts (id, name) VALUES (${account}, ${name})`
        await addRows(database_url, account, count, log)
      }
      await fill(STORED.few, 'Filled account')
      const few = await measure(measurement, paced(keys.live))
      await fill(storedMessages - STORED.few, 'Larger filled account')
      log(`${storedMessages} messages stored`)
      record({
        what: 'stored messages',
        few: STORED.few,
        many: storedMessages,
        costs: { few, many: await measure(measurement, paced(keys.live)) },
      })
    }

    try {
      await measurement.warmUp(keys.live)
      if (parts.has('accounts')) await accounts()
      if (parts.has('subscriptions')) await subscriptions()
      if (parts.has('messages')) await messages()
    } finally {
      await admin.close()
      await measurement.sql.end()
    }
  }

  const measureIdle = async (hub: HubProcess): Promise<ReadonlyArray<number>> => {
    const measurement = makeMeasurement(hub, log)
    try {
      return await measure(measurement, idleUntil)
    } finally {
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
    const idleMany = parts.has('partitions') ? await withHub(PARTITIONS.many, measureIdle) : []
    await withHub(PARTITIONS.few, async (hub) => {
      if (parts.has('partitions')) {
        const few = await measureIdle(hub)
        record({ what: 'partitions, idle', ...PARTITIONS, costs: { few, many: idleMany } })
      }
      if (PARTS.some((part) => part !== 'partitions' && parts.has(part))) await measureMessages(hub)
    })
  } finally {
    receiver.close()
  }
  const seconds = (performance.now() - started) / 1000
  // Rows that this run did not measure remain.
  const measured = rows.map((row) => ({ ...before, seconds, ...row }))
  store('growth', { rows: mergedGrowth(stored('growth').rows, measured) })
  log('wrote benchmarks/COST.md and its results')
}
