/**
 * Upgrades a hub while messages are sent. Apps, schema and topics of the previous version run
 * first. Then the migrations of this version run, and each new app starts beside the old one, which
 * then stops; readers before writers. No message is lost or handed over twice, and every event is
 * recorded once and delivered. The previous version is the commit before the last new migration or
 * record schema; `HUB_UPGRADE_FROM=<commit>` selects another.
 */
import { rmSync } from 'node:fs'
import { openDatabase } from '@hub/testkit'
import { borrowStack, startHub, type TestHub, type TestStack } from '../support/hub.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type LoadBalancer, startLoadBalancer } from '../support/load-balancer.ts'
import { orSkip } from '../support/external-tools.ts'
import { checkOutPreviousVersion } from '../support/previous-version.ts'
import { client } from '../support/client.ts'
import { type WebhookReceiver, startWebhookReceiver } from '../support/webhook-receiver.ts'
import { expectNothingLostOrRepeated, startTraffic } from '../support/traffic.ts'

/** Sends per second. Two busy cores can handle this with nine hub processes, and other tests beside them. */
const RATE = Number(process.env['HUB_UPGRADE_RATE'] ?? 30)
/** Messages in each stage. */
const MESSAGES = Number(process.env['HUB_UPGRADE_MESSAGES'] ?? 100)
/** Only ends a wait that hangs. */
const WITHIN_MS = 900_000

/**
 * The order of docs/operating.md: readers of a topic must know a new schema before it is written.
 */
const APPS = ['webhook-fanout', 'projector', 'dispatcher', 'command-api'] as const

const previous = await checkOutPreviousVersion()

let receiver: WebhookReceiver
let stack: TestStack
let old: TestHub
let next: TestHub | undefined
let loadBalancer: LoadBalancer

const backendOf = (hub: TestHub) => ({
  baseUrl: hub.describe().base_url,
  readyUrl: `http://127.0.0.1:${hub.ports.commandApiAdmin}/readyz`,
})

beforeAll(async () => {
  if ('missing' in previous) return
  receiver = await startWebhookReceiver()
  stack = await borrowStack()
  old = await startHub({
    servers: stack,
    sources: previous.folder,
    apiRps: 100_000,
    liveOperator: 'smpp',
    environment: receiver.environment,
  })
  loadBalancer = startLoadBalancer([backendOf(old)])
}, WITHIN_MS)
afterAll(async () => {
  await loadBalancer?.close()
  await next?.stop()
  await old?.stop()
  await stack?.stop()
  await receiver?.close()
  if (!('missing' in previous)) rmSync(previous.folder, { recursive: true, force: true })
})

describe('an upgrade under load', () => {
  it(
    'from the previous version loses no message and repeats none',
    async (context) => {
      const { revision } = await orSkip(context, previous)
      const { base_url, database_url, keys } = old.describe()
      for (const mode of ['test', 'live'] as const) {
        const { status } = await client(base_url, keys[mode]).post('/v1/webhook_endpoints', {
          url: receiver.url('/hook'),
        })
        expect(status).toBe(201)
      }
      const sql = openDatabase(database_url)
      const migrations = async () =>
        (await sql<ReadonlyArray<{ name: string }>>`SELECT name FROM public.hub_migrations`).map(
          ({ name }) => name,
        )
      try {
        const known = await migrations()
        const traffic = startTraffic({
          post: loadBalancer.post,
          keys,
          perSecond: RATE,
          name: 'upgrade',
          numbers: '+7915',
        })
        await traffic.waitForAccepted(MESSAGES)

        // Applies the migrations and topics of this version. The old apps continue.
        next = await startHub({
          servers: stack,
          takesOverFrom: old,
          apps: [],
          liveOperator: 'smpp',
          environment: receiver.environment,
        })
        const applied = (await migrations()).filter((name) => !known.includes(name))
        const ends: Array<string> = []
        for (const name of APPS) {
          await next.app(name).restart()
          if (name === 'command-api') loadBalancer.add(backendOf(next))
          // Both processes run.
          await traffic.waitForAccepted(MESSAGES)
          const signalledAt = performance.now()
          old.app(name).kill('SIGTERM')
          expect(await old.app(name).exited(), name).toEqual({ code: 0, signal: null })
          ends.push(`${name} ${Math.round(performance.now() - signalledAt)} ms`)
        }
        await traffic.waitForAccepted(MESSAGES)
        await traffic.stop()

        const outcome = await expectNothingLostOrRepeated(next, traffic, receiver)
        console.log(
          `from ${revision.slice(0, 12)}: ${applied.length} migrations (${applied.join(', ')}); ` +
            `${outcome.messages} messages, ${outcome.events} events, ${outcome.unknown} handovers of unknown outcome; ` +
            `temporary refusals: ${JSON.stringify([...traffic.refusals])}; time to stop: ${ends.join(', ')}`,
        )
      } finally {
        await sql.end()
      }
    },
    WITHIN_MS,
  )
})
