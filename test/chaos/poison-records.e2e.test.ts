/**
 * Records that nobody can read, in every partition of every topic of a hub at work: each goes to the dead letters of its topic, byte for byte, with its
 * reason and where it was, and everything else goes on.
 */
import {
  DEAD_LETTER_HEADERS,
  deadLetterTopic,
  encodeRecord,
  EventLog,
  layerEventLog,
  type OutgoingRecord,
  type Position,
  topicNames,
} from '@hub/kafka'
import { encodeId } from '@hub/domain'
import { eventually } from '@hub/testkit'
import { startHub, type TestHub } from '../support/hub.ts'
import { Effect } from 'effect'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { client, send } from '../support/client.ts'
import { type WebhookReceiver, startWebhookReceiver } from '../support/webhook-receiver.ts'
import { readTopic } from '../support/read-topic.ts'

/** The local hub's, and that of the tests. */
const PARTITIONS = 6
/** Enough numbers for every partition to have some. */
const MESSAGES = 48
/** Only ends a wait that hangs. */
const WITHIN = { withinMs: 90_000, everyMs: 200 }

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

/** What nobody can read, whatever topic it is in, and why. */
const UNREADABLE: ReadonlyArray<readonly [reason: string, value: Uint8Array]> = [
  ['truncated', Buffer.from('??')],
  ['not_wire_format', Buffer.from('{"this":"is JSON"}')],
  ['unknown_schema', Buffer.from([0, 0x7f, 0xff, 0xff, 0xff, 1, 2, 3])],
  ['trailing_bytes', Buffer.concat([DELIVERED, Buffer.from([1])])],
]

interface Poison {
  readonly record: OutgoingRecord
  readonly reason: string
}

/** Of each kind one for every partition of a topic. The header calls it a record that the topic's readers look into. */
const poisonFor = (topic: string, type: string, misplaced: Uint8Array): ReadonlyArray<Poison> =>
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
const POISON: ReadonlyArray<Poison> = [
  ...poisonFor(topics.acceptedOtp, 'MessageAccepted', WEBHOOK),
  ...poisonFor(topics.acceptedService, 'MessageAccepted', WEBHOOK),
  ...poisonFor(topics.messages, 'MessageDelivered', WEBHOOK),
  ...poisonFor(topics.operatorReports, 'DeliveryReportReceived', WEBHOOK),
  ...poisonFor(topics.webhooks, 'EventRecorded', DELIVERED),
]

const placeOf = ({ offset, partition, topic }: Position): string => `${topic}/${partition}/${offset}`

const sourceOf = (headers: Readonly<Record<string, string>> | undefined): string =>
  [DEAD_LETTER_HEADERS.topic, DEAD_LETTER_HEADERS.partition, DEAD_LETTER_HEADERS.offset]
    .map((name) => headers?.[name])
    .join('/')

/** Appends it, and answers what was put where. */
const append = async (): Promise<ReadonlyMap<string, Poison>> => {
  const connection = { brokers: hub.describe().kafka.brokers, clientId: 'poison-test' }
  const positions = await Effect.runPromise(
    Effect.flatMap(EventLog, (log) =>
      log.append(
        POISON.map(({ record }) => record),
        { deadlineMs: 10_000 },
      ),
    ).pipe(Effect.provide(layerEventLog({ connection, partitions: PARTITIONS })), Effect.scoped),
  )
  return new Map(positions.map((position, i) => [placeOf(position), POISON[i]!]))
}

/** Sends messages of both kinds in both modes, and answers their ids by mode. */
const sendSome = async (round: number) => {
  const { base_url, keys } = hub.describe()
  const sent = { test: new Array<string>(), live: new Array<string>() }
  for (const mode of ['test', 'live'] as const) {
    const apiClient = client(base_url, keys[mode])
    const messages = Array.from({ length: MESSAGES }, (_, i) =>
      send(i % 2 === 0 ? 'otp' : 'service', `+795${round}${String(1_000_000 + i)}`, `poison-${round}-${i}`),
    )
    const { body, status } = await apiClient.post('/v1/messages/batch', { messages })
    expect(status, JSON.stringify(body)).toBe(202)
    for (const { message } of body.results) sent[mode].push(message.id)
  }
  return sent
}

describe('records that nobody can read', () => {
  it('go to the dead letters with their reason, each where it was found, and stop nothing', async () => {
    const { base_url, kafka, keys } = hub.describe()
    const modes = ['test', 'live'] as const
    for (const mode of modes) {
      const made = await client(base_url, keys[mode]).post('/v1/webhook_endpoints', {
        url: receiver.url(`/${mode}`),
        event_types: ['message.delivered'],
      })
      expect(made.status).toBe(201)
    }
    // Some before, in the same fetch as some of it, and some behind it.
    const before = await sendSome(1)
    const put = await append()
    const behind = await sendSome(2)

    for (const mode of modes) {
      const apiClient = client(base_url, keys[mode])
      const ids = [...before[mode], ...behind[mode]]
      expect(ids).toHaveLength(2 * MESSAGES)
      await eventually(async () => {
        const open = await Promise.all(
          ids.map(async (id) => (await apiClient.get(`/v1/messages/${id}`)).body.status as string),
        )
        expect(open.filter((status) => status !== 'delivered')).toEqual([])
        return true
      }, WITHIN)
      await eventually(() => {
        const told = new Set(
          receiver.received
            .filter(({ path }) => path === `/${mode}`)
            .flatMap(({ body }) => JSON.parse(body.toString('utf8')) as ReadonlyArray<any>)
            .map(({ data }) => data.object.id as string),
        )
        expect(ids.filter((id) => !told.has(id))).toEqual([])
        return true
      }, WITHIN)
    }

    const found = await eventually(async () => {
      const letters = (
        await Promise.all(
          Object.values(topics).map((topic) => readTopic(kafka.brokers, deadLetterTopic(topic))),
        )
      ).flat()
      const places = new Set(letters.map(({ headers }) => sourceOf(headers)))
      expect([...put.keys()].filter((place) => !places.has(place))).toEqual([])
      return letters
    }, WITHIN)
    for (const { headers, id, topic, type, value } of found) {
      const poison = put.get(sourceOf(headers))
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
