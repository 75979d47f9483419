/**
 * The port of an outbox table. Adapters: `postgres-store.ts`, and doubles in memory. Their suite is
 * `store.contract.ts`. The transaction of a change inserts the row (`insertOutboxRow`).
 */
import type { OutgoingRecord } from '@hub/kafka'
import type { StorageError } from '@hub/store'
import { Context, type Effect } from 'effect'

/** Rows up to an id, and all rows of at least this age. */
export interface RelayedRows {
  readonly upTo: number
  readonly olderThanMs: number
}

export interface OutboxStatus {
  readonly rows: number
  /** Of the oldest row; 0 without rows. */
  readonly ageSeconds: number
  /** The highest row; 0 without rows. */
  readonly highest: number
  /** The number of rows up to the id. */
  readonly rowsUpTo: number
}

export interface OutboxStoreShape {
  /**
   * Publishes the oldest ones of these rows in order, and deletes them if `publish` succeeds. One process
   * at a time does this. Returns the number of published rows: 0 while another process publishes.
   */
  readonly relay: <E>(
    rows: RelayedRows,
    publish: (records: ReadonlyArray<OutgoingRecord>) => Effect.Effect<void, E>,
  ) => Effect.Effect<number, StorageError | E>
  readonly status: (upTo: number) => Effect.Effect<OutboxStatus, StorageError>
  readonly remove: (rows: ReadonlyArray<number>) => Effect.Effect<void, StorageError>
}

export class OutboxStore extends Context.Service<OutboxStore, OutboxStoreShape>()(
  '@hub/outbox/OutboxStore',
) {}
