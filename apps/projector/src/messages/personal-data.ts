/**
 * Re-encrypts the payload of an accepted message for `read.personal_data`: the number, and for
 * class `service` also text and variables. It uses the key of the day of acceptance, which is
 * destroyed after a year (docs/decisions/retention.md). The text of a one-time code is never stored.
 */
import type { MessageAccepted } from '@hub/domain'
import {
  decodePayload,
  encodePayload,
  PayloadEncryption,
  type StorageError,
  StorageUnavailable,
} from '@hub/store'
import { Effect } from 'effect'
import { unreadablePayloads } from '../metrics.ts'

/** The number and text of a message, as they are stored. */
export interface EncryptedPersonalData {
  /** Id of the payload key. */
  readonly keyId: string
  readonly ciphertext: Buffer
}

/** Keys to remember: more than the hourly keys of a year. None returns. */
const REMEMBERED_KEYS = 10_000

const reportUnreadable = Effect.fnUntraced(function* (fact: MessageAccepted) {
  unreadablePayloads.add()
  yield* Effect.logWarning(
    'projector: a payload cannot be decrypted, the message is shown without number and text',
  ).pipe(Effect.annotateLogs({ message_id: fact.messageId, payload_key: fact.payloadKey }))
})

/** Remembers destroyed and lost keys, so that a replay of old acceptances does not query each message. */
export const makePersonalData = Effect.gen(function* () {
  const payloadEncryption = yield* PayloadEncryption
  const goneKeys = new Set<string>()
  const remember = (key: string) => void (goneKeys.size < REMEMBERED_KEYS && goneKeys.add(key))

  const encryptOne = Effect.fnUntraced(
    function* (fact: MessageAccepted) {
      const plain = yield* payloadEncryption.decrypt(fact.payloadKey, fact.messageId, fact.ciphertext)
      if (plain === null) {
        remember(fact.payloadKey)
        return null
      }
      const payload = decodePayload(plain)
      if (payload === null) return yield* Effect.as(reportUnreadable(fact), null)
      const { to, text, variables } = payload
      const stored = fact.class === 'otp' ? { to } : { to, text, variables }
      const key = yield* payloadEncryption.keyOfDay(fact.at)
      return key === null
        ? null
        : { keyId: key.id, ciphertext: key.encrypt(fact.messageId, encodePayload(stored)) }
    },
    (effect, fact) =>
      Effect.catchTags(effect, {
        DecryptionFailed: () => Effect.as(reportUnreadable(fact), null),
        // With another master key the payload is readable. The number would be lost for ever, so the
        // records wait.
        PayloadKeyUnusable: ({ reason }) => {
          if (reason === 'unknown_master_key') {
            const detail = 'payload keys: unknown master key'
            return Effect.fail(new StorageUnavailable({ reason: 'failed', detail }))
          }
          if (reason === 'not_found') remember(fact.payloadKey)
          return Effect.as(reportUnreadable(fact), null)
        },
      }),
  )

  /**
   * Returns the data by message id. A message without a readable payload has none: the client still
   * gets its status.
   */
  const encrypt = Effect.fnUntraced(function* (
    facts: ReadonlyArray<MessageAccepted>,
  ): Effect.fn.Return<ReadonlyMap<string, EncryptedPersonalData>, StorageError> {
    const encrypted = new Map<string, EncryptedPersonalData>()
    for (const fact of facts) {
      if (encrypted.has(fact.messageId) || goneKeys.has(fact.payloadKey)) continue
      const data = yield* encryptOne(fact)
      if (data !== null) encrypted.set(fact.messageId, data)
    }
    return encrypted
  })
  return { encrypt }
})
