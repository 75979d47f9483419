/** A recipient writes to the hub, over SMPP: what the stop and start words do to the next send. */
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

/** The operator passes on what somebody wrote; it needs a bind for that. */
const write = (from: string, text: string) =>
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

const sendsService = async (to: string) => {
  const { body, status } = await live.post('/v1/messages', send('service', to))
  return status === 202 ? 'accepted' : body.error.code
}
const becomes = (to: string, wanted: string) =>
  eventually(async () => (await sendsService(to)) === wanted, WITHIN)

describe('a recipient who writes', () => {
  const number = '+79004440001'

  it('a stop word gets no service messages any more, and codes as before', async () => {
    expect(await sendsService(number)).toBe('accepted')
    await write(number, ' стоп ')
    await becomes(number, 'recipient_opted_out')
    expect((await live.post('/v1/messages', send('otp', number))).status).toBe(202)
    expect(await sendsService('+79004440002'), 'nobody else is meant').toBe('accepted')
  })

  it('a start word gets them again, and old words do not come back with a restart', async () => {
    await write(number, 'Спасибо, не надо')
    await write(number, 'СТАРТ')
    await becomes(number, 'accepted')
    hub.app('dispatcher').kill('SIGKILL')
    await hub.app('dispatcher').exited()
    await hub.app('dispatcher').restart()
    // Whatever is read again of the old words was read before this one.
    await write('+79004440003', 'STOP')
    await becomes('+79004440003', 'recipient_opted_out')
    expect(await sendsService(number)).toBe('accepted')
  })

  it('a word while PostgreSQL is away is heard when it is back', async () => {
    hub.server('postgres').kill('SIGSTOP')
    // One after the other: words that are on their way at once, over several binds, have no order.
    for (const word of ['UNSUBSCRIBE', 'START', 'ОТПИСКА']) {
      await write('+79004440004', word)
      // It is in the log, and its operator has been told so.
      await eventually(async () => {
        const { inbound, inbound_acknowledged } = await statistics()
        return inbound === inbound_acknowledged
      }, WITHIN)
    }
    hub.server('postgres').kill('SIGCONT')
    await becomes('+79004440004', 'recipient_opted_out')
  })
})
