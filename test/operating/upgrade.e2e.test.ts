/**
 * A hub is upgraded while sends come in: the apps, the schema and the topics of the version before are at work, then the migrations of this
 * one run, and one app after the other is started beside the old one, which then ends; those who read before those who write. Nothing is lost,
 * nothing is handed over twice, every event is there once and told. The version before is the state before the last change of the
 * schema; `HUB_UPGRADE_FROM=<commit>` starts from another.
 */
import { rmSync } from 'node:fs'
import { openDatabase } from '@hub/testkit'
import { startHub, startStack, type TestHub, type TestStack } from '../support/hub.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type LoadBalancer, startLoadBalancer } from '../support/load-balancer.ts'
import { checkOutPreviousVersion } from '../support/previous-version.ts'
import { client } from '../support/client.ts'
import { type WebhookReceiver, startWebhookReceiver } from '../support/webhook-receiver.ts'
import { expectNothingLostOrRepeated, startTraffic } from '../support/traffic.ts'

/** Sends a second, as two busy cores carry them with nine processes of the hub on them. */
const RATE = Number(process.env['HUB_UPGRADE_RATE'] ?? 60)
/** Messages of each stage. */
const MESSAGES = Number(process.env['HUB_UPGRADE_MESSAGES'] ?? 100)
/** Only ends a wait that hangs. */
const WITHIN_MS = 420_000

/** In the order of docs/operating.md: who reads a topic knows a new schema before anybody writes by it. */
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
  stack = await startStack()
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
    'from the version before loses nothing and repeats nothing',
    async (context) => {
      if ('missing' in previous) {
        console.log(`Nothing was upgraded: ${previous.missing}`)
        context.skip(previous.missing)
        return
      }
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

        // The migrations and topics of this version; the old apps go on.
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
          // Both at work.
          await traffic.waitForAccepted(MESSAGES)
          const asked = performance.now()
          old.app(name).kill('SIGTERM')
          expect(await old.app(name).exited(), name).toEqual({ code: 0, signal: null })
          ends.push(`${name} ${Math.round(performance.now() - asked)} ms`)
        }
        await traffic.waitForAccepted(MESSAGES)
        await traffic.stop()

        const outcome = await expectNothingLostOrRepeated(next, traffic, receiver)
        console.log(
          `from ${previous.revision.slice(0, 12)}: ${applied.length} migrations (${applied.join(', ')}); ` +
            `${outcome.messages} messages, ${outcome.events} events, ${outcome.unknown} hand-overs of unknown outcome; ` +
            `refused for the moment: ${JSON.stringify([...traffic.refusals])}; the old ones ended: ${ends.join(', ')}`,
        )
      } finally {
        await sql.end()
      }
    },
    WITHIN_MS,
  )
})
