/**
 * Scaling of each consumer with the number of its processes. Stores the figures in `results.json`.
 *
 * A machine with fewer cores than processes cannot show scaling directly. Therefore each process of
 * the measured consumer may run only for a tenth of the time, in slices, by SIGSTOP and SIGCONT.
 * All other processes run freely. The benchmark sends bursts of messages of many accounts and measures
 * the time until the consumer has processed them, with one process and with three.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { eventually } from '@hub/testkit'
import { type ConsumerApp, type ProcessHandle, startHub } from '../../test/support/hub.ts'
import { client, send } from '../../test/support/client.ts'
import { cpuMs } from '../../test/support/cpu-time.ts'
import { startWebhookReceiver } from '../../test/support/webhook-receiver.ts'
import { type Account, makeHubAdmin } from '../../test/support/hub-admin.ts'
import { median } from './numbers.ts'
import { storeAlone } from '../pages/report.ts'
import type { Log } from './section.ts'

/** A process runs AWAKE_MS of each CYCLE_MS, a pause too short for sessions and deadlines. */
const AWAKE_MS = 10
const CYCLE_MS = 100
const PROCESSES = 3
/** Recipients spread messages over the partitions, and accounts spread their events. */
const ACCOUNTS = 96
const MESSAGES_EACH = 25
/**
 * Endpoints of each account while the fan-out is measured: the maximum. With one endpoint, its
 * window of one second would dominate the time.
 */
const ENDPOINTS = 20
const ROUNDS = 3
const WARM_UPS = 3
const WITHIN = { withinMs: 120_000, everyMs: 50 } as const

const CONSUMERS: ReadonlyArray<ConsumerApp> = ['dispatcher', 'projector', 'webhook-fanout']

/** Lets each process run for a tenth of the time while `use` runs. */
const withTenthOfCore = async <A>(
  processes: ReadonlyArray<ProcessHandle>,
  use: () => Promise<A>,
): Promise<A> => {
  let isOver = false
  const turns = processes.map(async (process, i) => {
    // The slices of the processes do not overlap.
    await delay((CYCLE_MS / processes.length) * i)
    while (!isOver) {
      process.kill('SIGSTOP')
      await delay(CYCLE_MS - AWAKE_MS)
      process.kill('SIGCONT')
      await delay(AWAKE_MS)
    }
  })
  try {
    return await use()
  } finally {
    isOver = true
    await Promise.all(turns)
  }
}

export const runScaling = async (log: Log): Promise<void> => {
  const receiver = await startWebhookReceiver()
  const hub = await startHub({ apiRps: 1_000_000, environment: receiver.environment })
  const admin = makeHubAdmin(hub)
  try {
    const { base_url } = hub.describe()
    const accounts: Array<Account> = []
    for (let i = 0; i < ACCOUNTS; i++) accounts.push(await admin.createAccount())
    const instances = new Map<ConsumerApp, ReadonlyArray<ProcessHandle>>()
    for (const consumer of CONSUMERS) {
      const more = await Promise.all(
        Array.from({ length: PROCESSES - 1 }, (_, i) => hub.addProcess(consumer, `${consumer}-${i + 2}`)),
      )
      instances.set(consumer, [hub.app(consumer), ...more])
    }

    let endpoints = 0
    const addEndpoint = async (): Promise<void> => {
      endpoints += 1
      await Promise.all(
        accounts.map(async ({ test }) => {
          const { status } = await test.post('/v1/webhook_endpoints', {
            url: receiver.url(`/hook${endpoints}`),
          })
          if (status !== 201) throw new Error(`The hub did not create the endpoint: HTTP ${status}.`)
        }),
      )
    }

    let sent = 0
    /** Events that receivers have not received yet. */
    let undelivered = 0
    let burst = 0
    /** Sends a burst and waits until all messages are accepted. */
    const sendBurst = async (): Promise<void> => {
      burst += 1
      await Promise.all(
        accounts.map(async ({ keys }, a) => {
          const answer = await client(base_url, keys.test).post('/v1/messages/batch', {
            messages: Array.from({ length: MESSAGES_EACH }, (_, i) =>
              send('service', `+7916${String(a * 1000 + i).padStart(7, '0')}`, `${burst}-${i}`),
            ),
          })
          if (answer.body.counts?.accepted !== MESSAGES_EACH)
            throw new Error(`The hub did not accept the batch: HTTP ${answer.status}.`)
        }),
      )
      sent += ACCOUNTS * MESSAGES_EACH
      // Three events per message (accepted, sent, delivered), and one per batch (completed).
      undelivered += ACCOUNTS * endpoints * (MESSAGES_EACH * 3 + 1)
    }
    /** Messages with a time in a column. */
    const count = async (column: 'sent_at' | 'final_at'): Promise<number> => {
      const [row] = await admin.sql<[{ count: number }]>`
        SELECT count(${admin.sql(column)})::int AS count FROM read.messages`
      return row.count
    }
    const allDelivered = (): boolean => {
      for (const { body } of receiver.received)
        undelivered -= body.toString('latin1').match(/"evt_/gu)?.length ?? 0
      receiver.clear()
      return undelivered <= 0
    }
    /** Whether a consumer has processed everything that was sent. */
    const done: Readonly<Record<string, () => Promise<boolean>>> = {
      dispatcher: async () => (await count('sent_at')) >= sent,
      projector: async () => (await count('final_at')) >= sent,
      'webhook-fanout': async () => allDelivered(),
    }
    const settled = () => eventually(done['webhook-fanout']!, WITHIN)

    const figures: Record<string, number> = {}
    await addEndpoint()
    await sendBurst()
    await settled()
    for (const consumer of CONSUMERS) {
      const all = instances.get(consumer)!
      if (consumer === 'webhook-fanout') while (endpoints < ENDPOINTS) await addEndpoint()
      const rates: Array<Array<number>> = [[], []]
      const shares: Array<Array<number>> = [[], []]
      for (const [which, running] of [all.slice(0, 1), all].entries()) {
        await Promise.all(running.slice(1).map((one) => one.restart()))
        await Promise.all(running.map((one) => one.waitReady()))
        // V8 compiles during the first bursts of a new process.
        for (let round = 0; round < WARM_UPS; round++) {
          await sendBurst()
          await settled()
        }
        const spent = () => running.reduce((sum, one) => sum + cpuMs(one.pid()), 0)
        for (let round = 0; round < ROUNDS; round++) {
          const took = await withTenthOfCore(running, async () => {
            const [before, from] = [spent(), performance.now()]
            await sendBurst()
            await eventually(done[consumer]!, WITHIN)
            const ms = performance.now() - from
            shares[which]!.push((spent() - before) / ms)
            return ms
          })
          rates[which]!.push((ACCOUNTS * MESSAGES_EACH * 1000) / took)
          await settled()
        }
      }
      const [one, three] = rates.map(median) as [number, number]
      log(
        `${consumer}: ${one.toFixed(0)} messages/s with one process (${median(shares[0]!).toFixed(2)} of a core), ` +
          `${three.toFixed(0)} with ${PROCESSES} (${median(shares[1]!).toFixed(2)}): ${(three / one).toFixed(2)} ×; rounds ${rates
            .map((of) => of.map((rate) => rate.toFixed(0)).join(', '))
            .join(' | ')}`,
      )
      figures[`${consumer}.onePerSecond`] = one
      figures[`${consumer}.threePerSecond`] = three
      figures[`${consumer}.oneCores`] = median(shares[0]!)
      figures[`${consumer}.threeCores`] = median(shares[1]!)
      for (const other of all.slice(1)) {
        other.kill('SIGTERM')
        await other.exited()
      }
    }
    storeAlone('scaling', figures)
  } finally {
    await admin.close()
    await hub.stop()
    await receiver.close()
  }
}
