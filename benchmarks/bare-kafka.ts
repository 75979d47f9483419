/** The limits of Kafka: produce throughput and round trip through the Kafka port. */
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
  type OutgoingRecord,
  topicCatalogue,
  topicNames,
  type KafkaRequestRejected,
} from '@hub/kafka'
import { Deferred, Effect, Layer, type Scope } from 'effect'
import { type Latencies, latenciesOf } from './numbers.ts'

export const HASH_SECRET = 'a benchmark needs no secret at all'
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
    createTopics(connection, topicCatalogue({ prefix, partitions: 6, replicationFactor: 1 })).pipe(
      Effect.andThen(use),
      Effect.scoped,
      Effect.provide(
        Layer.mergeAll(layerEventLog({ connection, partitions: 6 }), layerConsumerGroups({ connection })),
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

/** Records per second in batches of 1,000, appended one after the other to topics with `prefix`. */
export const bareProduce = (
  brokers: ReadonlyArray<string>,
  prefix: string,
  durationMs: number,
): Promise<number> => {
  const topics = topicNames(prefix)
  const produce = Effect.gen(function* () {
    const log = yield* EventLog
    const batches: Array<ReadonlyArray<OutgoingRecord>> = Array.from({ length: 20 }, (_, batch) =>
      Array.from({ length: 1000 }, (_, index) => acceptedRecord(topics, accepted(batch * 1000 + index))),
    )
    // The first batch opens connections and fetches metadata. It is not measured.
    yield* log.append(batches[0]!)
    const started = performance.now()
    let records = 0
    while (performance.now() - started < durationMs) {
      yield* log.append(batches[(records / 1000) % batches.length]!)
      records += 1000
    }
    return records / ((performance.now() - started) / 1000)
  })

  return withKafka(brokers, prefix, produce)
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
