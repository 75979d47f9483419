/** The limits of Kafka: the throughput of a bare producer, and the round trip through the Kafka port. */
import { randomBytes, randomUUID } from 'node:crypto'
import { encodeId, type MessageAccepted, newId, recipientHash } from '@hub/domain'
import {
  acceptedRecord,
  type KafkaUnavailable,
  ConsumerGroups,
  createTopics,
  EventLog,
  type IncomingRecord,
  layerConsumerGroups,
  layerEventLog,
  topicCatalogue,
  topicNames,
  type KafkaRequestRejected,
} from '@hub/kafka'
import { Deferred, Effect, Layer, type Scope } from 'effect'
import type { Message } from 'kafkajs'
import { startBareProducer } from './bare-producer.ts'
import { type Latencies, latenciesOf } from './numbers.ts'

export const HASH_SECRET = 'a benchmark needs no secret at all'
const PARTITIONS = 6
/** Length of the encrypted payload of a short service message. */
const SEALED_BYTES = 140

/** The record of a send as command-api writes it. */
export const accepted = (index: number): MessageAccepted => ({
  type: 'MessageAccepted',
  messageId: newId('msg', Date.now(), randomBytes(10)),
  at: Date.now(),
  account: encodeId('acc', randomUUID()),
  mode: 'test',
  class: 'service',
  recipient: recipientHash(HASH_SECRET, `+79${100_000_000 + index}`),
  template: 'order_ready',
  sender: 'HUB',
  clientRef: `bare-${index}`,
  batch: null,
  parts: 1,
  price: { amount: '0.00', currency: 'RUB' },
  variables: ['order'],
  expiresAt: Date.now() + 86_400_000,
  sealingKey: 'service-2026-11-21T09:00Z',
  sealed: randomBytes(SEALED_BYTES),
  republished: false,
})

const withKafka = <A>(
  brokers: ReadonlyArray<string>,
  prefix: string,
  use: Effect.Effect<A, KafkaUnavailable | KafkaRequestRejected, EventLog | ConsumerGroups | Scope.Scope>,
): Promise<A> => {
  const connection = { brokers, clientId: 'bench' }
  return Effect.runPromise(
    createTopics(connection, topicCatalogue({ prefix, partitions: PARTITIONS, replicationFactor: 1 })).pipe(
      Effect.andThen(use),
      Effect.scoped,
      Effect.provide(
        Layer.mergeAll(
          layerEventLog({ connection, partitions: PARTITIONS }),
          layerConsumerGroups({ connection }),
        ),
      ),
    ),
  )
}

/** Reads a topic from its beginning, as a new consumer group, until the scope closes. */
export const consume = (topic: string, group: string, onRecord: (record: IncomingRecord) => void) =>
  Effect.gen(function* () {
    const groups = yield* ConsumerGroups
    const assigned = yield* Deferred.make<void>()
    yield* groups.join(
      { group, topics: [topic] },
      {
        onAssigned: ({ shards }, control) => {
          for (const partition of shards) control.seek({ topic, partition, offset: 0 })
          Deferred.doneUnsafe(assigned, Effect.void)
        },
        onRevoking: Effect.void,
        onBatch: (_topic, _partition, records) => Effect.sync(() => records.forEach(onRecord)),
      },
    )
    yield* Deferred.await(assigned)
  })

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
  await withKafka(brokers, prefix, Effect.void)
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
export const bareRoundTrip = (
  brokers: ReadonlyArray<string>,
  prefix: string,
  plan: { readonly rate: number; readonly durationMs: number },
): Promise<Latencies> => {
  const topics = topicNames(prefix)
  const roundTrip = Effect.gen(function* () {
    const log = yield* EventLog
    const sent = new Map<string, number>()
    const times: Array<number> = []
    yield* consume(topics.acceptedOtp, `${prefix}bench`, ({ id }) => {
      const at = sent.get(id)
      if (at === undefined) return
      sent.delete(id)
      times.push(performance.now() - at)
    })
    const count = Math.floor((plan.durationMs / 1000) * plan.rate)
    const started = performance.now()
    for (let index = 0; index < count; index += 1) {
      const wait = started + (index * 1000) / plan.rate - performance.now()
      if (wait > 0) yield* Effect.sleep(wait)
      const record = acceptedRecord(topics, { ...accepted(index), class: 'otp' })
      sent.set(record.id, performance.now())
      yield* Effect.forkScoped(log.append([record]))
    }
    const last = performance.now()
    while (sent.size > 0 && performance.now() - last < 5000) yield* Effect.sleep(5)
    return latenciesOf(times)
  })

  return withKafka(brokers, prefix, roundTrip)
}
