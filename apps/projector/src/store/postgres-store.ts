/** The projection's store on PostgreSQL: composes the statements of the tables. */
import {
  CommandSpendPeriods,
  publishInTransaction,
  type Queries,
  Sql,
  storageCrashPoint,
  transactionCrashPoint,
} from '@hub/store'
import { Effect, Layer } from 'effect'
import { isInboxFilled, takeFromInbox } from '../events/event-inbox.ts'
import { findRecordedEvents, lockJournalHeads } from '../events/journal-tables.ts'
import { hasOptOutEvents, takeOptOutEvents } from '../events/opt-out-events.ts'
import { takeSpendThresholds } from '../events/spend-thresholds.ts'
import { recordEvents, writeJournal } from '../events/write-journal.ts'
import { closeBatches } from '../tables/batches.ts'
import { acquireCheckpoints } from '../tables/checkpoints.ts'
import { insertOutcomesDue, nextOutcomesDue } from '../tables/outcomes-due.ts'
import { readOutcomes } from '../tables/outcomes.ts'
import { lockAndRead, writeCharges, writeMessages, writePersonal, writeSums } from './batch-statements.ts'
import {
  type EventSourceName,
  ProjectionStore,
  type ProjectionStoreShape,
  type TakenEntries,
  type TakenEvents,
  type TransactionOutcome,
} from './projection-store.port.ts'

/**
 * The deadline of a transaction: tens of milliseconds, more under stress, and less than the ten
 * seconds in which a process must end.
 */
const DEADLINE = { deadline: '5 seconds' } as const

const atPartitionsAcquired = storageCrashPoint('projector.partitions-acquired')
const atRowsWritten = transactionCrashPoint('projector.rows-written')
const atCommitted = storageCrashPoint(
  'projector.committed',
  ({ kind }: TransactionOutcome) => kind === 'applied',
)
const atEventSourceCommitted = storageCrashPoint(
  'projector.event-source-committed',
  ({ publication }: TakenEvents) => publication !== null,
)
const atOutcomesRemoved = storageCrashPoint('projector.outcomes-removed', (count: number) => count > 0)

const SOURCES: Readonly<Record<EventSourceName, (q: Queries) => Promise<TakenEntries>>> = {
  'event inbox': takeFromInbox,
  'opt-out events': takeOptOutEvents,
  'spend thresholds': takeSpendThresholds,
}

/** Whether a source that is often polled has entries. It needs one round trip, a transaction three. */
const HAS_ENTRIES: Readonly<Partial<Record<EventSourceName, (q: Queries) => Promise<boolean>>>> = {
  'event inbox': isInboxFilled,
  'opt-out events': hasOptOutEvents,
}

const makePostgresStore = Effect.gen(function* () {
  const sql = yield* Sql

  return {
    acquire: (partitions) => atPartitionsAcquired(sql.run((q) => acquireCheckpoints(q, partitions))),

    // Three round trips: lock and read; write rows and lock the journal heads; write events.
    apply: (transaction) =>
      atCommitted(
        sql.transaction<TransactionOutcome>(async (q) => {
          const decided = transaction.decide(await lockAndRead(q, transaction))
          if (typeof decided === 'string') return { kind: decided }
          const { candidates, changes, checkpoints, outcomesDue, periods, personalData, recording, seals } =
            decided
          // A connection executes statements in the order of their start. Shared rows, the journal
          // heads most of all, must be locked for as short a time as possible.
          const writes = [
            ...writeMessages(q, checkpoints, changes),
            ...writePersonal(q, changes, personalData),
            ...(outcomesDue.length > 0 ? [insertOutcomesDue(q, outcomesDue)] : []),
            ...writeSums(q, changes, seals),
            ...writeCharges(q, changes),
          ].map((statement) => statement.execute())
          if (recording === null) {
            await Promise.all(writes)
            return { kind: 'applied', events: 0, publication: null }
          }
          const [closed, crossed, heads, recorded] = await Promise.all([
            candidates.length === 0 ? [] : closeBatches(q, candidates),
            periods.length === 0 ? [] : CommandSpendPeriods.markCrossedThresholds(q, periods),
            lockJournalHeads(q, recording.journals),
            findRecordedEvents(q, recording.eventIds, recording.since),
            Promise.all(writes),
          ])
          const recordedNow = await writeJournal(q, recording.write({ heads, recorded, closed, crossed }))
          atRowsWritten()
          return { kind: 'applied', ...recordedNow }
        }, DEADLINE),
      ),

    takeEvents: (source, recordingOf) =>
      Effect.gen(function* () {
        const hasEntries = HAS_ENTRIES[source]
        if (hasEntries !== undefined && !(yield* sql.run(hasEntries)))
          return { isFull: false, events: 0, publication: null }
        const taken = sql.transaction(async (q) => {
          const { entries, isFull } = await SOURCES[source](q)
          if (entries.length === 0) return { isFull, events: 0, publication: null }
          return { isFull, ...(await recordEvents(q, recordingOf(entries))) }
        }, DEADLINE)
        return yield* atEventSourceCommitted(taken)
      }),

    publishOutcomes: (publish) =>
      publishInTransaction(
        'read.outcomes_due',
        async (q) => {
          const due = await nextOutcomesDue(q)
          if (due === null) return null
          const content = due.messageIds.length === 0 ? [] : await readOutcomes(q, due.messageIds)
          return { content, count: 1, done: due.remove }
        },
        publish,
      ).pipe(atOutcomesRemoved, Effect.provideService(Sql, sql)),
  } satisfies ProjectionStoreShape
})

export const layerPostgresStore: Layer.Layer<ProjectionStore, never, Sql> = Layer.effect(
  ProjectionStore,
  makePostgresStore,
)
