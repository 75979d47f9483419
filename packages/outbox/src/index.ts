/** Outboxes: records that are written with a change in PostgreSQL, and appended to Kafka in order. */
export { makeOutbox, Outbox } from './outbox.ts'
export { layerPostgresStore } from './postgres-store.ts'
export { compressRow, decodeRow, deleteOutboxRows, insertOutboxRow, type OutboxTable } from './rows.ts'
export { OutboxStore, type OutboxStatus, type OutboxStoreShape, type RelayedRows } from './store.port.ts'
