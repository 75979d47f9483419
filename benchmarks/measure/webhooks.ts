/** Section `webhooks`: the fan-out against bare undici, and beside a hung receiver. */
import { setTimeout as delay } from 'node:timers/promises'
import { decodeId } from '@hub/domain'
import { cpuMs } from '../../test/support/cpu-time.ts'
import { startFanoutFixture, type Servers } from '../../test/support/fanout-fixture.ts'
import { startScript } from '../loads/child-process.ts'
import { type Latencies, latenciesOf, latencyText, median } from './numbers.ts'
import type { Posted, PosterPlan } from '../loads/poster.ts'
import { peakMiB } from './process-usage.ts'
import type { ReceiverPlan, Seen } from '../loads/receiver.ts'
import { type Section, target } from '../pages/results.ts'
import { type Log, onStack, type SectionBenchmark } from './section.ts'
import { eventSource } from '../loads/webhook-events.ts'

/** The connections of the fan-out to one subscription; bare undici gets as many. */
const CONNECTIONS = 16
const BARE_MS = 4000
/** Deliveries that open connections and let V8 compile. Bare undici has a second for that. */
const WARM_UP = 20_000
/** Batches of one event. In a short run, V8's compilation would take 9 % of the CPU. */
const SINGLES = 80_000
/** A million events. */
const HUNDREDS = 10_000
/** When the measured backlog becomes due: after the start and the warm-up. */
const DUE_AFTER_S = 15
/** Drains, each between two runs of bare undici: the speed of a machine changes. */
const ROUNDS = 3
/**
 * With 100 subscriptions, the p99 excludes the slowest fifteen batches. With 20 it would exclude
 * only four of 380, and one short stall of the machine delayed that many.
 */
const STEADY = { rate: 200, subscriptions: 100, durationMs: 20_000 }
const WARM_UP_MS = 3000
/** Each poll costs CPU time. The receiver itself notes when the last delivery arrived. */
const POLL_EVERY_MS = 250
/** A drain that takes longer fails. */
const DRAIN_WITHIN_MS = 60_000

/** CPU time of each process for one batch, µs. */
interface Cost {
  readonly fanout: number
  readonly postgres: number
  readonly receiver: number
}

const costText = ({ fanout, postgres, receiver }: Cost): string =>
  `${fanout.toFixed(0)} µs in the fan-out, ${postgres.toFixed(0)} in PostgreSQL, ${receiver.toFixed(0)} in the receiver`

const measureWebhooks = async (servers: Servers, say: Log): Promise<Section> => {
  const fanout = await startFanoutFixture(servers)
  const { authority, sql } = fanout
  const { child: receiver, first: port } = await startScript<number>(
    'receiver.ts',
    (await authority.issue(['127.0.0.1'])) satisfies ReceiverPlan,
  )
  const seen = (): Promise<Seen> =>
    new Promise((resolve) => {
      receiver.once('message', (answer) => resolve(answer as Seen))
      receiver.send('?')
    })
  const appendEvents = eventSource({ brokers: servers.brokers, prefix: fanout.prefix })
  const subscribe = (path: string) => fanout.subscribe(`https://127.0.0.1:${port}${path}`)
  const remove = async (subscriptionId: string): Promise<void> => {
    await sql`DELETE FROM webhooks.endpoints WHERE id = ${decodeId('we', subscriptionId)}`
  }
  const bare = async (body: string): Promise<Posted> => {
    const plan: PosterPlan = {
      port,
      ca: authority.pem,
      connections: CONNECTIONS,
      body,
      durationMs: BARE_MS,
    }
    const { first } = await startScript<Posted>('poster.ts', plan)
    await seen()
    return first
  }

  const cpus = async (): Promise<Cost> => {
    // Only the server processes of its connections: PostgreSQL's shared ones take little.
    const rows = await sql<{ pid: number }[]>`
      SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'hub-webhook-fanout'`
    return {
      fanout: cpuMs(fanout.pid()),
      postgres: rows.reduce((sum, { pid }) => sum + cpuMs(pid), 0),
      receiver: cpuMs(receiver.pid ?? 0),
    }
  }

  /**
   * Starts the fan-out with two backlogs: one as a warm-up, and one that becomes due later. Returns
   * the batches per second of the second one, until its last delivery, and the CPU time of a batch.
   */
  const drain = async (
    batches: number,
    events: number,
  ): Promise<{ readonly perSecond: number; readonly peak: number; readonly cost: Cost }> => {
    const warming = await subscribe('/count')
    const { subscriptionId } = await subscribe('/count')
    await fanout.fillBacklog({ subscriptionId, batches, events })
    await fanout.fillBacklog({ subscriptionId: warming.subscriptionId, batches: WARM_UP, events: 1 })
    await sql`
      UPDATE webhooks.batches SET next_attempt_at = now() + make_interval(secs => ${DUE_AFTER_S})
      WHERE endpoint_id = ${decodeId('we', subscriptionId)}`
    await sql.unsafe(`VACUUM ANALYZE webhooks.batches`)
    await sql`CHECKPOINT`
    await seen()
    await fanout.start()
    const begun = performance.now()
    const at: Array<readonly [number, number, Cost]> = []
    let count = 0
    while (count < WARM_UP + batches) {
      if (performance.now() - begun > DRAIN_WITHIN_MS)
        throw new Error(`drained only ${count} of ${WARM_UP + batches} batches`)
      await delay(POLL_EVERY_MS)
      const { lastAt, requests } = await seen()
      count += requests
      if (requests > 0 && count > WARM_UP) at.push([lastAt, count, await cpus()])
    }
    const peak = peakMiB(fanout.pid())
    await fanout.kill('SIGTERM')
    await remove(subscriptionId)
    await remove(warming.subscriptionId)
    const [[firstAt, before, from], [lastAt, after, to]] = [at[0]!, at.at(-1)!]
    const measured = after - before
    const each = (process: keyof Cost) => ((to[process] - from[process]) * 1000) / measured
    return {
      perSecond: measured / ((lastAt - firstAt) / 1000),
      peak,
      cost: { fanout: each('fanout'), postgres: each('postgres'), receiver: each('receiver') },
    }
  }

  /** Appends evenly paced events for the accounts in turn. Returns the dispatch times. */
  const steady = async (accounts: ReadonlyArray<string>, durationMs: number): Promise<Latencies> => {
    await seen()
    await appendEvents({ accounts, rate: STEADY.rate, durationMs })
    return latenciesOf((await seen()).dispatch)
  }

  try {
    const accounts = await Promise.all(
      Array.from({ length: STEADY.subscriptions }, async () => (await subscribe('/timed')).account),
    )
    await fanout.start()
    // Warm-up.
    await steady(accounts, WARM_UP_MS)
    const alone = await steady(accounts, STEADY.durationMs)
    // A receiver that never answers, with the events of the first account.
    await fanout.subscribe(`https://127.0.0.1:${port}/hung`, accounts[0])
    await fanout.kill('SIGTERM')
    await fanout.start()
    await steady(accounts, WARM_UP_MS)
    const beside = await steady(accounts, STEADY.durationMs)
    await fanout.kill('SIGTERM')
    await sql`DELETE FROM webhooks.endpoints`
    say(`dispatch at ${STEADY.rate} events/s: ${latencyText(alone, 1)}`)
    say(`beside a hung receiver: p99 ${beside.p99.toFixed(1)} ms`)

    const event = `[{"id":"evt_0","object":"event","data":{"object":"${'x'.repeat(300)}"}}]`
    const bares: Array<Posted> = []
    const bareNow = async (): Promise<Posted> => {
      const posted = await bare(event)
      bares.push(posted)
      say(
        `bare undici: ${posted.perSecond.toFixed(0)} posts/s over ${CONNECTIONS} connections, ${posted.cpu.toFixed(0)} µs each`,
      )
      return posted
    }
    /** A drain between two runs of bare undici. `ratio`: batches per bare post of both runs. */
    const besideBare = async (batches: number, events: number) => {
      const before = bares.at(-1) ?? (await bareNow())
      const drained = await drain(batches, events)
      const after = await bareNow()
      return { ...drained, ratio: (2 * drained.perSecond) / (before.perSecond + after.perSecond) }
    }
    const rounds: Array<Awaited<ReturnType<typeof besideBare>>> = []
    for (let round = 0; round < ROUNDS; round++) {
      const drained = await besideBare(SINGLES, 1)
      rounds.push(drained)
      const { cost, perSecond, ratio } = drained
      say(
        `backlog of single events: ${perSecond.toFixed(0)} posts/s, ${ratio.toFixed(2)} of bare; ${costText(cost)}`,
      )
    }
    const ratios = rounds.map(({ ratio }) => ratio)
    const singles = rounds[ratios.indexOf(median(ratios))]!
    const million = await besideBare(HUNDREDS, 100)
    const hundreds = million.perSecond * 100
    const hundredsRatio = million.ratio * 100
    say(
      `backlog of hundreds: ${hundreds.toFixed(0)} events/s, ${hundredsRatio.toFixed(1)} a bare post; a batch ${costText(million.cost)}`,
    )
    say(`memory with a backlog of a million events: ${million.peak.toFixed(0)} MiB`)

    return {
      figures: {
        barePostsPerSecond: median(bares.map(({ perSecond }) => perSecond)),
        deliveriesPerSecond: singles.perSecond,
        deliveriesRatio: singles.ratio,
        backlogEventsPerSecond: hundreds,
        backlogMiB: million.peak,
        dispatchP50Ms: alone.p50,
        dispatchP99Ms: alone.p99,
        dispatchP99BesideHungMs: beside.p99,
      },
      rows: [
        [
          `bare: undici posts to one local receiver, ${CONNECTIONS} connections`,
          `${bares.map(({ perSecond }) => perSecond.toFixed(0)).join(', ')}/s, CPU of a post ${median(bares.map(({ cpu }) => cpu)).toFixed(0)} µs beside the receiver's`,
          'the limit',
        ],
        [
          'webhook deliveries, one event a batch',
          `${rounds.map(({ perSecond }) => perSecond.toFixed(0)).join(', ')}/s between those, CPU of a delivery ${costText(singles.cost)}`,
          `${singles.ratio.toFixed(2)} of bare undici (${ratios.map((ratio) => ratio.toFixed(2)).join(', ')})`,
        ],
        [
          'webhook backlog of a million events, batches of 100',
          `${hundreds.toFixed(0)} events/s; memory at most ${million.peak.toFixed(0)} MiB; CPU of a batch ${costText(million.cost)}`,
          `${hundredsRatio.toFixed(1)} events a bare post`,
        ],
        [
          `webhook dispatch at ${STEADY.rate} events/s to ${STEADY.subscriptions} subscriptions, behind the window of a second`,
          `${latencyText(alone, 1)} (${alone.samples} batches)`,
          `beside one that hangs: p99 ${beside.p99.toFixed(1)} ms, ${(beside.p99 / alone.p99).toFixed(2)} ×`,
        ],
      ],
      targets: [
        target('webhook dispatch p99 beside a hung receiver ÷ alone', beside.p99 / alone.p99, 2),
        // At least 0.3 of bare undici (docs/decisions/webhooks.md#recording).
        target('bare undici posts/s ÷ webhook deliveries/s, one event a batch', 1 / singles.ratio, 1 / 0.3),
        target('bare undici posts/s × 10 ÷ events/s of a backlog', 10 / hundredsRatio, 1),
        target('memory of the fan-out with a backlog of a million events, MiB', million.peak, 300),
      ],
    }
  } finally {
    receiver.disconnect()
    await fanout.stop()
  }
}

export const webhooks: SectionBenchmark = {
  name: 'webhooks',
  what: 'webhook-fanout: single deliveries, backlog, an endpoint that does not answer',
  measure: onStack(async (stack, log) => ({ section: await measureWebhooks(stack, log) })),
}
