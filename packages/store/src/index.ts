/** PostgreSQL: pool, migrations, outbox, and what is encrypted at rest. */
export { migrate, MigrationMismatch } from './migrate.ts'
export { type OutboxTable, relayOutbox, waitingInOutbox } from './outbox.ts'
export { type SealedPurpose, Sealing, type SealingKey } from './sealing.ts'
export {
  makeSql,
  type Queries,
  Sql,
  type SqlShape,
  type StorageError,
  StorageRejected,
  StorageUnavailable,
} from './sql.ts'
export { type BoxColumn, resealBoxes, type Resealed } from './resealing.ts'
export { BoxUnreadable, masterKeyConfig, previousMasterKeysConfig, type Purpose, Vault } from './vault.ts'
