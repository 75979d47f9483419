/** Decrypts the payload of a message, and builds the submit request for the operator. */
import { encodingOf } from '@hub/domain'
import { decodePayload, DecryptionFailed, PayloadEncryption } from '@hub/store'
import { Effect } from 'effect'
import type { Message, PreparedSubmission } from './message.ts'

export type Preparation =
  | { readonly type: 'prepared'; readonly submission: PreparedSubmission }
  | { readonly type: 'retryLater'; readonly afterMs: number }
  | { readonly type: 'impossible' }

/** The pause before the next try to fetch a payload key. */
const STORAGE_PAUSE_MS = 500

/** Returns the function that prepares one message. It never fails. */
export const makePrepare: Effect.Effect<
  (message: Message) => Effect.Effect<Preparation>,
  never,
  PayloadEncryption
> = Effect.map(PayloadEncryption, (encryption) => ({ id, key, laneRecord }: Message) => {
  if (laneRecord === null) return Effect.succeed<Preparation>({ type: 'retryLater', afterMs: 0 })
  return encryption.decrypt(laneRecord.sealingKey, laneRecord.messageId, laneRecord.sealed).pipe(
    Effect.flatMap((plain) => {
      if (plain === null) return Effect.succeed<Preparation>({ type: 'impossible' })
      const payload = decodePayload(plain)
      if (payload?.text === undefined) return Effect.fail(new DecryptionFailed({ purpose: 'payload' }))
      const { text, to } = payload
      return Effect.succeed<Preparation>({
        type: 'prepared',
        submission: {
          request: {
            reference: id,
            recipient: key,
            to,
            text,
            sender: laneRecord.sender,
            parts: laneRecord.parts,
            encoding: encodingOf(text),
            urgent: laneRecord.class === 'otp',
          },
          acceptedAt: laneRecord.at,
          expiresAt: laneRecord.expiresAt,
          mode: laneRecord.mode,
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
        Effect.annotateLogs({ message_id: id, sealing_key: laneRecord.sealingKey }),
        Effect.as<Preparation>({ type: 'impossible' }),
      )
    }),
  )
})
