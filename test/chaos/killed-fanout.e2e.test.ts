/** kill -9 in the middle of a backlog, of a fan-out and of PostgreSQL: nothing lost, little repeated, and it goes on. */
import { decodeId } from '@hub/domain'
import { statusResponse, eventually, tlsReceiver, type TlsReceiver } from '@hub/testkit'
import { startStack, type TestStack } from '../support/hub.ts'
import { Effect, Exit, Scope } from 'effect'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type FanoutWorld, makeFanoutWorld } from '../support/fanout.ts'

const BATCHES = 10_000
/** Killed twice, with deliveries behind it and deliveries to come. */
const KILL_AT = [3000, 6500]
/** Deliveries that may come again after each kill: the subscription has at most 256 unrecorded ones. */
const REPEATED_AT_MOST = 300
/** Until the next process delivers: its start, and the group noticing that the last one is gone. */
const GOING_ON_WITHIN_MS = 15_000

let stack: TestStack
let world: FanoutWorld
let receiver: TlsReceiver
const scope = Effect.runSync(Scope.make())

beforeAll(async () => {
  stack = await startStack()
  world = await makeFanoutWorld(stack)
  const certificate = await world.authority.issue(['127.0.0.1'])
  receiver = await Effect.runPromise(
    Scope.provide(tlsReceiver(certificate, { respond: statusResponse(200) }), scope),
  )
})
afterAll(async () => {
  await world?.stop()
  await Effect.runPromise(Scope.close(scope, Exit.void))
  await stack?.stop()
})

const received = (atLeast: number): Promise<unknown> =>
  Effect.runPromise(receiver.until((requests) => requests.length >= atLeast))

const drained = () =>
  eventually(
    async () => {
      const [row] = await world.sql<{ pending: number }[]>`
        SELECT count(*)::integer AS pending FROM webhooks.batches`
      return row?.pending === 0
    },
    { withinMs: 90_000, everyMs: 100 },
  )

/** How often partitions have been taken, all together. */
const taken = async (): Promise<number> => {
  const [row] = await world.sql<{ epochs: number }[]>`
    SELECT sum(epoch)::integer AS epochs FROM webhooks.positions`
  return row?.epochs ?? 0
}

const eventOf = (body: Buffer): string => (JSON.parse(body.toString('utf8')) as [{ id: string }])[0].id

/** What the log has of a subscription: a line for each batch, and nothing that counts against it. */
const logOf = async (endpoint: string) => {
  const [log] = await world.sql<{ lines: number; batches: number; failures: number }[]>`
    SELECT count(*)::integer AS lines, count(DISTINCT a.batch_id)::integer AS batches, max(e.consecutive_failures)::integer AS failures
      FROM webhooks.attempts a JOIN webhooks.endpoints e ON e.id = a.endpoint_id WHERE e.id = ${decodeId('we', endpoint)}`
  return log
}

describe(`kill -9 in the middle of ${BATCHES} batches of one event`, () => {
  it('loses none, repeats few, and the next process goes on', async () => {
    const { endpoint } = await world.subscribe(receiver.url())
    await world.fillBacklog({ endpoint, batches: BATCHES, events: 1 })
    await world.start()
    for (const at of KILL_AT) {
      await received(at)
      await world.kill('SIGKILL')
      await world.start()
    }
    await drained()

    const ids = receiver.received.map(({ body }) => eventOf(body))
    expect(new Set(ids).size).toBe(BATCHES)
    const repeated = ids.length - BATCHES
    // The longest silence is that of a kill: from the last request of a process to the first of the next.
    const silence = Math.max(
      ...receiver.received.slice(1).map(({ at }, index) => at - receiver.received[index]!.at),
    )
    console.log(
      `${BATCHES} batches, ${KILL_AT.length} kills: ${repeated} delivered again, silent for ${silence} ms at most`,
    )
    expect(repeated).toBeLessThanOrEqual(REPEATED_AT_MOST * KILL_AT.length)
    // A batch that comes again comes under its id, with the same bytes.
    const bodies = new Map<string, string>()
    for (const { body, headers } of receiver.received) {
      const id = String(headers['hub-event-id'])
      expect(bodies.get(id) ?? body.toString('utf8')).toBe(body.toString('utf8'))
      bodies.set(id, body.toString('utf8'))
    }
    expect(bodies.size).toBe(BATCHES)
    // Every batch has its line, and the count has suffered nothing.
    expect(await logOf(endpoint)).toEqual({ lines: BATCHES, batches: BATCHES, failures: 0 })
    expect(silence).toBeLessThanOrEqual(GOING_ON_WITHIN_MS)
  })

  it('of PostgreSQL: nothing is lost, and nothing is delivered again', async () => {
    await world.kill('SIGTERM')
    const before = receiver.received.length
    const deliveries = () => receiver.received.slice(before)
    const { endpoint } = await world.subscribe(receiver.url())
    await world.fillBacklog({ endpoint, batches: BATCHES, events: 1 })
    await world.start()
    const crashes = 3
    let takenFirst = 0
    for (let crash = 1; crash <= crashes; crash++) {
      await received(before + (crash * BATCHES) / (crashes + 1))
      // Before the first crash; all partitions are open since long.
      if (crash === 1) takenFirst = await taken()
      // One server process that is killed ends all of them, with the memory that they share.
      const [backend] = await world.sql<{ pid: number }[]>`
        SELECT pid FROM pg_stat_activity WHERE application_name = 'hub-webhook-fanout' LIMIT 1`
      process.kill(backend!.pid, 'SIGKILL')
      await eventually(async () => (await world.sql`SELECT 1`).length === 1, {
        withinMs: 30_000,
        everyMs: 50,
      })
    }
    await drained()
    expect(new Set(deliveries().map(({ body }) => eventOf(body))).size).toBe(BATCHES)
    const repeated = deliveries().length - BATCHES
    const takenAgain = (await taken()) - takenFirst
    console.log(`${crashes} crashes: ${repeated} delivered again, ${takenAgain} partitions taken again`)
    // The process keeps unrecorded outcomes in memory and records them again after PostgreSQL is back.
    expect(repeated).toBe(0)
    expect(await logOf(endpoint)).toEqual({ lines: BATCHES, batches: BATCHES, failures: 0 })
  })
})
