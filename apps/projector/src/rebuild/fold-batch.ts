/**
 * A portion of the log, folded into the tables beside the live ones: the fold, the statements and the order of tables are those of the live
 * projection. No event is made of it, nothing is given back and nobody is told.
 */
import type { MessageAccepted, MessageFact } from '@hub/domain'
import type { BatchSealed } from '@hub/kafka'
import { type Queries, ReadCheckpoints, Sql, type StorageError, uuidOf } from '@hub/store'
import { Effect } from 'effect'
import { type Changes, fold } from '../messages/fold.ts'
import type { Advance } from '../projection/transaction.ts'
import {
  lockCheckpoints,
  moveCheckpoints,
  readMessages,
  writeAccepted,
  writeHistory,
  writeOperatorIds,
  writePersonalData,
  writeUnaccepted,
  writeUpdated,
} from '../tables/all.ts'
import { mayClose } from '../aggregates/aggregate-events.ts'
import { appendCharges, closeBatches, writeBatches, writeStats } from '../tables/aggregates.ts'
import type { PersonalBox } from '../messages/personal-data.ts'
import { type Held, hold } from '../tables/rebuilds.ts'
import { type Bounds, isFrom } from './horizon.ts'

/** A portion of records that has been read. */
export interface Portion {
  readonly advances: ReadonlyArray<Advance>
  readonly facts: ReadonlyArray<MessageFact>
  readonly seals: ReadonlyArray<BatchSealed>
  /** Number of records. */
  readonly records: number
}

/** A portion takes some hundred milliseconds; this is for a database under stress. */
const DEADLINE_MS = 8000

/** Leaves out what is carried over from the live tables. */
const within = (changes: Changes, bounds: Bounds): Changes => ({
  ...changes,
  operatorIds: changes.operatorIds.filter(({ messageId }) => isFrom(bounds.operatorIds, 'msg', messageId)),
  batches: changes.batches.filter(({ batch }) => isFrom(bounds.batches, 'bat', batch)),
  stats: changes.stats.filter(({ day }) => day >= bounds.day),
})

const write = (q: Queries, changes: Changes, seals: ReadonlyArray<BatchSealed>) => [
  ...(changes.accepted.length > 0 ? [writeAccepted(q, changes.accepted, 'rebuild')] : []),
  ...(changes.updated.length > 0 ? [writeUpdated(q, changes.updated, 'rebuild')] : []),
  ...(changes.unaccepted.length > 0 ? [writeUnaccepted(q, changes.unaccepted, 'rebuild')] : []),
  ...(changes.history.length > 0 ? [writeHistory(q, changes.history, 'rebuild')] : []),
  ...(changes.operatorIds.length > 0 ? [writeOperatorIds(q, changes.operatorIds, 'rebuild')] : []),
  ...(changes.batches.length > 0 || seals.length > 0
    ? [writeBatches(q, changes.batches, seals, 'rebuild')]
    : []),
  ...(changes.stats.length > 0 ? [writeStats(q, changes.stats, 'rebuild')] : []),
  ...(changes.charges.length > 0 ? [appendCharges(q, changes.charges, 'rebuild')] : []),
]

/** `lost`: the rebuild is somebody else's by now, or has ended. `moved`: the positions are not those that were read from. Both change nothing. */
export type Folded = 'folded' | 'lost' | 'moved'

/** Folds a portion. */
export const foldPortion = (
  held: Held,
  bounds: Bounds,
  portion: Portion,
): Effect.Effect<Folded, StorageError, Sql> =>
  Effect.flatMap(Sql, (sql) =>
    sql.transaction<Folded>(
      async (q) => {
        const { advances, records } = portion
        const facts = portion.facts.filter(({ messageId }) => isFrom(bounds.rows, 'msg', messageId))
        const seals = portion.seals.filter(({ batch }) => isFrom(bounds.batches, 'bat', batch))
        const messageIds = [...new Set(facts.map(({ messageId }) => messageId))]
        if (!(await hold(q, held, { records }))) return 'lost'
        const [stored, rows] = await Promise.all([
          lockCheckpoints(
            q,
            ReadCheckpoints.PROJECTION,
            advances.map(({ claim }) => claim),
            'rebuild',
          ),
          messageIds.length === 0 ? new Map() : readMessages(q, messageIds, 'rebuild'),
        ])
        const areAt = (position: (advance: Advance) => number) =>
          advances.every((advance) =>
            stored.some(
              (one) =>
                one.topic === advance.claim.topic &&
                one.partition === advance.claim.partition &&
                one.position === position(advance),
            ),
          )
        // An attempt before this one, whose outcome was not known, may have been committed.
        if (areAt(({ to }) => to)) return 'folded'
        if (!areAt(({ claim }) => claim.position)) return 'moved'
        const changes = within(fold(rows, facts), bounds)
        const candidates = mayClose(changes.batches, seals)
        await Promise.all([
          moveCheckpoints(
            q,
            ReadCheckpoints.PROJECTION,
            advances.map(({ claim, fence, to }) => ({
              topic: claim.topic,
              partition: claim.partition,
              position: to,
              fence,
            })),
            'rebuild',
          ),
          ...write(q, changes, seals),
        ])
        if (candidates.length > 0) {
          await closeBatches(
            q,
            candidates.map(({ batch }) => batch),
            'rebuild',
          )
        }
        return 'folded'
      },
      { deadline: DEADLINE_MS },
    ),
  )

/** Those of the messages whose number and text are not stored. */
export const withoutPersonalData = async (
  q: Queries,
  facts: ReadonlyArray<MessageAccepted>,
): Promise<ReadonlyArray<MessageAccepted>> => {
  const ids = facts.map(({ messageId }) => uuidOf('msg', messageId))
  const rows = await q<{ id: string }[]>`
    SELECT w.id FROM unnest(${ids}::uuid[]) AS w (id)
      LEFT JOIN LATERAL (SELECT 1 AS one FROM read.personal_data WHERE message_id = w.id LIMIT 1) AS p ON true
     WHERE p.one IS NULL`
  const missing = new Set(rows.map(({ id }) => id))
  return facts.filter((_, index) => missing.has(ids[index] ?? ''))
}

/**
 * Stores numbers and texts that are missing from their one home, which is never rebuilt: the log can tell them for two days only. Through the
 * statement of the live projection, so that nobody who was forgotten comes back (docs/decisions/0019).
 */
export const restorePersonalData = (
  held: Held,
  facts: ReadonlyArray<MessageAccepted>,
  boxes: ReadonlyMap<string, PersonalBox>,
): Effect.Effect<'restored' | 'lost', StorageError, Sql> =>
  Effect.flatMap(Sql, (sql) =>
    sql.transaction(async (q) => {
      const rows = facts.flatMap((fact) => {
        const box = boxes.get(fact.messageId)
        return box === undefined ? [] : [{ fact, box }]
      })
      if (rows.length === 0) return 'restored'
      if (!(await hold(q, held))) return 'lost'
      const { count } = await writePersonalData(q, rows)
      await hold(q, held, { restored: count })
      return 'restored'
    }),
  )
