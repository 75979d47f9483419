/**
 * Asks the read model about what the shards have forgotten: whether an old message was handed over
 * before, and to which message a parked report belongs.
 */
import { Effect } from 'effect'
import type { DispatcherShard } from '../shard/dispatcher-shard.ts'
import { KnownMessages } from './known-messages.port.ts'

/** Questions of one shard at once: a full buffer after a backlog, in one query by primary key. */
const LOOKUPS = 2000

/** Returns one round of lookups over all shards. A failed round is repeated later. */
export const makeLookUp = (options: {
  readonly shards: () => ReadonlyArray<DispatcherShard>
  readonly apply: (change: () => void) => void
}): Effect.Effect<Effect.Effect<void>, never, KnownMessages> =>
  Effect.map(KnownMessages, (known) => {
    const messages = Effect.suspend(() => {
      const questions = options
        .shards()
        .flatMap((shard) => shard.messages.messagesToLookUp(LOOKUPS).map((message) => ({ message, shard })))
      if (questions.length === 0) return Effect.void
      const asked = questions.map(({ message, shard }) => ({
        id: message.id,
        shard: shard.handle.shard,
        lane: message.lane,
        laneOffset: message.lookupAfter?.lane ?? 0,
        logOffset: message.lookupAfter?.log ?? 0,
      }))
      return Effect.map(known.handedOver(asked), (answers) =>
        options.apply(() => {
          for (const [i, { message, shard }] of questions.entries()) {
            const answer = answers[i] ?? null
            if (answer !== null && shard.handle.isCurrent()) shard.lookedUp(message, answer)
          }
        }),
      )
    })

    const reports = Effect.suspend(() => {
      const questions = options
        .shards()
        .flatMap((shard) => shard.reportsToLookUp(LOOKUPS).map((parked) => ({ parked, shard })))
      if (questions.length === 0) return Effect.void
      const asked = questions.map(({ parked, shard }) => ({
        ...parked.report,
        shard: shard.handle.shard,
        logOffset: parked.logOffset,
      }))
      return Effect.map(known.reportedOn(asked), (answers) =>
        options.apply(() => {
          for (const [i, { parked, shard }] of questions.entries()) {
            const answer = answers[i] ?? null
            if (answer === null || !shard.handle.isCurrent()) continue
            shard.reportLookedUp(parked, answer === 'nobody' ? null : answer)
          }
        }),
      )
    })

    return Effect.andThen(messages, reports).pipe(
      Effect.catch((error) => Effect.logDebug('dispatcher: the read model did not answer; retrying', error)),
    )
  })
