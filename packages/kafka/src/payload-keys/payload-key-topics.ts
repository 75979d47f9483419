/**
 * The topics that contain the payload keys, wrapped by the master key. Kafka deletes them on time;
 * no other store has them (docs/decisions/encryption.md#payload-keys).
 */
import type { MessageClass } from '@hub/domain'
import { Context, Effect, Layer, Result } from 'effect'
import { EventLog, type KafkaUnavailable, TopicReader } from '../port.ts'
import { decodeSealingKeyCreated } from '../records/codec.ts'
import { payloadKeyRecord } from '../records/outgoing.ts'
import type { TopicNames } from '../topics/catalogue.ts'
import { PAYLOAD_KEY_PERIODS } from './periods.ts'

/** Sends may wait for a new key, so it has the deadline of a code. */
const APPEND_DEADLINE_MS = 1500

/** A payload key, as its topic contains it. */
export interface WrappedPayloadKey {
  readonly id: string
  /** Encrypted with the master key. */
  readonly wrapped: Uint8Array
  /** From then on it counts as destroyed, whether Kafka has deleted it or not. Ms since the epoch. */
  readonly readableUntil: number
}

export class PayloadKeyTopics extends Context.Service<
  PayloadKeyTopics,
  {
    /** Succeeds when Kafka has stored the key. Before that, it must not encrypt anything. */
    readonly append: (
      messageClass: MessageClass,
      key: { readonly id: string; readonly wrapped: Uint8Array; readonly at: number },
    ) => Effect.Effect<void, KafkaUnavailable>
    /** All keys of a class that Kafka has at the time of the call. */
    readonly read: (
      messageClass: MessageClass,
    ) => Effect.Effect<ReadonlyArray<WrappedPayloadKey>, KafkaUnavailable>
  }
>()('@hub/kafka/PayloadKeyTopics') {
  static readonly layer = (
    topics: TopicNames,
  ): Layer.Layer<PayloadKeyTopics, never, EventLog | TopicReader> =>
    Layer.effect(
      PayloadKeyTopics,
      Effect.gen(function* () {
        const log = yield* EventLog
        const reader = yield* TopicReader
        return {
          append: (messageClass, { at, id, wrapped }) =>
            Effect.asVoid(
              log.append(
                [
                  payloadKeyRecord(topics, messageClass, {
                    type: 'SealingKeyCreated',
                    keyId: id,
                    wrapped,
                    at,
                  }),
                ],
                { deadlineMs: APPEND_DEADLINE_MS },
              ),
            ),
          read: (messageClass) => {
            const { retentionMs } = PAYLOAD_KEY_PERIODS[messageClass]
            const topic = messageClass === 'otp' ? topics.otpKeys : topics.serviceKeys
            return Effect.map(reader.readAll(topic), (records) =>
              records.flatMap((record): ReadonlyArray<WrappedPayloadKey> => {
                const decoded = decodeSealingKeyCreated(record)
                // A record of another producer is no key.
                if (Result.isFailure(decoded)) return []
                const { keyId, wrapped } = decoded.success
                return [{ id: keyId, wrapped, readableUntil: record.appendedAt + retentionMs }]
              }),
            )
          },
        }
      }),
    )
}
