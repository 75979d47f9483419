/** Decrypts the payload of a message, and builds the submit request for the operator. */
import { encodingOf } from '@hub/domain'
import { DecryptionFailed, PayloadEncryption } from '@hub/store'
import { Effect, Result, Schema } from 'effect'
import type { Preparation } from '../shard/dispatcher-shard.ts'
import type { Message } from '../shard/message.ts'

/** The pause before the next try to fetch a payload key. */
const STORAGE_PAUSE_MS = 500

const decodePayload = Schema.decodeUnknownResult(
  Schema.fromJsonString(Schema.Struct({ to: Schema.String, text: Schema.String })),
)

/** Returns the function that prepares one message. It never fails. */
export const makePrepare: Effect.Effect<
  (message: Message) => Effect.Effect<Preparation>,
  never,
  PayloadEncryption
> = Effect.map(PayloadEncryption, (encryption) => ({ accepted, id, key }: Message) => {
  if (accepted === null) return Effect.succeed<Preparation>({ type: 'retryLater', afterMs: 0 })
  return encryption.decrypt(accepted.sealingKey, accepted.messageId, accepted.sealed).pipe(
    Effect.flatMap((plain) => {
      if (plain === null) return Effect.succeed<Preparation>({ type: 'impossible' })
      const payload = decodePayload(plain.toString('utf8'))
      if (Result.isFailure(payload)) return Effect.fail(new DecryptionFailed({ purpose: 'payload' }))
      const { text, to } = payload.success
      return Effect.succeed<Preparation>({
        type: 'prepared',
        submission: {
          request: {
            reference: id,
            recipient: key,
            to,
            text,
            sender: accepted.sender,
            parts: accepted.parts,
            encoding: encodingOf(text),
            urgent: accepted.class === 'otp',
          },
          acceptedAt: accepted.at,
          expiresAt: accepted.expiresAt,
          mode: accepted.mode,
        },
      })
    }),
    Effect.catch((error) => {
      if (error._tag === 'StorageUnavailable') {
        return Effect.succeed<Preparation>({ type: 'retryLater', afterMs: STORAGE_PAUSE_MS })
      }
      // The payload was not encrypted by this hub, so the message was never handed over.
      return Effect.logError(
        'dispatcher: a payload cannot be decrypted; the message expires without a handover',
        error,
      ).pipe(
        Effect.annotateLogs({ message_id: id, sealing_key: accepted.sealingKey }),
        Effect.as<Preparation>({ type: 'impossible' }),
      )
    }),
  )
})
