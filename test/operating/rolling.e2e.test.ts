/**
 * Every process is restarted in an orderly way, one after the other, while sends come in at an even pace and webhooks flow: nothing is
 * lost, no 5xx is answered, nothing is handed over twice, every event is told.
 *
 *   HUB_ROLLING_RATE=500 HUB_ROLLING_READY_SECONDS=10 npm run test:e2e -- rolling
 */
import { APPS } from '@hub/config'
import { type ProcessHandle, startHub, type TestHub } from '../support/hub.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { percentile } from '../../benchmarks/numbers.ts'
import { type LoadBalancer, startLoadBalancer } from '../support/load-balancer.ts'
import { client } from '../support/client.ts'
import { type WebhookReceiver, startWebhookReceiver } from '../support/webhook-receiver.ts'
import { expectFewRefusals, expectNothingLostOrRepeated, startTraffic } from '../support/traffic.ts'

/** Sends a second: as in `npm test` what two busy cores carry. */
const RATE = Number(process.env['HUB_ROLLING_RATE'] ?? 100)
/** A process that is told to end says so for so long: some turns of a load balancer that asks five times a second. */
const ANNOUNCED_MS = 1000
/** This share of the sends may be refused for the moment on a machine that is short of processor time; on a quiet one none is. */
const MAX_REFUSED_SHARE = 0.02
/**
 * What is accepted between one restart and the next, so that each finds some behind it and some under way: of so many seconds. A rollout of the
 * manifests waits ten (`minReadySeconds`).
 */
const READY_SECONDS = Number(process.env['HUB_ROLLING_READY_SECONDS'] ?? 0.5)
const BETWEEN = Math.ceil(RATE * READY_SECONDS)

/** Before anything is measured: processes that have just started compile what they do, and so they answer the first seconds of a high rate late. */
const WARM_UP = { perSecond: Math.min(RATE, 100), messages: 2 * RATE }

/** Only ends a run that hangs: a busy machine needs several times as long as a quiet one. */
const WITHIN_MS = 420_000

let receiver: WebhookReceiver
let hub: TestHub
let loadBalancer: LoadBalancer

beforeAll(async () => {
  receiver = await startWebhookReceiver()
  hub = await startHub({
    apiRps: 100_000,
    secondCommandApi: true,
    liveOperator: 'smpp',
    environment: { ...receiver.environment, HUB_SHUTDOWN_DELAY_MS: String(ANNOUNCED_MS) },
  })
  const { base_url, second_base_url } = hub.describe()
  loadBalancer = startLoadBalancer([
    { baseUrl: base_url, readyUrl: `http://127.0.0.1:${hub.ports.commandApiAdmin}/readyz` },
    { baseUrl: second_base_url!, readyUrl: `http://127.0.0.1:${hub.ports.secondCommandApiAdmin}/readyz` },
  ])
})
afterAll(async () => {
  await loadBalancer?.close()
  await hub?.stop()
  await receiver?.close()
})

describe(`a restart of every process under ${RATE} sends a second`, () => {
  it(
    'loses nothing, answers no 5xx, hands nothing over twice, and tells every event',
    async () => {
      const { base_url, keys } = hub.describe()
      for (const mode of ['test', 'live'] as const) {
        const { status } = await client(base_url, keys[mode]).post('/v1/webhook_endpoints', {
          url: receiver.url('/hook'),
        })
        expect(status).toBe(201)
      }
      const earlier = startTraffic({
        post: loadBalancer.post,
        keys,
        perSecond: WARM_UP.perSecond,
        name: 'earlier',
        numbers: '+7913',
      })
      await earlier.waitForAccepted(WARM_UP.messages)
      await earlier.stop()
      const began = performance.now()
      const traffic = startTraffic({
        post: loadBalancer.post,
        keys,
        perSecond: RATE,
        name: 'rolling',
        numbers: '+7912',
      })
      const lines: Array<string> = []
      const restart = async (process: ProcessHandle): Promise<void> => {
        await traffic.waitForAccepted(BETWEEN)
        const asked = performance.now()
        process.kill('SIGTERM')
        // By itself: nobody kills it here.
        expect(await process.exited(), process.name).toEqual({ code: 0, signal: null })
        const ended = performance.now()
        await process.restart()
        lines.push(
          `  ${process.name}: ended after ${Math.round(ended - asked)} ms, ready ${Math.round(performance.now() - ended)} ms later`,
        )
      }
      for (const name of APPS) {
        await restart(hub.app(name))
      }
      await restart(hub.secondCommandApi())
      await traffic.waitForAccepted(BETWEEN)
      await traffic.stop()
      const sent = performance.now()

      expectFewRefusals(traffic, MAX_REFUSED_SHARE)
      const outcome = await expectNothingLostOrRepeated(hub, traffic, receiver)
      const took = traffic.latenciesMs.toSorted((a, b) => a - b)
      const tookAt = (share: number): string => `${percentile(took, share).toFixed(0)} ms`
      console.log(
        [
          `${outcome.messages} messages in ${((sent - began) / 1000).toFixed(1)} s, ${((outcome.messages * 1000) / (sent - began)).toFixed(0)} a second, ` +
            `accepted after ${tookAt(0.5)}, p99 ${tookAt(0.99)}, at most ${tookAt(1)}, all at their end ` +
            `${((performance.now() - sent) / 1000).toFixed(1)} s later; ${loadBalancer.retries()} requests sent again after a connection without ` +
            `an answer, refused for the moment: ${JSON.stringify([...traffic.refusals])}; ${outcome.unknown} hand-overs of unknown outcome; ${receiver.received.length} webhook requests with ${outcome.events} events`,
          ...lines,
        ].join('\n'),
      )
    },
    WITHIN_MS,
  )
})
