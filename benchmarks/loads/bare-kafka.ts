/** The limits of Kafka: the throughput of a producer, and the round trip of a record. */
import { randomBytes, randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { encodeId, type MessageAccepted, newId, recipientHash } from '@hub/domain'
import { messageAccepted } from '@hub/domain/testing'
import { acceptedRecord, createTopics, topicCatalogue, topicNames } from '@hub/kafka'
import { eventually } from '@hub/testkit'
import { Effect } from 'effect'
import type { Message } from 'kafkajs'
import { bareKafka, startBareProducer } from './bare-producer.ts'
import { type Latencies, latenciesOf } from '../measure/numbers.ts'

export const HASH_SECRET = 'a benchmark needs no secret at all'
const PARTITIONS = 6
/** A round trip that takes longer has failed. */
const RECEIVED_WITHIN_MS = 10_000
/** Length of the encrypted payload of a short service message. */
const SEALED_BYTES = 140

/** The record of a send as command-api writes it. */
export const accepted = (index: number): MessageAccepted =>
  messageAccepted({
    messageId: newId('msg', Date.now(), randomBytes(10)),
    at: Date.now(),
    account: encodeId('acc', randomUUID()),
    mode: 'test',
    recipient: recipientHash(HASH_SECRET, `+79${100_000_000 + index}`),
    clientRef: `bare-${index}`,
    price: { amount: '0.00', currency: 'RUB' },
    payloadKey: 'service-2026-11-21T09:00Z',
    ciphertext: randomBytes(SEALED_BYTES),
  })

/** Creates the topics with `prefix`. */
const makeTopics = (brokers: ReadonlyArray<string>, prefix: string): Promise<void> =>
  Effect.runPromise(
    createTopics(
      { brokers, clientId: 'bench' },
      topicCatalogue({ prefix, partitions: PARTITIONS, replicationFactor: 1 }),
    ).pipe(Effect.asVoid),
  )

/** Requests of 1,000 records in progress. With more, the broker only queues them. */
const PRODUCES = 3

/**
 * Records per second: encoded before, in produce requests of 1,000 to a topic with `prefix`. They have
 * no headers, because the value has everything, and their partitions are known.
 */
export const bareProduce = async (
  brokers: ReadonlyArray<string>,
  prefix: string,
  durationMs: number,
): Promise<number> => {
  const topics = topicNames(prefix)
  await makeTopics(brokers, prefix)
  const producer = await startBareProducer(brokers)
  const requests = Array.from({ length: 20 }, (_, request) =>
    Array.from({ length: 1000 }, (_, index): Message => {
      const { key, value } = acceptedRecord(topics, accepted(request * 1000 + index))
      return { key, value: Buffer.from(value), partition: index % PARTITIONS }
    }),
  )
  const send = (index: number) => producer.send(topics.acceptedService, requests[index % requests.length]!)
  // The first request opens connections and fetches metadata. It is not measured.
  await send(0)
  const started = performance.now()
  let sent = 0
  await Promise.all(
    Array.from({ length: PRODUCES }, async () => {
      while (performance.now() - started < durationMs) await send(sent++)
    }),
  )
  const perSecond = (sent * 1000) / ((performance.now() - started) / 1000)
  await producer.close()
  return perSecond
}

/** The time from the append of a record to the handler of a consumer, at an even pace. */
export const bareRoundTrip = async (
  brokers: ReadonlyArray<string>,
  prefix: string,
  plan: { readonly rate: number; readonly durationMs: number },
): Promise<Latencies> => {
  const topics = topicNames(prefix)
  await makeTopics(brokers, prefix)
  const producer = await startBareProducer(brokers)
  const consumer = bareKafka(brokers).consumer({ groupId: `${prefix}bench` })
  const joined = new Promise<void>((resolve) => {
    consumer.on(consumer.events.GROUP_JOIN, () => resolve())
  })
  const sent = new Map<string, number>()
  const times: Array<number> = []
  await consumer.connect()
  await consumer.subscribe({ topic: topics.acceptedOtp, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch }) => {
      for (const { key } of batch.messages) {
        const at = sent.get(String(key))
        if (at !== undefined) times.push(performance.now() - at)
        sent.delete(String(key))
      }
    },
  })
  await joined
  const count = Math.floor((plan.durationMs / 1000) * plan.rate)
  const started = performance.now()
  const appends: Array<Promise<void>> = []
  for (let index = 0; index < count; index += 1) {
    const wait = started + (index * 1000) / plan.rate - performance.now()
    if (wait > 0) await delay(wait)
    const { key, topic, value } = acceptedRecord(topics, { ...accepted(index), class: 'otp' })
    sent.set(key, performance.now())
    appends.push(producer.send(topic, [{ key, value: Buffer.from(value), partition: index % PARTITIONS }]))
  }
  await Promise.all(appends)
  await eventually(() => sent.size === 0, { withinMs: RECEIVED_WITHIN_MS })
  await consumer.disconnect()
  await producer.close()
  return latenciesOf(times)
}
