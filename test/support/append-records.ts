/** Appends records to the topics of a running hub, as a foreign producer does. */
import { EventLog, layerEventLog, type OutgoingRecord, type Position } from '@hub/kafka'
import { Effect } from 'effect'
import type { TestHub } from './hub.ts'

/** The partition count of a local hub. */
export const PARTITIONS = 6
/** Only ends a wait that hangs. */
const WITHIN_MS = 90_000

/** Returns the position of each record. */
export const appendRecords = (
  hub: Pick<TestHub, 'describe'>,
  records: ReadonlyArray<OutgoingRecord>,
): Promise<ReadonlyArray<Position>> => {
  const connection = { brokers: hub.describe().kafka.brokers, clientId: 'foreign-producer' }
  return Effect.runPromise(
    Effect.flatMap(EventLog, (log) => log.append(records, { deadlineMs: WITHIN_MS })).pipe(
      Effect.provide(layerEventLog({ connection, partitions: PARTITIONS })),
      Effect.scoped,
    ),
  )
}
