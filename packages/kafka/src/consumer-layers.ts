/** What the apps that consume topics need of Kafka, from the settings of the process. */
import { Config, Effect, Layer } from 'effect'
import { kafkaConnectionConfig } from './connection/client.ts'
import { layerConsumerGroups } from './consumer/consumer-groups.ts'
import { layerKeysAndErasures } from './keys-and-erasures.ts'
import { layerEventLog } from './log/event-log.ts'
import { catalogueConfig, topicNames } from './topics/catalogue.ts'

/** The event log, consumer groups, payload keys and erasures. Brokers see `clientId` in requests. */
export const layerConsumer = (clientId: string) =>
  Layer.unwrap(
    Effect.map(
      Config.all([kafkaConnectionConfig(clientId), catalogueConfig]),
      ([connection, { partitions, prefix }]) =>
        Layer.merge(
          layerKeysAndErasures(connection, topicNames(prefix)),
          layerConsumerGroups({ connection }),
        ).pipe(Layer.provideMerge(layerEventLog({ connection, partitions }))),
    ),
  )
