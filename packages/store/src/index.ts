/** PostgreSQL: pool, migrations, outbox, what is encrypted at rest, and how long it is kept. */
export { eraseRecipient, type Erasure, readErasures } from './erasure/index.ts'
export {
  insertAccount,
  insertApiKey,
  insertSender,
  insertTemplate,
  type NewApiKey,
  type StoredSender,
  type StoredTemplate,
  TEMPLATE_SENDER_EXISTS,
} from './accounts/index.ts'
export { migrate, MigrationMismatch, type MigrationStatus, migrationStatus } from './migrate.ts'
export { type OutboxTable, relayOutbox, waitingInOutbox } from './outbox.ts'
export {
  cancelRebuild,
  readRebuild,
  readRebuilds,
  type Rebuild,
  type RebuildComparison,
  type RebuildDifference,
  type RebuildOutcome,
  type RebuildPolicy,
  type RebuildState,
  RebuildUnderWay,
  requestRebuild,
} from './rebuild.ts'
export { RECIPIENT_SHARES, type SealedPurpose, Sealing, type SealingKey, shareOf } from './sealing.ts'
export {
  makeSql,
  type Queries,
  Sql,
  type SqlFragment,
  type SqlShape,
  type StorageError,
  StorageRejected,
  StorageUnavailable,
} from './sql.ts'
export { sqlArray, sqlBytesArray } from './sql-array.ts'
export { uuidOf } from './uuid.ts'
export { type BoxColumn, resealBoxes, type Resealed } from './resealing.ts'
export {
  ACCEPTED_LATER,
  enlistJobs,
  type Job,
  JOBS,
  operatorIdsSince,
  personalDataSince,
  recordsSince,
  type RetentionOutcome,
  retentionStep,
  runRetention,
  type Step,
} from './retention/index.ts'
export { BoxUnreadable, type Purpose, Vault } from './vault.ts'
export { type PublishedEvent, restoreEvents, restoreLedger } from './restore.ts'
export * from './tables/index.ts'
