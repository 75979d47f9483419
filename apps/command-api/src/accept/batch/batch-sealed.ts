/** The records `BatchSealed` of batches whose membership is complete. Pure. */
import { batchSealedRecord, type OutgoingRecord, type TopicNames } from '@hub/kafka'
import type { BatchRow } from '../ledger/ledger.port.ts'

/** The records `BatchSealed` of sealed rows. */
export const batchSealedRecords = (
  topics: TopicNames,
  rows: ReadonlyArray<BatchRow & { readonly sealedAt: number }>,
): ReadonlyArray<OutgoingRecord> =>
  rows.map(({ accepted, createdAt, duplicate, id, owner, rejected, sealedAt, total }) =>
    batchSealedRecord(topics, {
      type: 'BatchSealed',
      batch: id,
      account: owner.account,
      mode: owner.mode,
      total,
      accepted,
      duplicate,
      rejected,
      createdAt,
      at: sealedAt,
    }),
  )
