/**
 * Asks the read model about what the shards have forgotten: whether an old message was submitted
 * before, and to which message a parked report belongs.
 */
import { storageCrashPoint, type StorageError } from '@hub/store'
import { Effect } from 'effect'
import type { ShardRuntime } from '../shard/shard-runtime.ts'
import { DispatcherStore } from '../store/store.port.ts'

/** Questions of one shard at once: a full buffer after a backlog, in one query by primary key. */
const LOOKUPS = 2000

const atMessagesLookedUp = storageCrashPoint(
  'dispatcher.messages-looked-up',
  (answers: ReadonlyArray<boolean | null>) => answers.some((answer) => answer !== null),
)

/** Returns one round of lookups over all shards. A failed round is repeated later. */
export const makeLookUp = (options: {
  readonly shards: () => ReadonlyArray<ShardRuntime>
  readonly apply: (change: () => void) => void
}): Effect.Effect<Effect.Effect<void>, never, DispatcherStore> =>
  Effect.map(DispatcherStore, (store) => {
    /** Asks about the items of all shards. An item with the answer `null` is asked about again. */
    const ask = <Item, Question, Answer>(
      itemsOf: (shard: ShardRuntime) => ReadonlyArray<Item>,
      questionOf: (item: Item, shard: number) => Question,
      answersTo: (questions: ReadonlyArray<Question>) => Effect.Effect<ReadonlyArray<Answer>, StorageError>,
      onAnswer: (shard: ShardRuntime, item: Item, answer: NonNullable<Answer>) => void,
    ) =>
      Effect.suspend(() => {
        const asked = options.shards().flatMap((shard) => itemsOf(shard).map((item) => ({ item, shard })))
        if (asked.length === 0) return Effect.void
        const questions = asked.map(({ item, shard }) => questionOf(item, shard.handle.shard))
        return Effect.map(answersTo(questions), (answers) =>
          options.apply(() => {
            for (const [i, { item, shard }] of asked.entries()) {
              const answer = answers[i] ?? null
              if (answer !== null && shard.handle.isCurrent()) onAnswer(shard, item, answer)
            }
          }),
        )
      })

    const messages = ask(
      (shard) => shard.messages.messagesToLookUp(LOOKUPS),
      ({ id, lane, lookupAfter }, shard) => {
        const after = lookupAfter ?? { lane: 0, log: 0 }
        return { id, shard, lane, laneOffset: after.lane, logOffset: after.log }
      },
      (questions) => atMessagesLookedUp(store.sentOrFinal(questions)),
      (shard, message, sentOrFinal) => shard.run({ type: 'messageLookedUp', message, sentOrFinal }),
    )
    const reports = ask(
      (shard) => shard.reportsToLookUp(LOOKUPS),
      ({ logOffset, report }, shard) => ({ ...report, shard, logOffset }),
      store.reportedOn,
      (shard, parked, answer) =>
        shard.run({ type: 'reportLookedUp', parked, known: answer === 'notFound' ? null : answer }),
    )

    return Effect.andThen(messages, reports).pipe(
      Effect.catch((error) => Effect.logDebug('dispatcher: the read model did not answer; retrying', error)),
    )
  })
