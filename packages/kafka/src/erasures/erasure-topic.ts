/**
 * The topic of the erasures. It survives the loss of the database, so that they can be applied
 * again after the restore of a backup (docs/decisions/erasure.md#after-a-restore). It contains no phone
 * number.
 */
import { Context, Effect, Layer, Result } from 'effect'
import { EventLog, type KafkaUnavailable, TopicReader } from '../port.ts'
import { decodeRecipientErased } from '../records/codec.ts'
import { recipientErasedRecord } from '../records/outgoing.ts'
import type { RecipientErased } from '../records/records.ts'
import type { TopicNames } from '../topics/catalogue.ts'

export type PublishedErasure = Omit<RecipientErased, 'type'>

export class ErasureTopic extends Context.Service<
  ErasureTopic,
  {
    readonly append: (erasures: ReadonlyArray<PublishedErasure>) => Effect.Effect<void, KafkaUnavailable>
    /** The last erasure of each recipient. */
    readonly read: Effect.Effect<ReadonlyArray<PublishedErasure>, KafkaUnavailable>
  }
>()('@hub/kafka/ErasureTopic') {
  static readonly layer = (topics: TopicNames): Layer.Layer<ErasureTopic, never, EventLog | TopicReader> =>
    Layer.effect(
      ErasureTopic,
      Effect.gen(function* () {
        const log = yield* EventLog
        const reader = yield* TopicReader
        return {
          append: (erasures) =>
            Effect.asVoid(
              log.append(
                erasures.map((erasure) =>
                  recipientErasedRecord(topics, { type: 'RecipientErased', ...erasure }),
                ),
              ),
            ),
          // Kafka compacts the topic later: the last record of a recipient counts.
          read: Effect.map(reader.readAll(topics.erasures), (records) => {
            const last = new Map<string, PublishedErasure>()
            for (const record of records) {
              const decoded = decodeRecipientErased(record)
              if (Result.isFailure(decoded)) continue
              const { type: _, ...erasure } = decoded.success
              last.set(erasure.recipient, erasure)
            }
            return [...last.values()]
          }),
        }
      }),
    )
}
