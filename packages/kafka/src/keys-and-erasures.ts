/** The topics whose records processes read all at once. */
import { Layer } from 'effect'
import type { KafkaConnection } from './connection/client.ts'
import { ErasureTopic } from './erasures/erasure-topic.ts'
import { layerTopicReader } from './log/topic-reader.ts'
import { PayloadKeyTopics } from './payload-keys/payload-key-topics.ts'
import type { EventLog } from './port.ts'
import type { TopicNames } from './topics/catalogue.ts'

/** The payload keys and the erasures. It opens a connection at the first read. */
export const layerKeysAndErasures = (
  connection: KafkaConnection,
  topics: TopicNames,
): Layer.Layer<PayloadKeyTopics | ErasureTopic, never, EventLog> =>
  Layer.merge(PayloadKeyTopics.layer(topics), ErasureTopic.layer(topics)).pipe(
    Layer.provide(layerTopicReader({ connection })),
  )
