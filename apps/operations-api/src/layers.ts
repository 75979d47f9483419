/**
 * The services that use cases may need: the servers of the hub, with the keys to its data. `app.ts`
 * provides them to every endpoint.
 */
import { type Counters, countersLayer, type SharedTexts, sharedTextsLayer } from '@hub/counters'
import {
  type ConsumerGroups,
  type EventLog,
  type KafkaConnection,
  layerConsumerGroups,
  layerEventLog,
  layerTopicReader,
  PayloadKeyTopics,
  type TopicReader,
  topicNames,
} from '@hub/kafka'
import type { Overview } from '@hub/operations'
import { MasterKeyEncryption, PayloadEncryption, Sql } from '@hub/store'
import { Effect, Layer } from 'effect'
import { IdentityProvider } from './access/identity-provider.ts'
import { APP, configuration } from './config.ts'

/** The servers and the keys. */
export type Stores =
  | Sql
  | Counters
  | SharedTexts
  | EventLog
  | ConsumerGroups
  | TopicReader
  | MasterKeyEncryption
  | PayloadEncryption

export type OperationServices = Stores | Overview.OverviewFeed

/** The connections of the process. Settings name the servers, except for Kafka. */
export const storesLayer = (
  app: string,
  kafka: { readonly connection: KafkaConnection; readonly partitions: number; readonly prefix: string },
) => {
  const { connection, partitions, prefix } = kafka
  const servers = Layer.mergeAll(
    Sql.layer(app),
    countersLayer(app),
    sharedTextsLayer(app),
    layerEventLog({ connection, partitions }),
    layerConsumerGroups({ connection }),
    layerTopicReader({ connection }),
    MasterKeyEncryption.layer,
  )
  return PayloadEncryption.layer.pipe(
    Layer.provide(PayloadKeyTopics.layer(topicNames(prefix))),
    Layer.provideMerge(servers),
  )
}

export const layers = Layer.unwrap(
  Effect.map(configuration, ({ catalogue, connection }) =>
    Layer.merge(storesLayer(APP, { connection, ...catalogue }), IdentityProvider.layer),
  ),
)
