/**
 * SIGKILL of the fan-out and of PostgreSQL in the middle of a backlog: nothing is lost, and few
 * deliveries repeat.
 */
import { decodeId } from '@hub/domain'
import { statusResponse, eventually, tlsReceiver, type TlsReceiver } from '@hub/testkit'
import { borrowStack, type TestStack } from '../support/hub.ts'
import { Effect, Exit, Scope } from 'effect'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type FanoutFixture, startFanoutFixture } from '../support/fanout-fixture.ts'

const BATCHES = 4_000
/** The numbers of deliveries at which the process is killed. */
const KILL_AT = [1200, 2600]
/**
 * Deliveries that may come again after each kill: the subscription has at most 256 unrecorded ones.
 */
const REPEATED_AT_MOST = 300

let stack: TestStack
let hub: FanoutFixture
let receiver: TlsReceiver
const scope = Effect.runSync(Scope.make())

beforeAll(async () => {
  stack = await borrowStack()
  hub = await startFanoutFixture(stack)
  const certificate = await hub.authority.issue(['127.0.0.1'])
  receiver = await Effect.runPromise(
    Scope.provide(tlsReceiver(certificate, { respond: statusResponse(200) }), scope),
  )
})
afterAll(async () => {
  await hub?.stop()
  await Effect.runPromise(Scope.close(scope, Exit.void))
  await stack?.stop()
})

const received = (atLeast: number): Promise<unknown> =>
  Effect.runPromise(receiver.until((requests) => requests.length >= atLeast))

const drained = () =>
  eventually(
    async () => {
      const [row] = await hub.sql<{ pending: number }[]>`
        SELECT count(*)::integer AS pending FROM webhooks.batches`
      return row?.pending === 0
    },
    { everyMs: 100 },
  )

/** How often partitions were acquired, over all partitions. */
const acquisitions = async (): Promise<number> => {
  const [row] = await hub.sql<{ epochs: number }[]>`
    SELECT sum(epoch)::integer AS epochs FROM webhooks.positions`
  return row?.epochs ?? 0
}

const eventOf = (body: Buffer): string => (JSON.parse(body.toString('utf8')) as [{ id: string }])[0].id

/** The delivery log of a subscription, and its consecutive failures. */
const logOf = async (subscriptionId: string) => {
  const [log] = await hub.sql<{ lines: number; batches: number; failures: number }[]>`
    SELECT count(*)::integer AS lines, count(DISTINCT a.batch_id)::integer AS batches, max(e.consecutive_failures)::integer AS failures
      FROM webhooks.attempts a JOIN webhooks.endpoints e ON e.id = a.endpoint_id WHERE e.id = ${decodeId('we', subscriptionId)}`
  return log
}

describe(`SIGKILL during ${BATCHES} batches of one event`, () => {
  // Rules: DEL-5
  it('of the fan-out loses no batch, repeats few, and the next process continues', async () => {
    const { subscriptionId } = await hub.subscribe(receiver.url())
    await hub.fillBacklog({ subscriptionId, batches: BATCHES, events: 1 })
    await hub.start()
    for (const at of KILL_AT) {
      await received(at)
      await hub.kill('SIGKILL')
      await hub.start()
    }
    await drained()

    const ids = receiver.received.map(({ body }) => eventOf(body))
    expect(new Set(ids).size).toBe(BATCHES)
    const repeated = ids.length - BATCHES
    // The longest pause is from the last request of a killed process to the first one of the next.
    const longestPause = Math.max(
      ...receiver.received.slice(1).map(({ at }, index) => at - receiver.received[index]!.at),
    )
    console.log(
      `${BATCHES} batches, ${KILL_AT.length} kills: ${repeated} delivered again, longest pause ${longestPause} ms`,
    )
    expect(repeated).toBeLessThanOrEqual(REPEATED_AT_MOST * KILL_AT.length)
    // A repeated batch has the same id and the same bytes.
    const bodies = new Map<string, string>()
    for (const { body, headers } of receiver.received) {
      const id = String(headers['hub-event-id'])
      expect(bodies.get(id) ?? body.toString('utf8')).toBe(body.toString('utf8'))
      bodies.set(id, body.toString('utf8'))
    }
    expect(bodies.size).toBe(BATCHES)
    // Each batch is in the delivery log once, and none counts as a failure.
    expect(await logOf(subscriptionId)).toEqual({ lines: BATCHES, batches: BATCHES, failures: 0 })
  })

  it('of PostgreSQL loses no batch and repeats none', async () => {
    await hub.kill('SIGTERM')
    const before = receiver.received.length
    const deliveries = () => receiver.received.slice(before)
    const { subscriptionId } = await hub.subscribe(receiver.url())
    await hub.fillBacklog({ subscriptionId, batches: BATCHES, events: 1 })
    await hub.start()
    const crashes = 3
    let acquiredBefore = 0
    for (let crash = 1; crash <= crashes; crash++) {
      await received(before + (crash * BATCHES) / (crashes + 1))
      // All partitions are open before the first crash.
      if (crash === 1) acquiredBefore = await acquisitions()
      // When one server process is killed, PostgreSQL ends all of them and loses their shared
      // memory.
      const [backend] = await hub.sql<{ pid: number }[]>`
        SELECT pid FROM pg_stat_activity WHERE application_name = 'hub-webhook-fanout' LIMIT 1`
      process.kill(backend!.pid, 'SIGKILL')
      await eventually(async () => (await hub.sql`SELECT 1`).length === 1, { everyMs: 50 })
    }
    await drained()
    expect(new Set(deliveries().map(({ body }) => eventOf(body))).size).toBe(BATCHES)
    const repeated = deliveries().length - BATCHES
    const acquiredAgain = (await acquisitions()) - acquiredBefore
    console.log(`${crashes} crashes: ${repeated} delivered again, ${acquiredAgain} partitions acquired again`)
    // The process keeps unrecorded outcomes in memory and records them again after PostgreSQL is
    // back.
    expect(repeated).toBe(0)
    expect(await logOf(subscriptionId)).toEqual({ lines: BATCHES, batches: BATCHES, failures: 0 })
  })
})
