/** The lifetimes and report deadlines of a hub whose environment sets them, as its topics show them. */
import { decodeFact, type IncomingRecord, topicNames } from '@hub/kafka'
import { eventually } from '@hub/testkit'
import { Result } from 'effect'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Client, client, send, sendUntilAccepted } from '../support/client.ts'
import { startHub, type TestHub, WITHOUT_WEBHOOKS } from '../support/hub.ts'
import { readTopic } from '../support/read-topic.ts'

let hub: TestHub
let live: Client
beforeAll(async () => {
  hub = await startHub({
    apps: WITHOUT_WEBHOOKS,
    environment: {
      HUB_LIFETIME_OTP_SECONDS: '60',
      HUB_LIFETIME_SERVICE_SECONDS: '3600',
      HUB_REPORT_DEADLINE_OTP_SECONDS: '120',
      HUB_REPORT_DEADLINE_SERVICE_SECONDS: '7200',
    },
  })
  const { base_url, keys } = hub.describe()
  live = client(base_url, keys.live)
})
afterAll(() => hub?.stop())

const SECOND = 1000
const WITHIN = { withinMs: 180_000, everyMs: 200 }
const topics = topicNames('')

const factOf = (records: ReadonlyArray<IncomingRecord>, id: string, type: string) =>
  records
    .map((record) => decodeFact(record))
    .flatMap((fact) => (Result.isSuccess(fact) ? [fact.success] : []))
    .find((fact) => fact.messageId === id && fact.type === type)

describe('a hub with its own lifetimes and report deadlines', () => {
  // Rules: MSG-32
  it.each([
    { messageClass: 'otp', to: '+79005550101', lane: topics.acceptedOtp, lifetime: 60, deadline: 120 },
    {
      messageClass: 'service',
      to: '+79005550102',
      lane: topics.acceptedService,
      lifetime: 3600,
      deadline: 7200,
    },
  ] as const)('gives them to each message of class $messageClass', async (expected) => {
    const { deadline, lane, lifetime, messageClass, to } = expected
    const { brokers } = hub.describe().kafka
    const { id } = await sendUntilAccepted(live, send(messageClass, to), WITHIN.withinMs)
    await eventually(async () => {
      const accepted = factOf(await readTopic(brokers, lane), id, 'MessageAccepted')
      const sent = factOf(await readTopic(brokers, topics.messages), id, 'MessageSent')
      if (accepted?.type !== 'MessageAccepted' || sent?.type !== 'MessageSent') return false
      expect(accepted.expiresAt - accepted.at).toBe(lifetime * SECOND)
      expect(sent.reportDeadline - sent.at).toBe(deadline * SECOND)
      return true
    }, WITHIN)
  })
})
