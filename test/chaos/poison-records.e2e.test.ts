/**
 * Appends unreadable records to every partition of every topic of a busy hub. Each is dead-lettered
 * unchanged, with its reason and its source position. All other records are processed.
 */
import {
  DEAD_LETTER_HEADERS,
  deadLetterTopic,
  shardedTopics,
  encodeRecord,
  type OutgoingRecord,
  type Position,
  topicNames,
} from '@hub/kafka'
import { encodeId } from '@hub/domain'
import { eventually } from '@hub/testkit'
import { startHub, type TestHub } from '../support/hub.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { appendRecords, PARTITIONS } from '../support/append-records.ts'
import { client, send, sendBatchUntilAccepted } from '../support/client.ts'
import { eventsIn, startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts'
import { readTopic } from '../support/read-topic.ts'

/** Enough recipients for every partition. */
const MESSAGES = 48
/** Only ends a wait that hangs. */
const WITHIN = { withinMs: 180_000, everyMs: 200 }

let hub: TestHub
let receiver: WebhookReceiver
beforeAll(async () => {
  receiver = await startWebhookReceiver()
  hub = await startHub({ apiRps: 100_000, environment: receiver.environment })
})
afterAll(async () => {
  await hub?.stop()
  await receiver?.close()
})

const ACCOUNT = encodeId('acc', '00000000-0000-7000-8000-000000000001')
const MESSAGE = encodeId('msg', '00000000-0000-7000-8000-000000000002')
const WEBHOOK = encodeRecord({
  type: 'SubscriptionChanged',
  account: ACCOUNT,
  mode: 'live',
  subscription: encodeId('we', '00000000-0000-7000-8000-000000000003'),
  change: 'created',
  at: 0,
})
const DELIVERED = encodeRecord({ type: 'MessageDelivered', messageId: MESSAGE, at: 0 })

/** Records that no reader can decode in any topic, with the reason. */
const UNREADABLE: ReadonlyArray<readonly [reason: string, value: Uint8Array]> = [
  ['truncated', Buffer.from('??')],
  ['not_wire_format', Buffer.from('{"this":"is JSON"}')],
  ['unknown_schema', Buffer.from([0, 0x7f, 0xff, 0xff, 0xff, 1, 2, 3])],
  ['trailing_bytes', Buffer.concat([DELIVERED, Buffer.from([1])])],
]

interface PoisonRecord {
  readonly record: OutgoingRecord
  readonly reason: string
}

/**
 * Creates one record of each kind for every partition of a topic. The type header names a record
 * type that the readers of the topic decode.
 */
const poisonFor = (topic: string, type: string, misplaced: Uint8Array): ReadonlyArray<PoisonRecord> =>
  Array.from({ length: PARTITIONS }, (_, partition) =>
    [...UNREADABLE, ['unexpected_type', misplaced] as const].map(([reason, value]) => ({
      reason,
      record: {
        topic,
        partition,
        key: 'poison',
        type,
        id: `poison-${partition}-${reason}`,
        occurredAt: Date.now(),
        value,
      },
    })),
  ).flat()

const topics = topicNames()
const POISON: ReadonlyArray<PoisonRecord> = [
  ...poisonFor(topics.acceptedOtp, 'MessageAccepted', WEBHOOK),
  ...poisonFor(topics.acceptedService, 'MessageAccepted', WEBHOOK),
  ...poisonFor(topics.messages, 'MessageDelivered', WEBHOOK),
  ...poisonFor(topics.operatorReports, 'DeliveryReportReceived', WEBHOOK),
  ...poisonFor(topics.webhooks, 'EventRecorded', DELIVERED),
]

const positionKey = ({ offset, partition, topic }: Position): string => `${topic}/${partition}/${offset}`

const sourceOf = (headers: Readonly<Record<string, string>> | undefined): string =>
  [DEAD_LETTER_HEADERS.topic, DEAD_LETTER_HEADERS.partition, DEAD_LETTER_HEADERS.offset]
    .map((name) => headers?.[name])
    .join('/')

/** Appends the poison records. Returns them by position. */
const appendPoison = async (): Promise<ReadonlyMap<string, PoisonRecord>> => {
  const positions = await appendRecords(
    hub,
    POISON.map(({ record }) => record),
  )
  return new Map(positions.map((position, i) => [positionKey(position), POISON[i]!]))
}

/** Sends messages of both classes in both modes. Returns their ids by mode. */
const sendSome = async (round: number) => {
  const { base_url, keys } = hub.describe()
  const sendIn = (mode: 'test' | 'live') => {
    const messages = Array.from({ length: MESSAGES }, (_, i) =>
      send(i % 2 === 0 ? 'otp' : 'service', `+795${round}${String(1_000_000 + i)}`, `poison-${round}-${i}`),
    )
    return sendBatchUntilAccepted(client(base_url, keys[mode]), messages, WITHIN.withinMs)
  }
  return { test: await sendIn('test'), live: await sendIn('live') }
}

describe('unreadable records', () => {
  it('are dead-lettered with their reason and source position, and block no other record', async () => {
    const { base_url, kafka, keys } = hub.describe()
    const modes = ['test', 'live'] as const
    for (const mode of modes) {
      const created = await client(base_url, keys[mode]).post('/v1/webhook_endpoints', {
        url: receiver.url(`/${mode}`),
        event_types: ['message.delivered'],
      })
      expect(created.status).toBe(201)
    }
    // Some messages come before the poison records, partly in the same fetch, and some come after
    // them.
    const before = await sendSome(1)
    const appended = await appendPoison()
    const after = await sendSome(2)

    for (const mode of modes) {
      const apiClient = client(base_url, keys[mode])
      const ids = [...before[mode], ...after[mode]]
      expect(ids).toHaveLength(2 * MESSAGES)
      await eventually(async () => {
        const open = await Promise.all(
          ids.map(async (id) => (await apiClient.get(`/v1/messages/${id}`)).body.status as string),
        )
        expect(open.filter((status) => status !== 'delivered')).toEqual([])
        return true
      }, WITHIN)
      await eventually(() => {
        const requests = receiver.received.filter(({ path }) => path === `/${mode}`)
        const deliveredIds = new Set(eventsIn(requests).map(({ data }) => data.object.id as string))
        expect(ids.filter((id) => !deliveredIds.has(id))).toEqual([])
        return true
      }, WITHIN)
    }

    const found = await eventually(async () => {
      const deadLetters = (
        await Promise.all(
          shardedTopics(topics).map((topic) => readTopic(kafka.brokers, deadLetterTopic(topic))),
        )
      ).flat()
      const sources = new Set(deadLetters.map(({ headers }) => sourceOf(headers)))
      expect([...appended.keys()].filter((position) => !sources.has(position))).toEqual([])
      return deadLetters
    }, WITHIN)
    for (const { headers, id, topic, type, value } of found) {
      const poison = appended.get(sourceOf(headers))
      expect(poison, `${topic}: ${JSON.stringify(headers)}`).toBeDefined()
      expect({ id, type, reason: headers?.[DEAD_LETTER_HEADERS.reason] }).toEqual({
        id: poison!.record.id,
        type: poison!.record.type,
        reason: poison!.reason,
      })
      expect(Buffer.from(value)).toEqual(Buffer.from(poison!.record.value))
    }
  })
})
