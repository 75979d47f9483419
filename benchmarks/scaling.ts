/**
 * `node benchmarks/scaling.ts`: does throughput follow the number of processes?
 *
 * On a machine with fewer cores than processes it cannot, unless a process is worth less than a core. So here each process of the consumer in
 * question is let run for a tenth of the time only, in slices, by SIGSTOP and SIGCONT, as if it had a tenth of a core of its own; all
 * others run freely. A burst of messages of many accounts is sent, and the time taken until that consumer has done its part of
 * it: with one such process, then with three. Medians of some rounds.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { eventually } from '@hub/testkit'
import { type ConsumerApp, type AppProcess, startHub } from '../test/support/hub.ts'
import { client, send } from '../test/support/client.ts'
import { cpuMs } from '../test/support/cpu.ts'
import { receiveHooks } from '../test/support/hooks.ts'
import { type Account, operatorOf } from '../test/support/operator.ts'
import { median } from './numbers.ts'

/** Of a cycle so much: short enough that no session, lease or deadline notices, long enough that a slice does some work. */
const AWAKE_MS = 10
const CYCLE_MS = 100
const PROCESSES = 3
/** Spread over the partitions by their recipients, and their events by the accounts. */
const ACCOUNTS = 96
const MESSAGES_EACH = 25
/**
 * Of each account, while the fan-out is the one in question: as many as there may be. With one of them a burst is told a window of one second after
 * its last event, however many processes there are, and little else takes its time.
 */
const ENDPOINTS = 20
const ROUNDS = 3
const WARM_UPS = 3
const WITHIN = { withinMs: 120_000, everyMs: 50 } as const

const CONSUMERS: ReadonlyArray<ConsumerApp> = ['dispatcher', 'projector', 'webhook-fanout']

/** Lets each of these processes run for a tenth of the time while `use` runs. */
const onTenths = async <A>(processes: ReadonlyArray<AppProcess>, use: () => Promise<A>): Promise<A> => {
  let over = false
  const turns = processes.map(async (process, i) => {
    // One after the other, not all at once.
    await delay((CYCLE_MS / processes.length) * i)
    while (!over) {
      process.kill('SIGSTOP')
      await delay(CYCLE_MS - AWAKE_MS)
      process.kill('SIGCONT')
      await delay(AWAKE_MS)
    }
  })
  try {
    return await use()
  } finally {
    over = true
    await Promise.all(turns)
  }
}

const hooks = await receiveHooks()
const hub = await startHub({ apiRps: 1_000_000, environment: hooks.environment })
const operator = operatorOf(hub)
try {
  const { base_url, metrics_urls } = hub.describe()
  const accounts: Array<Account> = []
  for (let i = 0; i < ACCOUNTS; i++) {
    accounts.push(await operator.account())
  }
  const instances = new Map<ConsumerApp, ReadonlyArray<AppProcess>>()
  for (const consumer of CONSUMERS) {
    const first: AppProcess = { ...hub.app(consumer), metricsUrl: metrics_urls[consumer] }
    const more = await Promise.all(
      Array.from({ length: PROCESSES - 1 }, (_, i) => hub.addProcess(consumer, `${consumer}-${i + 2}`)),
    )
    instances.set(consumer, [first, ...more])
  }

  let endpoints = 0
  /** A new one at each account. */
  const addEndpoint = async (): Promise<void> => {
    endpoints += 1
    await Promise.all(
      accounts.map(async ({ test }) => {
        const { status } = await test.post('/v1/webhook_endpoints', { url: hooks.url(`/hook${endpoints}`) })
        if (status !== 201) throw new Error(`no endpoint: ${status}`)
      }),
    )
  }

  let sent = 0
  /** Events that receivers are still to be told. */
  let untold = 0
  let burst = 0
  /** Sends a burst; answers when all of it is accepted. */
  const sendBurst = async (): Promise<void> => {
    burst += 1
    await Promise.all(
      accounts.map(async ({ keys }, a) => {
        const answer = await client(base_url, keys.test).post('/v1/messages/batch', {
          messages: Array.from({ length: MESSAGES_EACH }, (_, i) =>
            send('service', `+7916${String(a * 1000 + i).padStart(7, '0')}`, `${burst}-${i}`),
          ),
        })
        if (answer.body.counts?.accepted !== MESSAGES_EACH) throw new Error(`not accepted: ${answer.status}`)
      }),
    )
    sent += ACCOUNTS * MESSAGES_EACH
    // Each message is accepted, sent and delivered; then its batch is complete.
    untold += ACCOUNTS * endpoints * (MESSAGES_EACH * 3 + 1)
  }
  const count = async (status: string): Promise<number> => {
    const [row] = await operator.sql<[{ count: number }]>`
      SELECT count(*)::int AS count FROM read.message_history WHERE status = ${status}`
    return row.count
  }
  /** Whether receivers have been told everything. */
  const isTold = (): boolean => {
    for (const { body } of hooks.received) untold -= body.toString('latin1').match(/"evt_/gu)?.length ?? 0
    hooks.clear()
    return untold <= 0
  }
  /** When a consumer has done its part of everything that was sent. */
  const done: Readonly<Record<string, () => Promise<boolean>>> = {
    dispatcher: async () => (await count('sent')) >= sent,
    projector: async () => (await count('delivered')) >= sent,
    'webhook-fanout': async () => isTold(),
  }
  const settled = () => eventually(done['webhook-fanout']!, WITHIN)

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
      // A process that has just started compiles what it runs.
      for (let round = 0; round < WARM_UPS; round++) {
        await sendBurst()
        await settled()
      }
      const spent = () => running.reduce((sum, one) => sum + cpuMs(one.pid()), 0)
      for (let round = 0; round < ROUNDS; round++) {
        const took = await onTenths(running, async () => {
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
    console.log(
      `${consumer}: ${one.toFixed(0)} messages/s with one process (${median(shares[0]!).toFixed(2)} of a core), ` +
        `${three.toFixed(0)} with ${PROCESSES} (${median(shares[1]!).toFixed(2)}): ${(three / one).toFixed(2)} ×; rounds ${rates
          .map((of) => of.map((rate) => rate.toFixed(0)).join(', '))
          .join(' | ')}`,
    )
    for (const other of all.slice(1)) {
      other.kill('SIGTERM')
      await other.exited()
    }
  }
} finally {
  await operator.close()
  await hub.stop()
  await hooks.close()
}
