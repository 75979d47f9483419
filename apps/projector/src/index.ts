/** The parts of the projector that the simulation runs. */
export { decodeBatch } from './projection/decode.ts'
export { runOutcomes } from './outcomes/publish-outcomes.ts'
export { makeProjector } from './projection/projector.ts'
export { RecordBuffer, recordCount } from './projection/record-buffer.ts'
export { applyBatch, movePositions } from './projection/transaction.ts'
export { derivedColumns, type JournalEntry } from './messages/fold.ts'
export type { MessageRow } from './messages/row.ts'
export {
  type BatchTransaction,
  type Checkpoint,
  type JournalKey,
  partitionKey,
  ProjectionStore,
  type ProjectionStoreShape,
  type TopicPartition,
} from './store/projection-store.port.ts'
