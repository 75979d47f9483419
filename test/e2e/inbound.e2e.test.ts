/**
 * Stop and start words of recipients, received over SMPP, change whether the next send is accepted.
 */
import { eventually } from '@hub/testkit'
import { operatorStatistics, startHub, type TestHub, WITHOUT_WEBHOOKS } from '../support/hub.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Client, isTemporaryRefusal, send } from '../support/client.ts'
import { type HubAdmin, makeHubAdmin } from '../support/hub-admin.ts'

let hub: TestHub
let admin: HubAdmin
let live: Client
beforeAll(async () => {
  hub = await startHub({ apps: WITHOUT_WEBHOOKS })
  admin = makeHubAdmin(hub)
  live = (
    await admin.createAccount({ live: { flood_pause_seconds: 0, flood_per_hour: 1000, flood_per_day: 1000 } })
  ).live
})
afterAll(async () => {
  await admin?.close()
  await hub?.stop()
})

const EVERY = { everyMs: 100 }

/** Sends an inbound message through the operator simulator, which needs a bind for it. */
const receiveInbound = (from: string, text: string) =>
  eventually(async () => {
    const response = await fetch(`${hub.describe().operator_url}/inbound`, {
      method: 'POST',
      body: JSON.stringify({ from, to: 'HUB', text }),
    })
    await response.arrayBuffer()
    return response.status === 202
  }, EVERY)

/** Sends a service message, again after a temporary refusal. Returns the final answer. */
const trySendService = (to: string): Promise<string> =>
  eventually(async () => {
    const answer = await live.post('/v1/messages', send('service', to))
    if (isTemporaryRefusal(answer)) throw new Error(`a send was refused with ${answer.text}`)
    return answer.status === 202 ? 'accepted' : answer.body.error.code
  }, EVERY)
const untilResult = (to: string, wanted: string) =>
  eventually(async () => (await trySendService(to)) === wanted, EVERY)

describe('a recipient who sends', () => {
  const number = '+79004440001'

  // Rules: OPT-1, MSG-7
  it('a stop word gets no more service messages, but still gets codes', async () => {
    expect(await trySendService(number)).toBe('accepted')
    await receiveInbound(number, ' стоп ')
    await untilResult(number, 'recipient_opted_out')
    expect((await live.post('/v1/messages', send('otp', number))).status).toBe(202)
    expect(await trySendService('+79004440002'), 'other recipients are not affected').toBe('accepted')
  })

  // Rules: OPT-1, OPT-2
  it('a start word gets service messages again, and a restart does not apply old words again', async () => {
    await receiveInbound(number, 'Спасибо, не надо')
    await receiveInbound(number, 'СТАРТ')
    await untilResult(number, 'accepted')
    hub.app('dispatcher').kill('SIGKILL')
    await hub.app('dispatcher').exited()
    await hub.app('dispatcher').restart()
    // Old words that are read again after the restart come before this one.
    await receiveInbound('+79004440003', 'STOP')
    await untilResult('+79004440003', 'recipient_opted_out')
    expect(await trySendService(number)).toBe('accepted')
  })

  // Rules: OPT-2, OPT-5, OPT-6, OPT-7
  it('a stop word in quotes is recognized, and the accounts that wrote to the number get events', async () => {
    const to = '+79004440005'
    const sent = await live.post('/v1/messages', send('service', to))
    expect(sent.status).toBe(202)
    const other = (await admin.createAccount()).live
    const eventsOf = async (client: Client) =>
      (
        await client.get('/v1/events?limit=100&type=recipient.opted_out&type=recipient.opted_in')
      ).body.data.filter(
        ({ data }: { data: { object: { message: string } } }) => data.object.message === sent.body.id,
      )
    // Nothing else is sent to the number, because the events name the last message to it.
    await receiveInbound(to, '«Отписаться!»')
    await eventually(async () => (await eventsOf(live)).length === 1, EVERY)
    await receiveInbound(to, 'Старт.')
    await eventually(async () => (await eventsOf(live)).length === 2, EVERY)
    const events = await eventsOf(live)
    expect(events.map(({ type }: { type: string }) => type)).toEqual([
      'recipient.opted_out',
      'recipient.opted_in',
    ])
    for (const { data } of events) {
      expect(data.object).toEqual({
        recipient: expect.stringMatching(/^[0-9a-f]{64}$/u),
        message: sent.body.id,
      })
    }
    expect(await eventsOf(other)).toEqual([])
    expect((await live.get(`/v1/opt_outs/${encodeURIComponent(to)}`)).status).toBe(404)
  })

  it('words while PostgreSQL is unavailable has the last one applied after recovery', async () => {
    hub.server('postgres').kill('SIGSTOP')
    // One after the other, because concurrent words over several binds have no order.
    for (const word of ['UNSUBSCRIBE', 'START', 'ОТПИСКА']) {
      await receiveInbound('+79004440004', word)
      // The message is in Kafka and acknowledged to the operator.
      await eventually(async () => {
        const { inbound, inbound_acknowledged } = await operatorStatistics(hub)
        return inbound === inbound_acknowledged
      }, EVERY)
    }
    hub.server('postgres').kill('SIGCONT')
    await untilResult('+79004440004', 'recipient_opted_out')
  })
})
