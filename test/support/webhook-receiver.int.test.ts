import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { expect, it } from 'vitest'
import { startWebhookReceiver } from './webhook-receiver.ts'

it('a webhook receiver leaves no folder behind', async () => {
  const receiver = await startWebhookReceiver()
  const folder = dirname(receiver.environment['HUB_WEBHOOK_CA_FILE']!)
  expect(existsSync(folder)).toBe(true)
  await receiver.close()
  expect(existsSync(folder)).toBe(false)
})
