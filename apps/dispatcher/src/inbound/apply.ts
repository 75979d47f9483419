/**
 * Stores inbound messages, and applies them to the opt-outs, in the order of each shard. A message
 * that cannot be applied now stays in the queue and pins its offset.
 */
import { optOutWordOf, type OptOutVocabulary } from '@hub/domain'
import {
  type DecryptionFailed,
  encodePayload,
  inboundContext,
  PayloadEncryption,
  type PayloadKeyUnusable,
  storageCrashPoint,
  storedInboundContext,
  type StorageError,
} from '@hub/store'
import { Effect } from 'effect'
import type { Metrics } from '../metrics.ts'
import type { ShardRuntime } from '../shard/shard-runtime.ts'
import { DispatcherStore, type InboundRecord, type RecipientWord } from '../store/store.port.ts'
import { decodeInbound } from '../payload/report-payload.ts'
import type { WaitingInbound } from '../shard/inbound-queue.ts'

/** Messages of one shard in one round: one transaction, and a few milliseconds of decryption. */
const ROUND_SIZE = 100

const atInboundRecorded = storageCrashPoint('dispatcher.inbound-recorded')
const atOptOutsApplied = storageCrashPoint(
  'dispatcher.opt-outs-applied',
  (changes: ReadonlyArray<unknown>) => changes.length > 0,
)

/** Unreadable messages go to the dead-letter topic. The others have a record, with content if any. */
type Content = (
  | { readonly type: 'word'; readonly word: RecipientWord }
  /** No opt-out word, or the payload key is deleted (after ninety days). */
  | { readonly type: 'other' }
  | { readonly type: 'unreadable' }
) & { readonly stored: InboundRecord | null }

interface ApplyInboundOptions {
  readonly vocabulary: OptOutVocabulary
  readonly shards: () => ReadonlyArray<ShardRuntime>
  readonly metrics: Metrics
}

/** Returns one round over all shards. It succeeds with the number of processed messages. */
export const makeApplyInbound = (
  options: ApplyInboundOptions,
): Effect.Effect<
  Effect.Effect<number, StorageError | PayloadKeyUnusable>,
  never,
  DispatcherStore | PayloadEncryption
> =>
  Effect.gen(function* () {
    const payloadEncryption = yield* PayloadEncryption
    const store = yield* DispatcherStore
    const { metrics, vocabulary } = options

    const unreadable = { type: 'unreadable', stored: null } as const

    /** The record of a message, with number and text under the key of the day of receipt. */
    const toStore = Effect.fnUntraced(function* (
      { message, record }: WaitingInbound,
      payload: ReturnType<typeof decodeInbound>,
    ) {
      const { operator, receivedAt, recipient, serviceAddress } = message
      const stored = { id: record.id, recipient, operator, serviceAddress, receivedAt }
      const key = payload === null ? null : yield* payloadEncryption.keyOfDay(receivedAt)
      if (payload === null || key === null) return { ...stored, content: null }
      const ciphertext = key.encrypt(
        storedInboundContext(record.id),
        encodePayload({ to: payload.from, text: payload.text }),
      )
      return { ...stored, content: { keyId: key.id, ciphertext } }
    })

    const read = Effect.fnUntraced(
      function* (
        waiting: WaitingInbound,
      ): Effect.fn.Return<Content, StorageError | PayloadKeyUnusable | DecryptionFailed> {
        const { message, record } = waiting
        const plain = yield* payloadEncryption.decrypt(
          message.payloadKey,
          inboundContext(message),
          message.ciphertext,
        )
        const payload = plain === null ? null : decodeInbound(plain)
        if (plain !== null && payload === null) return unreadable
        const stored = yield* toStore(waiting, payload)
        const word = payload === null ? null : optOutWordOf(vocabulary, payload.text)
        if (word === null) return { type: 'other', stored }
        const { receivedAt, recipient } = message
        return {
          type: 'word',
          stored,
          word: { ...word, id: record.id, position: record.offset, receivedAt, recipient },
        }
      },
      Effect.catchTags({
        DecryptionFailed: () => Effect.succeed<Content>(unreadable),
        // With another master key the message is readable: it must wait, or an opt-out would be lost.
        PayloadKeyUnusable: (error) =>
          error.reason === 'unknown_master_key' ? Effect.fail(error) : Effect.succeed<Content>(unreadable),
      }),
    )

    const applyShard = Effect.fnUntraced(function* (shard: ShardRuntime) {
      const waiting = shard.inbound.first(ROUND_SIZE)
      if (waiting.length === 0) return 0
      const contents = yield* Effect.forEach(waiting, read)
      if (!shard.handle.isCurrent()) return 0
      yield* store
        .storeInbound(contents.flatMap(({ stored }) => (stored === null ? [] : [stored])))
        .pipe(atInboundRecorded)
      if (!shard.handle.isCurrent()) return 0
      const words = contents.flatMap((content) => (content.type === 'word' ? [content.word] : []))
      for (const change of yield* atOptOutsApplied(store.applyWords(words))) metrics.inbound(change)
      if (!shard.handle.isCurrent()) return 0
      for (const [i, { record }] of waiting.entries()) {
        const content = contents[i]
        if (content?.type === 'unreadable') {
          shard.deadLetterInbound(record)
          continue
        }
        if (content?.type === 'other') metrics.inbound('other')
        shard.inbound.done(record.offset)
      }
      return waiting.length
    })

    return Effect.suspend(() => Effect.forEach(options.shards(), applyShard)).pipe(
      Effect.map((counts) => counts.reduce((sum, count) => sum + count, 0)),
    )
  })
