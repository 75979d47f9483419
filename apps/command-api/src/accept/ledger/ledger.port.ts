/**
 * The port of the ledger: what an acceptance batch reads and writes in PostgreSQL. The adapter is
 * `ledger.ts`, the contract suite `ledger.contract.ts`.
 */
import type { MessageAccepted, Money } from '@hub/domain'
import type { StorageError } from '@hub/store'
import { Context, type Effect } from 'effect'
import type { Owner } from '../../accounts/account.ts'
import type { IdempotencyLock, StoredResponse } from '../../idempotency/idempotency-keys.port.ts'
import type { EarlierMessage } from '../batch/decide.ts'

/** A `client_ref` to look up. */
export interface Reference {
  readonly owner: Owner
  readonly clientRef: string
}

export interface LedgerQuery {
  readonly references: ReadonlyArray<Reference>
  /** Recipient hashes, for opt-outs. */
  readonly recipients: ReadonlyArray<string>
  /** Message ids that idempotency keys remember. */
  readonly remembered: ReadonlyArray<string>
}

/** What the ledger knows before an acceptance batch is decided. */
export interface LedgerSnapshot {
  /** PostgreSQL's clock, milliseconds since the epoch. It stamps the whole acceptance batch. */
  readonly at: number
  /** The used references, by `refKey`. */
  readonly known: ReadonlyMap<string, EarlierMessage | null>
  /** The recorded ones of the remembered ids. */
  readonly recorded: ReadonlyMap<string, EarlierMessage>
  /** The opted-out ones of the recipients. */
  readonly optedOut: ReadonlySet<string>
}

/** The record of one accepted send: its row in `command.acceptances`, reference and charge. */
export interface LedgerEntry {
  readonly owner: Owner
  readonly fact: MessageAccepted
  readonly toMasked: string
  /** `null`: the account has no limit, or the send costs nothing. */
  readonly spendLimit: Money | null
  /** The lock on the idempotency key of its request, if it has one. */
  readonly lock: IdempotencyLock | null
}

/** A row of `command.batches`. */
export interface BatchRow {
  /** `bat_…` */
  readonly id: string
  readonly owner: Owner
  readonly total: number
  readonly accepted: number
  readonly duplicate: number
  readonly rejected: number
  /** Milliseconds since the epoch. */
  readonly createdAt: number
  /** `null`: the outcome is not known yet. */
  readonly sealedAt: number | null
}

/** Message ids of a commit that the ledger did not record. */
export interface Unrecorded {
  /**
   * After the lookup, another process took their `client_ref` or published the code; or Kafka may
   * contain the code with another batch.
   */
  readonly takenElsewhere: ReadonlySet<string>
  /** They exceed the spend limit. */
  readonly overspent: ReadonlySet<string>
  /** Their request lost the lock on its idempotency key: another request may be running. */
  readonly lockLost: ReadonlySet<string>
}

/** What the transaction writes in addition to the messages. */
export interface ExtraWrites {
  /** The outbox row; `null` if it would be empty. */
  readonly outbox: Uint8Array | null
  readonly batches: ReadonlyArray<BatchRow>
  readonly responses: ReadonlyArray<{ readonly lock: IdempotencyLock; readonly response: StoredResponse }>
}

/** The content of one transaction. */
export interface Commit<Writes extends ExtraWrites = ExtraWrites> {
  /** UUIDv7, new for each commit. A commit that was withdrawn fails. */
  readonly id: string
  readonly accepted: ReadonlyArray<LedgerEntry>
  /** Codes to publish again. Their rows are updated from the new send and charged again. */
  readonly republished: ReadonlyArray<LedgerEntry>
  /**
   * The ledger may call it twice: first assuming that everything is recorded, then with the real
   * result. It must have no side effects.
   */
  readonly extraWrites: (unrecorded: Unrecorded) => Writes
  /** Outbox rows that Kafka has acknowledged: the transaction deletes them. */
  readonly appendedRows: ReadonlyArray<number>
}

export interface CommitResult<Writes extends ExtraWrites = ExtraWrites> extends Unrecorded {
  /** Id of the outbox row. */
  readonly outboxRow: number | null
  /** What was written. */
  readonly extraWrites: Writes
}

/** A code that was recorded, and that Kafka has not confirmed. */
export interface UnprovenCode {
  readonly messageId: string
  /** The time of its acceptance; `null`: any. */
  readonly at: number | null
}

export class Ledger extends Context.Service<
  Ledger,
  {
    readonly lookup: (query: LedgerQuery) => Effect.Effect<LedgerSnapshot, StorageError>
    /** All or nothing. After `StorageUnavailable` the transaction may still have been committed. */
    readonly commit: <Writes extends ExtraWrites>(
      commit: Commit<Writes>,
    ) => Effect.Effect<CommitResult<Writes>, StorageError>
    /**
     * Withdraws a commit with an unknown result, unless it has succeeded. Fails while its transaction
     * is in progress. Idempotent.
     */
    readonly withdraw: (commit: string) => Effect.Effect<'committed' | 'withdrawn', StorageError>
    /**
     * Refunds the price of codes whose last try was not published. If none of their tries was, they
     * are `unpublished`. Idempotent.
     */
    readonly refund: (codes: ReadonlyArray<UnprovenCode>) => Effect.Effect<void, StorageError>
    /**
     * Seals a batch: writes its outcome and the outbox row with `records`, and returns the id of
     * that row. `otpAccepted`: the codes of it that the process knows to be published. `null`: it was
     * sealed before, or it stays open, because another process has others of its codes or has moved some.
     */
    readonly seal: (
      batch: BatchRow,
      otpAccepted: number,
      records: Uint8Array,
    ) => Effect.Effect<number | null, StorageError>
    /**
     * Deletes a batch (`bat_…`) that was recorded with codes, if all of them were refunded. Idempotent.
     * A sealed batch stays.
     */
    readonly discard: (batch: string) => Effect.Effect<void, StorageError>
    /**
     * Seals batches (`bat_…`) whose requests have ended, by what the ledger contains. `open`: those
     * with codes whose outcome is still unknown. `outboxRow`: the row with the records.
     */
    readonly sealFromLedger: (
      batches: ReadonlyArray<string>,
      encode: (rows: ReadonlyArray<BatchRow & { readonly sealedAt: number }>) => Uint8Array,
    ) => Effect.Effect<
      { readonly open: ReadonlyArray<string>; readonly outboxRow: number | null },
      StorageError
    >
  }
>()('@hub/command-api/Ledger') {}
