/**
 * Stop and start words of recipients, received over SMPP, change whether the next send is accepted.
 */
import { eventually } from '@hub/testkit'
import { startHub, type TestHub } from '../support/hub.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Client, send } from '../support/client.ts'
import { type HubAdmin, makeHubAdmin } from '../support/hub-admin.ts'

let hub: TestHub
let admin: HubAdmin
let live: Client
beforeAll(async () => {
  hub = await startHub()
  admin = makeHubAdmin(hub)
  live = (
    await admin.createAccount({ live: { flood_pause_seconds: 0, flood_per_hour: 1000, flood_per_day: 1000 } })
  ).live
})
afterAll(async () => {
  await admin?.close()
  await hub?.stop()
})

const WITHIN = { withinMs: 30_000, everyMs: 100 }

/** Sends an inbound message through the operator simulator, which needs a bind for it. */
const receiveInbound = (from: string, text: string) =>
  eventually(async () => {
    const response = await fetch(`${hub.describe().operator_url}/inbound`, {
      method: 'POST',
      body: JSON.stringify({ from, to: 'HUB', text }),
    })
    await response.arrayBuffer()
    return response.status === 202
  }, WITHIN)

const statistics = async () =>
  (await (await fetch(`${hub.describe().operator_url}/statistics`)).json()) as {
    readonly inbound: number
    readonly inbound_acknowledged: number
  }

const trySendService = async (to: string) => {
  const { body, status } = await live.post('/v1/messages', send('service', to))
  return status === 202 ? 'accepted' : body.error.code
}
const untilResult = (to: string, wanted: string) =>
  eventually(async () => (await trySendService(to)) === wanted, WITHIN)

describe('a recipient who sends', () => {
  const number = '+79004440001'

  it('a stop word gets no more service messages, but still gets codes', async () => {
    expect(await trySendService(number)).toBe('accepted')
    await receiveInbound(number, ' стоп ')
    await untilResult(number, 'recipient_opted_out')
    expect((await live.post('/v1/messages', send('otp', number))).status).toBe(202)
    expect(await trySendService('+79004440002'), 'other recipients are not affected').toBe('accepted')
  })

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

  it('words while PostgreSQL is unavailable has the last one applied after recovery', async () => {
    hub.server('postgres').kill('SIGSTOP')
    // One after the other, because concurrent words over several binds have no order.
    for (const word of ['UNSUBSCRIBE', 'START', 'ОТПИСКА']) {
      await receiveInbound('+79004440004', word)
      // The message is in Kafka and acknowledged to the operator.
      await eventually(async () => {
        const { inbound, inbound_acknowledged } = await statistics()
        return inbound === inbound_acknowledged
      }, WITHIN)
    }
    hub.server('postgres').kill('SIGCONT')
    await untilResult('+79004440004', 'recipient_opted_out')
  })
})
