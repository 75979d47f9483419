/**
 * Deliveries and test deliveries of accounts, without and beside 40 endpoints of another account that
 * never answer. Part of `fairness.ts`.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { decodeId } from '@hub/domain'
import { startFanoutFixture } from '../../test/support/fanout-fixture.ts'
import { startScript } from '../loads/child-process.ts'
import type { Servers } from '../loads/dispatch-environment.ts'
import { latenciesOf, latencyText } from './numbers.ts'
import type { ReceiverPlan, Seen } from '../loads/receiver.ts'
import { eventSource } from '../loads/webhook-events.ts'

export interface HungPlan {
  /** Endpoints of one account that never answer. */
  readonly endpoints: number
  /** Accounts with one endpoint that answers. More of them make the p99 less noisy. */
  readonly accounts: number
  /** Events per second of all accounts together. */
  readonly rate: number
  /** Until the hung attempts use all slots that their account may use. */
  readonly warmUpMs: number
  readonly measuredMs: number
  readonly testDeliveries: number
}

export const HUNG_PLAN: HungPlan = {
  endpoints: 40,
  accounts: 100,
  rate: 200,
  warmUpMs: 4000,
  measuredMs: 6000,
  testDeliveries: 10,
}

/** Events of the warm-up must not count: a webhook batch closes after a second. */
const WINDOW_MS = 1200
/** Deliveries on demand that an account may have in progress. */
const ON_DEMAND = 4
/** Each poll is a query. */
const POLL_EVERY_MS = 10
/** A test delivery that takes longer counts as this. */
const TEST_DELIVERY_WITHIN_MS = 10_000

export const besideHungEndpoints = async (
  servers: Servers,
  log: (line: string) => void,
  plan: HungPlan = HUNG_PLAN,
) => {
  const fanout = await startFanoutFixture(servers)
  const { authority, prefix, sql } = fanout
  const startReceiver = async () =>
    startScript<number>('receiver.ts', (await authority.issue(['127.0.0.1'])) satisfies ReceiverPlan)
  const { child: receiver, first: port } = await startReceiver()
  // The receiver that is measured must not have the connections of the hung attempts to open and close.
  const { child: hungReceiver, first: hungPort } = await startReceiver()
  const seen = (): Promise<Seen> =>
    new Promise((resolve) => {
      receiver.once('message', (answer) => resolve(answer as Seen))
      receiver.send('?')
    })
  const subscribe = (path: '/timed' | '/count' | '/hung', account?: string) =>
    fanout.subscribe(`https://127.0.0.1:${path === '/hung' ? hungPort : port}${path}`, account)
  const appendEvents = eventSource({ brokers: servers.brokers, prefix })

  /** Requests a test delivery as command-api does. Returns the time until its attempt is recorded, ms. */
  const testDelivery = async (subscriptionId: string): Promise<number> => {
    const [id, started] = [randomUUID(), performance.now()]
    await sql`INSERT INTO webhooks.trials (endpoint_id, id) VALUES (${decodeId('we', subscriptionId)}, ${id})`
    for (;;) {
      const elapsed = performance.now() - started
      const [recorded] = await sql`SELECT 1 FROM webhooks.attempts WHERE id = ${id}`
      if (recorded !== undefined || elapsed > TEST_DELIVERY_WITHIN_MS) return elapsed
      await delay(POLL_EVERY_MS)
    }
  }

  try {
    const others = await Promise.all(Array.from({ length: plan.accounts }, () => subscribe('/timed')))
    const hungAccount = (await subscribe('/count')).account
    const accounts = [...others.map(({ account }) => account), hungAccount]
    const { subscriptionId } = await subscribe('/count')
    const measure = async (testsOf: ReadonlyArray<string>) => {
      await fanout.start()
      await appendEvents({ accounts, rate: plan.rate, durationMs: plan.warmUpMs, settleMs: WINDOW_MS })
      await seen()
      await appendEvents({ accounts, rate: plan.rate, durationMs: plan.measuredMs })
      const deliveries = latenciesOf((await seen()).dispatch)
      for (const hung of testsOf) {
        await sql`INSERT INTO webhooks.trials (endpoint_id, id) VALUES (${decodeId('we', hung)}, ${randomUUID()})`
      }
      const tests: Array<number> = []
      for (let i = 0; i < plan.testDeliveries; i++) tests.push(await testDelivery(subscriptionId))
      await fanout.kill('SIGTERM')
      return { deliveries, tests: latenciesOf(tests), slowestTest: Math.max(...tests) }
    }
    const without = await measure([])
    const hung: Array<string> = []
    for (let i = 0; i < plan.endpoints; i++) hung.push((await subscribe('/hung', hungAccount)).subscriptionId)
    const beside = await measure(hung.slice(0, ON_DEMAND))
    log(
      `fairness: webhooks without hung endpoints ${latencyText(without.deliveries, 1)}, beside ${plan.endpoints} ${latencyText(beside.deliveries, 1)}; test deliveries p50 ${without.tests.p50.toFixed(0)} and ${beside.tests.p50.toFixed(0)} ms`,
    )
    return { without, beside }
  } finally {
    receiver.disconnect()
    hungReceiver.disconnect()
    await fanout.stop()
  }
}
