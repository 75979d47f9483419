/**
 * The ledger: what was accepted, and the guard that makes a repeat a repeat. The port that a flush works on, and its
 * adapter for PostgreSQL.
 */
import { encodeId, type MessageAccepted, type Money } from '@hub/domain'
import { Sql, type StorageError, MasterKeyEncryption, uuidOf } from '@hub/store'
import { Context, Duration, Effect, Layer } from 'effect'
import type { Owner } from '../accounts/account.ts'
import {
  type IdempotencyLock,
  lockHeldKeys,
  type StoredAnswer,
  writeAnswers,
} from '../idempotency/idempotency-lock.ts'
import { Messages } from '../messages/messages.ts'
import { type KnownMessage, refKey } from './decide.ts'
import {
  addSpent,
  chargesOf,
  countCodes,
  deleteOutbox,
  giveBack,
  lockBatch,
  lockBatchesOf,
  insertAcceptances,
  insertInOneStatement,
  insertOutbox,
  insertReferences,
  lockSpent,
  selectGivenBack,
  selectClockAndUsed,
  updateAcceptances,
  writeBatches,
} from './ledger-statements.ts'
import { overspending } from './spend.ts'

/** A `client_ref` asked for. */
export interface Reference {
  readonly owner: Owner
  readonly clientRef: string
}

/** What a flush asks before it decides. */
export interface LedgerQuery {
  readonly references: ReadonlyArray<Reference>
  /** Recipient hashes. */
  readonly recipients: ReadonlyArray<string>
  /** Message ids that idempotency keys remember. */
  readonly remembered: ReadonlyArray<string>
}

/** What a flush has to know before it decides. */
export interface LedgerSnapshot {
  /** PostgreSQL's clock, milliseconds since the epoch: the flush's stamp. */
  readonly at: number
  /** Used references by `refKey`; unknown ones are absent. */
  readonly known: ReadonlyMap<string, KnownMessage | null>
  /** Those of the remembered ids that are recorded. */
  readonly recorded: ReadonlyMap<string, KnownMessage>
  /** Those of the recipients asked for that have opted out. */
  readonly optedOut: ReadonlySet<string>
}

/** One row to be. */
export interface LedgerEntry {
  readonly owner: Owner
  readonly fact: MessageAccepted
  readonly toMasked: string
  /** `null` where none is set, and in test mode. */
  readonly spendLimit: Money | null
  /** The claim of its request; `null` without one. */
  readonly lock: IdempotencyLock | null
}

/** A batch as the ledger knows it. */
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
  /** `null` while the outcome is not known. */
  readonly sealedAt: number | null
}

/** Message ids of a commit for which nothing was written. */
export interface Unrecorded {
  /** Between lookup and commit another process took their `client_ref`, or published the code. */
  readonly lost: ReadonlySet<string>
  /** They do not fit the spend limit. */
  readonly overspent: ReadonlySet<string>
  /** Their request lost its claim on its idempotency key: another one has it, or may have it. */
  readonly lockLost: ReadonlySet<string>
}

/** What goes into the transaction beside the messages. */
export interface ExtraWrites {
  /** The outbox row; `null` when it would be empty. */
  readonly outbox: Uint8Array | null
  readonly batches: ReadonlyArray<BatchRow>
  readonly answers: ReadonlyArray<{ readonly lock: IdempotencyLock; readonly answer: StoredAnswer }>
}

/** One transaction's worth. */
export interface Commit {
  readonly accepted: ReadonlyArray<LedgerEntry>
  /** Codes to be published again: their rows get the new stamp, lifetime, template and batch, and are charged anew. */
  readonly republished: ReadonlyArray<LedgerEntry>
  /** Called as soon as it is known, or supposed, what is not recorded; called again where that was wrong. */
  readonly extraWrites: (unrecorded: Unrecorded) => ExtraWrites
  /** Outbox rows that Kafka has acknowledged. */
  readonly settled: ReadonlyArray<number>
}

export interface CommitResult extends Unrecorded {
  /** Id of the outbox row. */
  readonly outboxRow: number | null
}

/** A code that was recorded and not published. */
export interface UnprovenCode {
  readonly messageId: string
  /** The stamp of its acceptance; `null`: whatever it is. */
  readonly at: number | null
}

export class Ledger extends Context.Service<
  Ledger,
  {
    readonly lookup: (question: LedgerQuery) => Effect.Effect<LedgerSnapshot, StorageError>
    /** All or nothing. After `StorageUnavailable` it may have happened all the same. */
    readonly commit: (commit: Commit) => Effect.Effect<CommitResult, StorageError>
    /** Gives back what codes were charged that were not published. Idempotent. */
    readonly giveBack: (codes: ReadonlyArray<UnprovenCode>) => Effect.Effect<void, StorageError>
    /**
     * Writes a batch's outcome with its outbox row, and answers the row. `null`: it was sealed before, or fewer than the so many `codes` that
     * are among its accepted are still in it, because another process has published some again in another batch; then it stays open.
     */
    readonly seal: (
      batch: BatchRow,
      codes: number,
      records: Uint8Array,
    ) => Effect.Effect<number | null, StorageError>
    /** Removes acknowledged outbox rows. */
    readonly settle: (rows: ReadonlyArray<number>) => Effect.Effect<void, StorageError>
  }
>()('@hub/command-api/Ledger') {}

/**
 * What a flush may wait for PostgreSQL, a lookup and a commit each. A send that arrives just after a flush began meets a
 * hanging server twice at most, and is still answered within the 3 s that the contract gives.
 */
const DEADLINE = { deadline: Duration.millis(1200) }
/** What comes after the answer of a flush: whoever waits for it has waited for the flush already. */
const AFTERWARDS = { deadline: Duration.millis(400) }

const idOf = ({ fact }: LedgerEntry): string => fact.messageId
const NONE: ReadonlySet<string> = new Set()

/** Nothing of it depends on what PostgreSQL has of claims, repeated codes or spend limits. */
const isPlain = ({ accepted, republished }: Commit): boolean =>
  republished.length === 0 && accepted.every(({ lock, spendLimit }) => lock === null && spendLimit === null)

/** Certain that nothing was written. */
const isConflict = (error: StorageError): boolean =>
  error._tag === 'StorageUnavailable' && error.reason === 'conflict'

/** The ledger in PostgreSQL. */
export const ledgerLayer: Layer.Layer<Ledger, never, Sql | MasterKeyEncryption | Messages> = Layer.effect(
  Ledger,
  Effect.gen(function* () {
    const sql = yield* Sql
    const masterKey = yield* MasterKeyEncryption
    const messages = yield* Messages

    const clockAndUsed = Effect.fnUntraced(function* (references: ReadonlyArray<Reference>) {
      const [row] = yield* sql.run((q) => selectClockAndUsed(q, references), DEADLINE)
      const used = row?.used ?? []
      const known = new Map<string, KnownMessage | null>()
      if (used.length > 0) {
        const found = yield* messages.find(used.map(({ message_id }) => message_id))
        for (const { account, client_ref, message_id, mode } of used) {
          const key = refKey({ account: encodeId('acc', account), mode }, client_ref)
          known.set(key, found.get(encodeId('msg', message_id)) ?? null)
        }
      }
      return { at: Number(row?.at), known }
    })

    const optedOut = Effect.fnUntraced(function* (recipients: ReadonlyArray<string>) {
      if (recipients.length === 0) return new Set<string>()
      const rows = yield* sql.run(
        (q) => q<{ recipient: string }[]>`
          SELECT encode(recipient, 'hex') AS recipient FROM command.opt_outs
           WHERE recipient IN (SELECT decode(r, 'hex') FROM unnest(${[...recipients]}::text[]) AS r)`,
        DEADLINE,
      )
      return new Set(rows.map((row) => row.recipient))
    })

    /** The rule: one statement, one round trip. */
    const atOnce = ({ accepted, extraWrites, settled }: Commit): Effect.Effect<CommitResult, StorageError> =>
      Effect.suspend(() => {
        const unrecorded = { lockLost: NONE, lost: NONE, overspent: NONE }
        const { batches, outbox } = extraWrites(unrecorded)
        const all = { entries: accepted, outbox, batches, settled, charges: chargesOf(accepted) }
        return Effect.map(
          sql.run((q) => insertInOneStatement(q, all), DEADLINE),
          ([row]) => ({
            ...unrecorded,
            outboxRow: row === undefined || row.id === null ? null : Number(row.id),
          }),
        )
      })

    /** The exception: what is read here says what is written. */
    const inTransaction = ({ accepted, republished, extraWrites, settled }: Commit) =>
      sql.transaction(async (q) => {
        const all = [...accepted, ...republished]

        // Whoever lost its claim records nothing: its repeat may be under way.
        const locks = new Map(all.flatMap(({ lock }) => (lock === null ? [] : [[lock.token, lock]])))
        const held = locks.size === 0 ? NONE : await lockHeldKeys(q, [...locks.values()])
        const lockLost = new Set(all.filter(({ lock }) => lock !== null && !held.has(lock.token)).map(idOf))

        // What a repeated code cost the last time it is not to cost twice. One that another process has published since it was looked
        // up stays as it is, paid for, in its batch.
        const repeats = republished.filter((entry) => !lockLost.has(idOf(entry)))
        let unpaid = NONE
        if (repeats.length > 0) {
          await lockBatchesOf(q, repeats.map(idOf))
          await giveBack(
            q,
            repeats.map((entry) => ({ messageId: idOf(entry), at: null })),
          )
          unpaid = await selectGivenBack(q, repeats.map(idOf))
        }
        const again = repeats.filter((entry) => unpaid.has(idOf(entry)))
        const limited = chargesOf([...accepted, ...again]).filter(
          ({ limit, messageId }) => limit !== null && !lockLost.has(messageId),
        )
        const overspent = limited.length === 0 ? NONE : overspending(limited, await lockSpent(q, limited))
        const isWanted = (entry: LedgerEntry) => !lockLost.has(idOf(entry)) && !overspent.has(idOf(entry))

        const wanted = accepted.filter(isWanted)
        const referring = wanted.filter(({ fact }) => fact.clientRef !== null)
        const lost = new Set(referring.map(idOf))
        if (referring.length > 0) {
          for (const row of await insertReferences(q, referring)) {
            lost.delete(encodeId('msg', row.message_id))
          }
        }
        const won = lost.size === 0 ? wanted : wanted.filter((entry) => !lost.has(idOf(entry)))
        for (const entry of repeats) if (!unpaid.has(idOf(entry))) lost.add(idOf(entry))
        const repeated = again.filter(isWanted)
        const { answers, batches, outbox } = extraWrites({ lockLost, lost, overspent })

        // One round trip: the driver sends these one behind the other, in this order.
        const charges = chargesOf([...won, ...repeated])
        const [row] = await Promise.all([
          outbox === null ? null : insertOutbox(q, outbox),
          won.length > 0 ? insertAcceptances(q, won) : null,
          repeated.length > 0 ? updateAcceptances(q, repeated) : null,
          batches.length > 0 ? writeBatches(q, batches) : null,
          answers.length > 0 ? writeAnswers(q, masterKey, answers) : null,
          settled.length > 0 ? deleteOutbox(q, settled) : null,
          charges.length > 0 ? addSpent(q, charges) : null,
        ])
        const id = row?.[0]?.id
        return { lockLost, lost, overspent, outboxRow: id === undefined ? null : Number(id) }
      }, DEADLINE)

    return {
      lookup: ({ recipients, references, remembered }) =>
        Effect.map(
          Effect.all(
            [
              clockAndUsed(references),
              optedOut(recipients),
              messages.find(remembered.map((id) => uuidOf('msg', id))),
            ],
            { concurrency: 'unbounded' },
          ),
          ([{ at, known }, out, recorded]) => ({ at, known, optedOut: out, recorded }),
        ),

      commit: (wanted) =>
        isPlain(wanted)
          ? // What lost a reference meanwhile is found in a transaction.
            Effect.catchIf(atOnce(wanted), isConflict, () => inTransaction(wanted))
          : inTransaction(wanted),

      giveBack: (codes) => Effect.asVoid(sql.run((q) => giveBack(q, codes), AFTERWARDS)),

      seal: (batch, codes, records) =>
        sql.transaction(async (q) => {
          if (codes > 0) {
            await lockBatch(q, batch.id)
            if ((await countCodes(q, batch.id)) < codes) return null
          }
          const written = await writeBatches(q, [batch])
          if (written.length === 0) return null
          const [row] = await insertOutbox(q, records)
          return row === undefined ? null : Number(row.id)
        }, AFTERWARDS),

      settle: (rows) => Effect.asVoid(sql.run((q) => deleteOutbox(q, rows))),
    }
  }),
)
