/**
 * Applies inbound messages to the opt-outs, in the order of each shard. A message that cannot be
 * applied now stays in the queue and pins its offset.
 */
import { optOutWordOf, type OptOutVocabulary } from '@hub/domain'
import { PayloadEncryption, type StorageError } from '@hub/store'
import { Effect } from 'effect'
import type { Metrics } from '../metrics.ts'
import type { DispatcherShard } from '../shard/dispatcher-shard.ts'
import { OptOuts, type RecipientWord } from './opt-outs.port.ts'
import { decodeInbound, inboundContext } from './payload.ts'
import type { WaitingInbound } from './inbound-queue.ts'

/** Messages of one shard in one round: one transaction, and a few milliseconds of decryption. */
const ROUND_SIZE = 100

type Content =
  | { readonly type: 'word'; readonly word: RecipientWord }
  /** No opt-out word, or the payload key is deleted (after ninety days). */
  | { readonly type: 'other' }
  | { readonly type: 'unreadable' }

interface ApplyInboundOptions {
  readonly vocabulary: OptOutVocabulary
  readonly shards: () => ReadonlyArray<DispatcherShard>
  readonly metrics: Metrics
}

/** Returns one round over all shards. It succeeds with the number of processed messages. */
export const makeApplyInbound = (
  options: ApplyInboundOptions,
): Effect.Effect<Effect.Effect<number, StorageError>, never, OptOuts | PayloadEncryption> =>
  Effect.gen(function* () {
    const payloadEncryption = yield* PayloadEncryption
    const optOuts = yield* OptOuts
    const { metrics, vocabulary } = options

    const read = ({ message, record }: WaitingInbound): Effect.Effect<Content, StorageError> =>
      payloadEncryption.decrypt(message.sealingKey, inboundContext(message), message.sealed).pipe(
        Effect.map((plain): Content => {
          if (plain === null) return { type: 'other' }
          const payload = decodeInbound(plain)
          if (payload === null) return { type: 'unreadable' }
          const word = optOutWordOf(vocabulary, payload.text)
          if (word === null) return { type: 'other' }
          return {
            type: 'word',
            word: {
              word,
              id: record.id,
              position: record.offset,
              receivedAt: message.receivedAt,
              recipient: message.recipient,
            },
          }
        }),
        Effect.catchTag('DecryptionFailed', () => Effect.succeed<Content>({ type: 'unreadable' })),
      )

    const applyShard = Effect.fnUntraced(function* (shard: DispatcherShard) {
      const waiting = shard.inbound.first(ROUND_SIZE)
      if (waiting.length === 0) return 0
      const contents = yield* Effect.forEach(waiting, read)
      if (!shard.handle.isCurrent()) return 0
      const words = contents.flatMap((content) => (content.type === 'word' ? [content.word] : []))
      for (const change of yield* optOuts.apply(words)) metrics.inbound(change)
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
