/**
 * Long messages through a whole hub. The operator simulator refuses parts of more than 140 octets (3GPP TS
 * 23.040, 9.2.3.24), so a message whose parts are too long would be `rejected`.
 */
import { eventually } from '@hub/testkit'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { sendUntilAccepted } from '../support/client.ts'
import { type Account, type HubAdmin, makeHubAdmin } from '../support/hub-admin.ts'
import { operatorStatistics, startHub, type TestHub, WITHOUT_WEBHOOKS } from '../support/hub.ts'

let hub: TestHub
let admin: HubAdmin
let account: Account
beforeAll(async () => {
  hub = await startHub({ apps: WITHOUT_WEBHOOKS })
  admin = makeHubAdmin(hub)
  account = await admin.createAccount({ live: { flood_pause_seconds: 0 } })
  await admin.addTemplate(account, 'live', { name: 'order', class: 'service', body: 'Order {{code}}' })
})
afterAll(async () => {
  await admin?.close()
  await hub?.stop()
})

/** Only ends a wait that hangs. */
const WITHIN = { withinMs: 180_000, everyMs: 200 }

/** Parts by the table of GSM 03.38: 153 septets or 67 code units in one of several parts. */
it.each([
  ['156 Latin letters', 'a'.repeat(156), 2],
  ['an extension character at the end of a part', `${'a'.repeat(146)}€${'b'.repeat(100)}`, 2],
  ['500 Cyrillic letters', 'я'.repeat(500), 8],
  ['surrogate pairs', '😀'.repeat(100), 4],
])('%s are delivered', async (name, code, parts) => {
  const { id } = await sendUntilAccepted(
    account.live,
    { to: '+79005550001', class: 'service', template: 'order', variables: { code }, client_ref: name },
    WITHIN.withinMs,
  )
  const message = await eventually(async () => {
    const { body, status } = await account.live.get(`/v1/messages/${id}`)
    const found = body as { readonly status: string; readonly parts: number }
    return status === 200 && !['accepted', 'sent'].includes(found.status) ? found : false
  }, WITHIN)
  expect(message).toMatchObject({ status: 'delivered', parts })
  expect((await operatorStatistics(hub))['refused']).toBe(0)
})
