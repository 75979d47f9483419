/**
 * Applies what recipients have written to their opt-outs: the oldest waiting messages of each shard, in order. What cannot be applied now
 * stays where it is, and holds the mark of the reports; nothing later of its shard overtakes it.
 */
import { optOutWordOf, type OptOutVocabulary } from '@hub/domain'
import { PayloadEncryption, type StorageError } from '@hub/store'
import { Effect } from 'effect'
import type { Metrics } from '../metrics.ts'
import type { DispatcherShard } from '../shard/dispatcher-shard.ts'
import { OptOuts, type RecipientWord } from './opt-outs.port.ts'
import { decodeInbound, inboundSeal } from './payload.ts'
import type { WaitingInbound } from './inbound-queue.ts'

/** Of one shard at once: one transaction, and a few milliseconds of opening boxes. */
const AT_ONCE = 100

/** What an inbound message turned out to be. */
type Reading =
  | { readonly is: 'word'; readonly word: RecipientWord }
  /** None of the words; or its key is gone, after ninety days. */
  | { readonly is: 'other' }
  | { readonly is: 'unreadable' }

export interface ApplyInboundOptions {
  readonly vocabulary: OptOutVocabulary
  readonly shards: () => ReadonlyArray<DispatcherShard>
  readonly metrics: Metrics
}

/** One round over all shards; succeeds with how many messages were dealt with. */
export const makeApplyInbound = (
  options: ApplyInboundOptions,
): Effect.Effect<Effect.Effect<number, StorageError>, never, OptOuts | PayloadEncryption> =>
  Effect.gen(function* () {
    const payloadEncryption = yield* PayloadEncryption
    const optOuts = yield* OptOuts
    const { metrics, vocabulary } = options

    const read = ({ message, record }: WaitingInbound): Effect.Effect<Reading, StorageError> =>
      payloadEncryption.decrypt(message.sealingKey, inboundSeal(message), message.sealed).pipe(
        Effect.map((plain): Reading => {
          if (plain === null) return { is: 'other' }
          const payload = decodeInbound(plain)
          if (payload === null) return { is: 'unreadable' }
          const word = optOutWordOf(vocabulary, payload.text)
          if (word === null) return { is: 'other' }
          return {
            is: 'word',
            word: {
              word,
              id: record.id,
              position: record.offset,
              receivedAt: message.receivedAt,
              recipient: message.recipient,
            },
          }
        }),
        Effect.catchTag('DecryptionFailed', () => Effect.succeed<Reading>({ is: 'unreadable' })),
      )

    const applyShard = Effect.fnUntraced(function* (shard: DispatcherShard) {
      const waiting = shard.inbound.first(AT_ONCE)
      if (waiting.length === 0) return 0
      const readings = yield* Effect.forEach(waiting, read)
      if (!shard.handle.isCurrent()) return 0
      const words = readings.flatMap((reading) => (reading.is === 'word' ? [reading.word] : []))
      for (const change of yield* optOuts.apply(words)) metrics.inbound(change)
      if (!shard.handle.isCurrent()) return 0
      for (const [i, { record }] of waiting.entries()) {
        const reading = readings[i]
        if (reading?.is === 'unreadable') {
          shard.deadLetterInbound(record)
          continue
        }
        if (reading?.is === 'other') metrics.inbound('other')
        shard.inbound.done(record.offset)
      }
      return waiting.length
    })

    return Effect.suspend(() => Effect.forEach(options.shards(), applyShard)).pipe(
      Effect.map((counts) => counts.reduce((sum, count) => sum + count, 0)),
    )
  })
