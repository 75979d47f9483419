/** Kills each app with SIGKILL during sends. No message is lost or handed over twice. */
import { APPS } from '@hub/config'
import { eventually } from '@hub/testkit'
import { startHub, operatorStatistics, type TestHub } from '../support/hub.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readHandoverClaims } from '../support/handover-claims.ts'
import { allEvents, type Client, client, send, sendUntilAccepted } from '../support/client.ts'
import { eventsIn, startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts'

/**
 * Half of them to the sandbox with test keys, half to the operator simulator with live keys; both
 * classes in turn.
 */
const SENDS = 2000
/** Requests in flight. The kills are spread over the resulting run time. */
const MAX_IN_FLIGHT = 16

let hub: TestHub
let receiver: WebhookReceiver

beforeAll(async () => {
  receiver = await startWebhookReceiver()
  hub = await startHub({
    apiRps: 10_000,
    // Over HTTP the operator simulator recognises and counts the messages that are handed over
    // again after a kill of the dispatcher.
    liveOperator: 'http',
    environment: receiver.environment,
  })
})
afterAll(async () => {
  await hub?.stop()
  await receiver?.close()
})

describe('SIGKILL of each app during 2,000 sends', () => {
  // Rules: AVL-19, MSG-2, SBX-1
  it('loses nothing and hands nothing over twice', async () => {
    const { base_url, keys, kafka } = hub.describe()
    const modes = { test: client(base_url, keys.test), live: client(base_url, keys.live) }
    for (const apiClient of Object.values(modes)) {
      expect((await apiClient.post('/v1/webhook_endpoints', { url: receiver.url('/hook') })).status).toBe(201)
    }

    // The kills depend on progress, not on time: each app is killed with sends before and after it.
    const kills = new Map(
      APPS.map((name, index) => [Math.floor(((index + 0.5) * SENDS) / APPS.length), name]),
    )
    const restarts: Array<Promise<void>> = []
    const accepted = new Map<string, { readonly id: string; readonly apiClient: Client }>()
    let next = 0
    await Promise.all(
      Array.from({ length: MAX_IN_FLIGHT }, async () => {
        for (;;) {
          const index = next++
          if (index >= SENDS) return
          const name = kills.get(index)
          if (name !== undefined) {
            const app = hub.app(name)
            app.kill('SIGKILL')
            restarts.push(app.exited().then(() => app.restart()))
          }
          const apiClient = index % 2 === 0 ? modes.test : modes.live
          const to = `+79${String(300_000_000 + index)}`
          const body = send(index % 4 < 2 ? 'otp' : 'service', to, `kill-${index}`)
          const { id } = await sendUntilAccepted(apiClient, body, 60_000)
          accepted.set(`kill-${index}`, { id, apiClient })
        }
      }),
    )
    await Promise.all(restarts)
    expect(restarts).toHaveLength(APPS.length)
    expect(new Set([...accepted.values()].map(({ id }) => id)).size).toBe(SENDS)

    // Every accepted message is delivered.
    const events = await eventually(
      async () => {
        const found = { test: await allEvents(modes.test), live: await allEvents(modes.live) }
        const delivered = [...found.test, ...found.live].filter(({ type }) => type === 'message.delivered')
        expect(delivered.length).toBeGreaterThanOrEqual(SENDS)
        return found
      },
      { everyMs: 1000 },
    )

    // Every message has each event once.
    const all = [...events.test, ...events.live]
    expect(new Set(all.map(({ id }) => id)).size).toBe(all.length)
    const kinds = new Map<string, Array<string>>()
    for (const event of all) {
      const { id } = event.data.object
      kinds.set(id, [...(kinds.get(id) ?? []), event.type])
    }
    const expected = ['message.accepted', 'message.delivered', 'message.sent'].join()
    for (const { id } of accepted.values()) expect(kinds.get(id)?.toSorted().join()).toBe(expected)
    expect(kinds.size).toBe(SENDS)

    // Each message was handed over once: according to the log, and according to the operator, which
    // ran all the time.
    const claims = await readHandoverClaims(kafka.brokers)
    expect(claims.messages).toBe(SENDS)
    expect(claims.repeatedAfterOutcome).toEqual([])
    const operator = await operatorStatistics(hub)
    expect(operator['references']).toBe(SENDS / 2)
    expect(operator['repeated']).toBeLessThanOrEqual(claims.repeatedWithoutOutcome)
    console.log(
      `${SENDS} sends, ${APPS.length} kills: ${claims.repeatedWithoutOutcome} handovers of unknown outcome repeated, ` +
        `${operator['repeated']} of them received and recognised by the live operator`,
    )

    // Each event reaches the subscriber at least once.
    await eventually(
      () => {
        const deliveredIds = new Set(eventsIn(receiver.received).map(({ id }) => id as string))
        expect(all.filter(({ id }) => !deliveredIds.has(id)).map(({ id }) => id)).toEqual([])
        return true
      },
      { everyMs: 500 },
    )
  })
})

describe('SIGKILL of command-api after it accepted a batch with codes that is not projected yet', () => {
  // Rules: AVL-19, BAT-13
  it('leaves no batch open: a repeat returns the accepted messages, and the batch completes', async () => {
    const { base_url, keys } = hub.describe()
    const test = client(base_url, keys.test)
    const messages = ['otp', 'service', 'otp'].map((kind, index) =>
      send(kind as 'otp' | 'service', `+79${String(310_000_000 + index)}`, `batch-${index}`),
    )
    const projector = hub.app('projector')
    projector.kill('SIGSTOP')
    const first = await test.post('/v1/messages/batch', { messages })
    expect(first.status).toBe(202)
    const api = hub.app('command-api')
    api.kill('SIGKILL')
    await api.exited()
    await api.restart()
    const more = send('otp', '+79310000009', 'batch-9')
    const second = await test.post('/v1/messages/batch', { messages: [...messages, more] })
    projector.kill('SIGCONT')
    expect(second.status).toBe(202)

    const results = (answer: typeof first) => answer.body.results.map(({ result }: any) => result)
    expect(results(first)).toEqual(['accepted', 'accepted', 'accepted'])
    expect(results(second)).toEqual(['duplicate', 'duplicate', 'duplicate', 'accepted'])
    await eventually(
      async () => {
        const completed = (await allEvents(test))
          .filter(({ type }) => type === 'batch.completed')
          .map(({ data }) => data.object.id)
        expect(new Set(completed)).toEqual(new Set([first.body.id, second.body.id]))
        return true
      },
      { everyMs: 200 },
    )
  })
})
