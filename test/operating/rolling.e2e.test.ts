/**
 * Restarts every process in order while messages are sent at a constant rate and webhooks are
 * delivered. No message is lost or handed over twice, no restart resets a request or answers it with an
 * unexpected error, and every event is delivered.
 *
 *   HUB_ROLLING_RATE=500 HUB_ROLLING_READY_SECONDS=10 npm run test:e2e -- rolling
 */
import { APPS } from '@hub/config'
import { eventually } from '@hub/testkit'
import { type ProcessHandle, startHub, type TestHub } from '../support/hub.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { percentile } from '../../benchmarks/measure/numbers.ts'
import { type LoadBalancer, startLoadBalancer } from '../support/load-balancer.ts'
import { client } from '../support/client.ts'
import { type WebhookReceiver, startWebhookReceiver } from '../support/webhook-receiver.ts'
import { expectNothingLostOrRepeated, expectOnlyOverload, startTraffic } from '../support/traffic.ts'

/** Sends per second. The default of `npm test` suits two busy cores. */
const RATE = Number(process.env['HUB_ROLLING_RATE'] ?? 50)
/**
 * The time between SIGTERM and the end of a process, in which it reports that it is not ready: many
 * polls of the load balancer, because each of them may take long on a busy machine.
 */
const SHUTDOWN_DELAY_MS = 4000
/**
 * The time between restarts, in seconds of accepted messages, so that each restart has messages
 * before it and in flight. The manifests wait ten seconds (`minReadySeconds`).
 */
const READY_SECONDS = Number(process.env['HUB_ROLLING_READY_SECONDS'] ?? 0.5)
const BETWEEN = Math.ceil(RATE * READY_SECONDS)

/**
 * The traffic before the measurement. New processes still compile their code, so at a high rate
 * they are slow for some seconds.
 */
const WARM_UP = { perSecond: Math.min(RATE, 100), messages: 2 * RATE }

/** Only ends a run that hangs: a busy machine needs several times as long as a quiet one. */
const WITHIN_MS = 900_000

let receiver: WebhookReceiver
let hub: TestHub
let loadBalancer: LoadBalancer

beforeAll(async () => {
  receiver = await startWebhookReceiver()
  hub = await startHub({
    apiRps: 100_000,
    secondCommandApi: true,
    liveOperator: 'smpp',
    environment: { ...receiver.environment, HUB_SHUTDOWN_DELAY_MS: String(SHUTDOWN_DELAY_MS) },
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
    'loses no message, hands none over twice, and delivers every event',
    async () => {
      const { base_url, keys } = hub.describe()
      for (const mode of ['test', 'live'] as const) {
        // The first requests of a process are slow. On a busy machine they may get 503, which clients repeat.
        await eventually(async () => {
          const { status } = await client(base_url, keys[mode]).post('/v1/webhook_endpoints', {
            url: receiver.url('/hook'),
          })
          expect(status).toBe(201)
          return true
        })
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
        const signalledAt = performance.now()
        process.kill('SIGTERM')
        // The process must end without SIGKILL.
        expect(await process.exited(), process.name).toEqual({ code: 0, signal: null })
        const ended = performance.now()
        await process.restart()
        lines.push(
          `  ${process.name}: ended after ${Math.round(ended - signalledAt)} ms, ready ${Math.round(performance.now() - ended)} ms later`,
        )
      }
      for (const name of APPS) {
        await restart(hub.app(name))
      }
      await restart(hub.secondCommandApi())
      await traffic.waitForAccepted(BETWEEN)
      await traffic.stop()
      const sent = performance.now()

      expectOnlyOverload(traffic)
      const outcome = await expectNothingLostOrRepeated(hub, traffic, receiver)
      const latencies = traffic.latenciesMs.toSorted((a, b) => a - b)
      const latencyAt = (share: number): string => `${percentile(latencies, share).toFixed(0)} ms`
      console.log(
        [
          `${outcome.messages} messages in ${((sent - began) / 1000).toFixed(1)} s, ${((outcome.messages * 1000) / (sent - began)).toFixed(0)} a second, ` +
            `accepted after ${latencyAt(0.5)}, p99 ${latencyAt(0.99)}, at most ${latencyAt(1)}, all final ` +
            `${((performance.now() - sent) / 1000).toFixed(1)} s later; ${loadBalancer.retries()} requests repeated after a connection without ` +
            `a response, temporary refusals: ${JSON.stringify([...traffic.refusals])}; ${outcome.unknown} handovers of unknown outcome; ${receiver.received.length} webhook requests with ${outcome.events} events`,
          ...lines,
        ].join('\n'),
      )
    },
    WITHIN_MS,
  )
})
