/** The Kafka client of the hub against a broker that requires TLS and SASL authentication. */
import { randomUUID } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import {
  ConsumerGroups,
  createTopics,
  describeCluster,
  EventLog,
  type IncomingRecord,
  type KafkaConnection,
  type KafkaCredentials,
  layerConsumerGroups,
  layerEventLog,
} from '@hub/kafka'
import { makeCertificateAuthority } from '@hub/testkit'
import { Deferred, Effect, Layer, Redacted } from 'effect'
import { afterAll, beforeAll } from 'vitest'
import { type SecuredKafka, startSecuredKafka } from '../support/secured-kafka.ts'

let kafka: SecuredKafka
beforeAll(async () => {
  kafka = await startSecuredKafka()
})
afterAll(() => kafka?.stop())

const credentials = (over: Partial<KafkaCredentials> = {}): KafkaCredentials => ({
  mechanism: 'scram-sha-512',
  username: kafka.username,
  password: Redacted.make(kafka.password),
  ...over,
})
const connection = (over: Partial<KafkaConnection> = {}): KafkaConnection => ({
  brokers: kafka.brokers,
  clientId: 'secured-test',
  tls: { ca: kafka.ca },
  credentials: credentials(),
  ...over,
})

describe('a broker that requires TLS and a password', () => {
  it.live.each(['scram-sha-512', 'plain'] as const)(
    'accepts writes and serves a consumer group, with %s',
    (mechanism) =>
      Effect.gen(function* () {
        const to = connection({ credentials: credentials({ mechanism }) })
        const topic = `secured-${randomUUID()}`
        yield* createTopics(to, [{ topic, partitions: 1, replicationFactor: 1, config: {} }])
        const read = yield* Deferred.make<IncomingRecord>()
        yield* Effect.gen(function* () {
          const log = yield* EventLog
          const groups = yield* ConsumerGroups
          yield* groups.join(
            { group: topic, topics: [topic] },
            {
              onAssigned: ({ shards }, control) => {
                for (const shard of shards) control.seek({ topic, partition: shard, offset: 0 })
              },
              onRevoking: Effect.void,
              onBatch: (_topic, _partition, records) => Effect.asVoid(Deferred.succeed(read, records[0]!)),
            },
          )
          yield* log.append(
            [{ topic, key: 'k', type: 'Something', id: 'one', occurredAt: 0, value: Buffer.from('x') }],
            {
              deadlineMs: 10_000,
            },
          )
          assert.strictEqual((yield* Deferred.await(read)).id, 'one')
        }).pipe(
          Effect.scoped,
          Effect.provide(
            Layer.mergeAll(
              layerEventLog({ connection: to, partitions: 1 }),
              layerConsumerGroups({ connection: to }),
            ),
          ),
        )
      }),
  )

  it.live('rejects a wrong password, and the error does not contain the password', () =>
    Effect.gen(function* () {
      const password = 'not the password'
      const error = yield* Effect.flip(
        describeCluster(connection({ credentials: credentials({ password: Redacted.make(password) }) })),
      )
      assert.strictEqual(error._tag, 'KafkaUnavailable')
      assert.notInclude(JSON.stringify(error), password)
    }),
  )

  it.live('is not trusted if another authority signed its certificate', () =>
    Effect.gen(function* () {
      const other = yield* Effect.promise(makeCertificateAuthority)
      const error = yield* Effect.flip(describeCluster(connection({ tls: { ca: other.pem } })))
      assert.strictEqual(error._tag, 'KafkaUnavailable')
    }),
  )

  it.live('does not answer without TLS', () =>
    Effect.gen(function* () {
      const { tls: _tls, ...withoutTls } = connection()
      const error = yield* Effect.flip(describeCluster(withoutTls))
      assert.strictEqual(error._tag, 'KafkaUnavailable')
    }),
  )
})
