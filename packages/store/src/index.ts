/** PostgreSQL: connections, migrations, tables, outbox, encryption, retention, erasure, restore. */
export { eraseRecipient, type Erasure, readErasures, recipientOfErasure } from './erasure/erasure.ts'
export {
  confirmErasure,
  type ErasureConfirmationRefused,
  type ErasureRequest,
  readErasureRequests,
  requestErasure,
} from './erasure/erasure-requests.ts'
export {
  CONFIRMED_WITHIN_SECONDS,
  confirmationRefusal,
  type ConfirmationRefused,
  type Person,
} from './second-person.ts'
export {
  keepErasuresPublished,
  missingErasures,
  oldestUnpublishedErasure,
  publishErasures,
  restoreErasures,
  watchErasures,
} from './erasure/published-erasures.ts'
export { type InboundMessage, readInboundMessages, storedInboundContext } from './inbound-messages.ts'
export {
  acceptKafka,
  connectedDatabase,
  connectedKafka,
  findMismatches,
  type HubProof,
  type BeforeKafka,
  makeHubProof,
  NotOfThisHub,
  ownIdentity,
  recordDatabase,
  retireOtherMasterKeys,
} from './identity/proof.ts'
export type { KafkaIdentity, Mismatch } from './identity/judge.ts'
export { CLOCK_TOLERANCE_MS, databaseClock } from './clock.ts'
export {
  DecryptionFailed,
  type EncryptionPurpose,
  PAYLOAD_KEY_PROBLEMS,
  type PayloadKeyProblem,
  PayloadKeyUnusable,
  type RecordedKey,
} from './key-providers/key-provider.port.ts'
export { MasterKeyEncryption } from './master-key-encryption.ts'
export { examinePayloadKeys } from './message-keys.ts'
export { decodePayload, encodePayload, type MessagePayload } from './message-payload.ts'
export { migrate, MigrationMismatch, type MigrationStatus, migrationStatus } from './migrate.ts'
export { storageCrashPoint, transactionCrashPoint } from './crash-points.ts'
export { publishInTransaction, readWaitingRows } from './outbox.ts'
export {
  PayloadEncryption,
  type PayloadKey,
  type PayloadKeyPurpose,
  RECIPIENT_SHARES,
  recipientShareOf,
} from './payload-encryption.ts'
export {
  cancelRebuild,
  readRebuild,
  readRebuilds,
  type Rebuild,
  type RebuildComparison,
  type RebuildDifference,
  RebuildInProgress,
  type RebuildOutcome,
  type RebuildPolicy,
  type RebuildState,
  requestRebuild,
} from './rebuild.ts'
export { ENCRYPTED_COLUMNS, type EncryptedColumn, reencryptColumn } from './re-encryption.ts'
export { restoreEvents, restoreLedger } from './restore.ts'
export { RETENTION_JOBS } from './retention/jobs.ts'
export { answerContext, inboundContext, reportContext } from './operator-payload.ts'
export { ACCEPTANCE_AFTER_ID_MS, operatorIdsCutoff } from './retention/periods.ts'
export { registerRetentionJobs, runRetention, runRetentionStep } from './retention/runner.ts'
export { sqlArray, sqlBytesArray } from './sql-array.ts'
export {
  selectList,
  DEADLINE_OF_STAFF,
  makeSql,
  type Queries,
  Sql,
  type SqlFragment,
  type SqlShape,
  type StorageError,
  StorageRejected,
  StorageUnavailable,
} from './sql.ts'
export * from './tables/index.ts'
export { NIL_UUID, timeOfUuid, uuidFloor, uuidOf } from './uuid.ts'
