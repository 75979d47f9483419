/**
 * Scales each of the three consumers from one process to three and back while messages are sent. No
 * message is lost or handed over twice, every event is delivered, and the processes share the work.
 *
 *   HUB_SCALING_RATE=400 HUB_SCALING_MESSAGES=6000 npm run test:e2e -- scaling
 */
import { eventually } from '@hub/testkit'
import { type ConsumerApp, type AppProcess, readMetric, startHub, type TestHub } from '../support/hub.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { client } from '../support/client.ts'
import { cpuMs } from '../support/cpu-time.ts'
import { type WebhookReceiver, startWebhookReceiver } from '../support/webhook-receiver.ts'
import { expectNothingLostOrRepeated, startTraffic } from '../support/traffic.ts'

/**
 * Sends per second. Two busy cores can handle the default of `npm test` with eleven hub processes.
 */
const RATE = Number(process.env['HUB_SCALING_RATE'] ?? 60)
/** Messages in each of the three phases. */
const MESSAGES = Number(process.env['HUB_SCALING_MESSAGES'] ?? 200)

const CONSUMERS: ReadonlyArray<ConsumerApp> = ['dispatcher', 'projector', 'webhook-fanout']
const PROCESSES = 3
const PARTITIONS = 6
const EVERY = { everyMs: 200 }

/** Only ends a run that hangs: a busy machine needs several times as long as a quiet one. */
const WITHIN_MS = 900_000

let receiver: WebhookReceiver
let hub: TestHub

beforeAll(async () => {
  receiver = await startWebhookReceiver()
  hub = await startHub({ apiRps: 100_000, liveOperator: 'smpp', environment: receiver.environment })
})
afterAll(async () => {
  await hub?.stop()
  await receiver?.close()
})

/** The metric with the number of owned partitions. */
const OWNED: Readonly<Partial<Record<ConsumerApp, string>>> = {
  dispatcher: 'hub_dispatcher_open_shards',
  'webhook-fanout': 'hub_webhook_partitions',
}

/**
 * Waits until the processes of a consumer share all partitions evenly and each of them makes
 * progress.
 */
const untilShared = async (consumer: ConsumerApp, instances: ReadonlyArray<AppProcess>): Promise<void> => {
  await Promise.all(
    instances.map(async (instance) => {
      await instance.waitReady()
      const owned = OWNED[consumer]
      if (owned !== undefined) {
        await eventually(async () => {
          expect(await readMetric(instance.metricsUrl, owned)).toBe(PARTITIONS / instances.length)
          return true
        }, EVERY)
      }
      // All events of an account are in one partition, so some fan-out processes have none to
      // deliver.
      if (consumer === 'webhook-fanout') return
      const work =
        consumer === 'dispatcher'
          ? 'hub_dispatcher_handover_latency_seconds_count'
          : 'hub_projector_records_total'
      const before = await readMetric(instance.metricsUrl, work)
      await eventually(async () => (await readMetric(instance.metricsUrl, work)) > before, EVERY)
    }),
  )
}

describe(`1, 3 and 1 processes of each consumer under ${RATE} sends a second`, () => {
  it(
    'lose no message, hand none over twice, and share the work',
    async () => {
      const { base_url, keys, metrics_urls } = hub.describe()
      for (const mode of ['test', 'live'] as const) {
        const { status } = await client(base_url, keys[mode]).post('/v1/webhook_endpoints', {
          url: receiver.url('/hook'),
        })
        expect(status).toBe(201)
      }
      const instances = new Map<ConsumerApp, ReadonlyArray<AppProcess>>()
      for (const consumer of CONSUMERS) {
        const first: AppProcess = { ...hub.app(consumer), metricsUrl: metrics_urls[consumer] }
        const more = Array.from({ length: PROCESSES - 1 }, (_, i) =>
          hub.addProcess(consumer, `${consumer}-${i + 2}`),
        )
        instances.set(consumer, [first, ...(await Promise.all(more))])
      }
      const traffic = startTraffic({
        post: (path, key, body) => client(base_url, key, { repeats: false }).post(path, body),
        keys,
        perSecond: RATE,
        name: 'scaling',
        numbers: '+7913',
      })
      const lines: Array<string> = []
      /** Continues the traffic with these processes, and records the throughput and CPU time. */
      const phase = async (
        running: (all: ReadonlyArray<AppProcess>) => ReadonlyArray<AppProcess>,
      ): Promise<void> => {
        for (const [consumer, all] of instances) await untilShared(consumer, running(all))
        const cpu = () =>
          [...instances].map(([, all]) => running(all).reduce((sum, one) => sum + cpuMs(one.pid()), 0))
        const [before, from, began] = [cpu(), traffic.count(), performance.now()]
        await traffic.waitForAccepted(MESSAGES)
        const messages = traffic.count() - from
        const perSecond = (messages / (performance.now() - began)) * 1000
        const spent = cpu().map((ms, i) => `${CONSUMERS[i]} ${((ms - before[i]!) / messages).toFixed(2)}`)
        lines.push(
          `  ${running(instances.get('dispatcher')!).length} of each: ${perSecond.toFixed(0)} messages/s accepted; ` +
            `CPU time of all processes of an app in ms per message: ${spent.join(', ')}`,
        )
      }

      await phase((all) => all.slice(0, 1))
      for (const all of instances.values()) await Promise.all(all.slice(1).map((one) => one.restart()))
      await phase((all) => all)
      // The first processes stop too, since no process is special.
      for (const all of instances.values()) {
        for (const one of all.slice(0, -1)) {
          one.kill('SIGTERM')
          expect(await one.exited(), one.name).toEqual({ code: 0, signal: null })
        }
      }
      await phase((all) => all.slice(-1))
      await traffic.stop()

      const outcome = await expectNothingLostOrRepeated(hub, traffic, receiver)
      console.log(
        [
          // Six starting processes use both cores for seconds, so some repeated sends are expected.
          `${outcome.messages} messages, ${outcome.events} events, ${outcome.fences} fences, ` +
            `${outcome.unknown} handovers of unknown outcome, temporary refusals: ${JSON.stringify([...traffic.refusals])}`,
          ...lines,
        ].join('\n'),
      )
    },
    WITHIN_MS,
  )
})
