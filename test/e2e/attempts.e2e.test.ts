/**
 * `attempts` of a message: how often a submit left the hub. The operator's own counter is the
 * comparison. A pause of the operator and a missing bind delay messages, and count nothing.
 */
import { decodeFact, topicNames } from '@hub/kafka'
import { eventually } from '@hub/testkit'
import { Result } from 'effect'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Client, client, send, sendBatchUntilAccepted, sendUntilAccepted } from '../support/client.ts'
import { operatorStatistics, startHub, type TestHub, WITHOUT_WEBHOOKS } from '../support/hub.ts'
import { readTopic } from '../support/read-topic.ts'

let hub: TestHub
let live: Client
beforeAll(async () => {
  hub = await startHub({ apps: WITHOUT_WEBHOOKS, apiRps: 100_000 })
  const { base_url, keys } = hub.describe()
  live = client(base_url, keys.live)
})
afterAll(() => hub?.stop())

/** Only ends a wait that hangs. The hub reconnects within half a minute. */
const WITHIN = { withinMs: 180_000, everyMs: 300 }
/** As many as the windows of both binds, so that a hub without a rate would submit them at once. */
const MESSAGES = 100
/** Parts per second that the throttled operator accepts. */
const RATE = 10

const behave = async (behaviour: Readonly<Record<string, number | null>>) => {
  const response = await fetch(`${hub.describe().operator_url}/behaviour`, {
    method: 'PUT',
    body: JSON.stringify(behaviour),
  })
  expect(response.status, await response.text()).toBe(200)
}

const messageOf = async (id: string) => {
  const { body, status } = await live.get(`/v1/messages/${id}`)
  return status === 200 ? (body as { readonly status: string; readonly attempts: number }) : null
}
const untilDelivered = (ids: ReadonlyArray<string>): Promise<number> =>
  eventually(async () => {
    const messages = await Promise.all(ids.map(messageOf))
    return messages.every((message) => message?.status === 'delivered')
      ? messages.reduce((sum, message) => sum + (message?.attempts ?? 0), 0)
      : false
  }, WITHIN)

/** How often the dispatcher has put a message back, because nothing could be submitted. */
const refusalsOf = async (id: string): Promise<number> => {
  const records = await readTopic(hub.describe().kafka.brokers, topicNames('').messages)
  return records
    .map((record) => decodeFact(record))
    .filter((fact) => Result.isSuccess(fact) && fact.success.type === 'HandoverRefused')
    .filter((fact) => Result.isSuccess(fact) && fact.success.messageId === id).length
}

describe('the attempts of messages', () => {
  // Rules: MSG-22
  it('are the submits that the operator counts, while it throttles and the hub learns its rate', async () => {
    await behave({ throttle_per_second: RATE })
    const ids = await sendBatchUntilAccepted(
      live,
      Array.from({ length: MESSAGES }, (_, i) =>
        send('service', `+7900555${String(1000 + i)}`, `throttled-${i}`),
      ),
      WITHIN.withinMs,
    )
    const attempts = await untilDelivered(ids)
    await behave({ throttle_per_second: null })
    const { parts, submissions, throttled } = await operatorStatistics(hub)
    expect(attempts).toBe(submissions)
    expect(parts).toBe(MESSAGES)
    // Three in a hundred, and some until the rate is known. On a machine ten times as slow as usual: 47.
    expect(throttled).toBeLessThan(MESSAGES)
  })

  // Rules: MSG-22
  it('stay 0 while there is no bind, and become 1 when the message is submitted', async () => {
    hub.operator.kill('SIGKILL')
    await hub.operator.exited()
    const ids = await Promise.all(
      (['otp', 'service'] as const).map(
        async (messageClass, i) =>
          (await sendUntilAccepted(live, send(messageClass, `+7900555200${i}`), WITHIN.withinMs)).id,
      ),
    )
    // While nothing is accepted, one message at a time is tried, and a code goes first.
    await eventually(async () => (await refusalsOf(ids[0]!)) >= 2, WITHIN)
    expect(await Promise.all(ids.map(messageOf))).toMatchObject([
      { status: 'accepted', attempts: 0 },
      { status: 'accepted', attempts: 0 },
    ])
    await hub.operator.restart()
    await untilDelivered(ids)
    expect(await Promise.all(ids.map(messageOf))).toMatchObject([{ attempts: 1 }, { attempts: 1 }])
  })
})
