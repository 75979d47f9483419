/** Decrypts the payload of a message, and builds the submit request for the operator. */
import { encodingOf } from '@hub/domain'
import { decodePayload, DecryptionFailed, PayloadEncryption } from '@hub/store'
import { Clock, Effect } from 'effect'
import type { Message, Preparation } from './message.ts'
import { KEY_PAUSE_MS, type UnusableKeys } from './unusable-keys.ts'

/** The pause before the next try to fetch a payload key. */
const STORAGE_PAUSE_MS = 500

/** Returns the function that prepares one message. It never fails. */
export const makePrepare = (
  unusableKeys: UnusableKeys,
): Effect.Effect<(message: Message) => Effect.Effect<Preparation>, never, PayloadEncryption> =>
  Effect.map(PayloadEncryption, (encryption) => ({ id, key, laneRecord }: Message) => {
    if (laneRecord === null) return Effect.succeed<Preparation>({ type: 'retryLater', afterMs: 0 })
    return encryption.decrypt(laneRecord.payloadKey, laneRecord.messageId, laneRecord.ciphertext).pipe(
      Effect.flatMap((plain) => {
        unusableKeys.used(laneRecord.payloadKey)
        if (plain === null) return Effect.succeed<Preparation>({ type: 'destroyed' })
        const payload = decodePayload(plain)
        if (payload?.text === undefined) {
          return Effect.fail(new DecryptionFailed({ purpose: 'payload', reason: 'damaged' }))
        }
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
      Effect.catchTags({
        PayloadKeyUnusable: ({ keyId, reason }) =>
          Effect.gen(function* () {
            if (unusableKeys.failed(keyId, reason, yield* Clock.currentTimeMillis)) {
              yield* Effect.annotateLogs(
                Effect.logError(
                  reason === 'unknown_master_key'
                    ? 'dispatcher: this process does not have the master key of a payload key; its messages wait. Check HUB_MASTER_KEY, HUB_PREVIOUS_MASTER_KEYS and the settings HUB_TRANSIT_…'
                    : 'dispatcher: a payload key cannot be used; its messages wait until their lifetime ends',
                ),
                { payload_key: keyId, reason },
              )
            }
            return { type: 'retryLater', afterMs: KEY_PAUSE_MS } satisfies Preparation
          }),
        DecryptionFailed: () => Effect.succeed<Preparation>({ type: 'damaged' }),
        StorageUnavailable: () =>
          Effect.succeed<Preparation>({ type: 'retryLater', afterMs: STORAGE_PAUSE_MS }),
        // PostgreSQL rejects no look-up of a key. If it ever does, the message waits, too.
        StorageRejected: () => Effect.succeed<Preparation>({ type: 'retryLater', afterMs: KEY_PAUSE_MS }),
      }),
    )
  })
