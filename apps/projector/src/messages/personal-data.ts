/**
 * From the sealed payload of the log to the one home of personal data: number, and for class service text and
 * variables, sealed under the key of the day of acceptance, which is destroyed when that is a year ago (docs/decisions/0018). An otp's
 * text is never stored.
 */
import type { MessageAccepted } from '@hub/domain'
import { PayloadEncryption, type StorageError } from '@hub/store'
import { Effect } from 'effect'
import { unreadablePayloads } from '../metrics.ts'

interface Payload {
  readonly to: string
  readonly text?: string
  readonly variables?: object
}

/** `null` where it is not what a payload is. By hand: a schema took as long as opening it. */
const payloadIn = (plain: Buffer): Payload | null => {
  let found: unknown
  try {
    found = JSON.parse(plain.toString('utf8'))
  } catch {
    return null
  }
  if (typeof found !== 'object' || found === null) return null
  const { text, to, variables } = found as Readonly<Record<string, unknown>>
  if (typeof to !== 'string') return null
  if (text !== undefined && typeof text !== 'string') return null
  if (
    variables !== undefined &&
    (typeof variables !== 'object' || variables === null || Array.isArray(variables))
  ) {
    return null
  }
  return found as Payload
}

/** What is stored of a message's number and text. */
export interface PersonalBox {
  /** Id of the key that opens it. */
  readonly sealingKey: string
  readonly sealed: Buffer
}

/** Keys known to be destroyed; a destroyed key never comes back. So many are more than a year of hours. */
const REMEMBERED = 10_000

/**
 * Opens payloads and boxes them for storage. One per process: it remembers which keys are destroyed, so that a replay
 * of old acceptances does not ask PostgreSQL for each of them.
 */
export const makePersonalData = Effect.gen(function* () {
  const payloadEncryption = yield* PayloadEncryption
  const destroyed = new Set<string>()

  const box = Effect.fnUntraced(
    function* (fact: MessageAccepted) {
      const plain = yield* payloadEncryption.decrypt(fact.sealingKey, fact.messageId, fact.sealed)
      if (plain === null) {
        if (destroyed.size < REMEMBERED) destroyed.add(fact.sealingKey)
        return null
      }
      const payload = payloadIn(plain)
      if (payload === null) return yield* Effect.as(unreadable(fact), null)
      const { to, text, variables } = payload
      const kept = fact.class === 'otp' ? { to } : { to, text, variables }
      const key = yield* payloadEncryption.keyOfDay(fact.at)
      return key === null
        ? null
        : { sealingKey: key.id, sealed: key.encrypt(fact.messageId, Buffer.from(JSON.stringify(kept))) }
    },
    (effect, fact) => Effect.catchTag(effect, 'DecryptionFailed', () => Effect.as(unreadable(fact), null)),
  )

  /**
   * The boxes to store, by message id. A message whose key is destroyed, or whose payload does not open, has none and
   * goes on without: its status is still owed to the client.
   */
  const boxesOf = Effect.fnUntraced(function* (
    facts: ReadonlyArray<MessageAccepted>,
  ): Effect.fn.Return<ReadonlyMap<string, PersonalBox>, StorageError> {
    const boxes = new Map<string, PersonalBox>()
    for (const fact of facts) {
      if (boxes.has(fact.messageId) || destroyed.has(fact.sealingKey)) continue
      const boxed = yield* box(fact)
      if (boxed !== null) boxes.set(fact.messageId, boxed)
    }
    return boxes
  })
  return { boxesOf }
})

const unreadable = Effect.fnUntraced(function* (fact: MessageAccepted) {
  yield* unreadablePayloads.add(1)
  yield* Effect.logWarning('a payload does not open; the message is shown without number and text').pipe(
    Effect.annotateLogs({ message_id: fact.messageId, sealing_key: fact.sealingKey }),
  )
})
