/** The ledger in PostgreSQL: the adapter of `ledger.port.ts`. Its statements are in `tables/`. */
import { encodeId } from '@hub/domain'
import { deleteOutboxRows, insertOutboxRow } from '@hub/outbox'
import {
  CommandOptOuts,
  MasterKeyEncryption,
  type Queries,
  Sql,
  type SqlFragment,
  type StorageError,
  uuidOf,
} from '@hub/store'
import { Duration, Effect, Layer } from 'effect'
import { STATEMENT_DEADLINE } from '../../deadlines.ts'
import { lockKeysInUse, selectKeysInUse, writeResponses } from '../../idempotency/idempotency-keys.ts'
import type { IdempotencyLock } from '../../idempotency/idempotency-keys.port.ts'
import { Messages } from '../../messages/messages.ts'
import { type EarlierMessage, refKey } from '../batch/decide.ts'
import {
  type BatchRow,
  type Commit,
  type CommitResult,
  type ExtraWrites,
  Ledger,
  type LedgerEntry,
  type Reference,
} from './ledger.port.ts'
import { type Charge, chargesOf, overspending } from './spend.ts'
import {
  countCodes,
  insertAcceptances,
  refundCodes,
  lockRefunded,
  updateAcceptances,
} from './tables/acceptances.ts'
import {
  deleteEmptyBatch,
  lockBatch,
  lockBatchesOf,
  lockSettledBatches,
  sealBatches,
  selectOpenBatches,
  writeBatches,
} from './tables/batches.ts'
import { insertReferences, selectClockAndUsed } from './tables/client-refs.ts'
import { insertCommit, requireCommit, withdrawCommit } from './tables/commits.ts'
import { addSpent, lockSpent } from './tables/spend-periods.ts'

/** Deadline of a refund and of a seal: their request has already waited for an acceptance batch. */
const AFTER_COMMIT = { deadline: Duration.millis(1000) }
/** Of a commit. Its requests have their answers at their own deadlines, whatever becomes of it. */
const COMMIT_DEADLINE = { deadline: Duration.seconds(2) }
/** Of what is repeated until it succeeds, such as a withdrawal. No request waits for it. */
const BACKGROUND_DEADLINE = { deadline: Duration.seconds(8) }

const OUTBOX = 'command.outbox'

const idOf = ({ fact }: LedgerEntry): string => fact.messageId
const NONE: ReadonlySet<string> = new Set()

/** Nothing that the commit reads decides what it writes: no republished code and no spend limit. */
const isPlain = ({ accepted, republished }: Commit): boolean =>
  republished.length === 0 && accepted.every(({ spendLimit }) => spendLimit === null)

/** The idempotency locks of the entries, once each. */
const locksOf = (entries: ReadonlyArray<LedgerEntry>): ReadonlyArray<IdempotencyLock> => [
  ...new Map(entries.flatMap(({ lock }) => (lock === null ? [] : [[lock.token, lock]]))).values(),
]

/** Certainly nothing was written. */
const isConflict = (error: StorageError): boolean =>
  error._tag === 'StorageUnavailable' && error.reason === 'conflict'

/** The content of a plain commit. The arrays may be empty. */
interface PlainCommit {
  readonly id: string
  readonly entries: ReadonlyArray<LedgerEntry>
  readonly outbox: Uint8Array | null
  readonly batches: ReadonlyArray<BatchRow>
  readonly responses: ExtraWrites['responses']
  readonly appendedRows: ReadonlyArray<number>
  readonly charges: ReadonlyArray<Charge>
}

/**
 * Records a plain commit in one statement, which is its own transaction. If a reference is taken or
 * an idempotency lock is lost, the statement fails as a conflict and writes nothing. PostgreSQL
 * executes the other writes after the conditions.
 */
const commitInOneStatement = (
  q: Queries,
  encryption: MasterKeyEncryption['Service'],
  { appendedRows, batches, charges, entries, id, outbox, responses }: PlainCommit,
) => {
  const nothing: SqlFragment = q`SELECT WHERE false`
  const locks = locksOf(entries)
  const withReference = entries.filter(({ fact }) => fact.clientRef !== null)
  return q<{ id: string | null }[]>`
    WITH inserted AS (${insertCommit(q, id)}),
         held AS (${locks.length > 0 ? selectKeysInUse(q, locks) : nothing}),
         taken AS (${withReference.length > 0 ? insertReferences(q, withReference) : nothing}),
         stored AS (${outbox === null ? q`SELECT NULL::bigint AS id` : insertOutboxRow(q, OUTBOX, outbox)}),
         accepted AS (${entries.length > 0 ? insertAcceptances(q, entries) : nothing}),
         batched AS (${batches.length > 0 ? writeBatches(q, batches) : nothing}),
         deleted AS (${appendedRows.length > 0 ? deleteOutboxRows(q, OUTBOX, appendedRows) : nothing}),
         answered AS (${responses.length > 0 ? writeResponses(q, encryption, responses) : nothing}),
         charged AS (${charges.length > 0 ? addSpent(q, charges) : nothing})
    SELECT id FROM stored
     WHERE command.require((SELECT count(*) FROM inserted) = 1)
       AND command.require((SELECT count(*) FROM held) = ${String(locks.length)}::bigint)
       AND command.require((SELECT count(*) FROM taken) = ${String(withReference.length)}::bigint)`
}

/**
 * Records a commit step by step: what it reads decides what it writes. All transactions lock the
 * tables in one order, and rows within a table in one order, so that they cannot deadlock: the
 * commit, idempotency keys, batches, months of accounts with a limit, references, the other tables, months
 * of accounts without a limit.
 */
const commitInSteps = async <Writes extends ExtraWrites>(
  q: Queries,
  encryption: MasterKeyEncryption['Service'],
  { accepted, appendedRows, extraWrites, id: commitId, republished }: Commit<Writes>,
): Promise<CommitResult<Writes>> => {
  const all = [...accepted, ...republished]
  const locks = locksOf(all)
  const limitedNew = chargesOf(accepted).filter(({ limit }) => limit !== null)
  // One round trip: the driver sends statements in the order of their start.
  const [, held, spentBefore] = await Promise.all([
    requireCommit(q, commitId).execute(),
    locks.length === 0 ? NONE : lockKeysInUse(q, locks),
    // Republished codes are refunded first.
    republished.length > 0 || limitedNew.length === 0 ? null : lockSpent(q, limitedNew),
  ])

  // A request that has lost its idempotency lock records nothing: its repeat may be running.
  const lockLost = new Set(all.filter(({ lock }) => lock !== null && !held.has(lock.token)).map(idOf))

  // Refunds the earlier charge of a republished code. If another process has published the code
  // since the lookup, it stays as it is. So does a code that would move to another batch although
  // Kafka may contain it: its send is decided again.
  const repeats = republished.filter((entry) => !lockLost.has(idOf(entry)))
  let refunded = NONE
  if (repeats.length > 0) {
    const ids = repeats.map(idOf)
    const codes = ids.map((messageId) => ({ messageId, at: null }))
    ;[, , refunded] = await Promise.all([
      lockBatchesOf(q, ids).execute(),
      refundCodes(q, codes, false).execute(),
      lockRefunded(q, repeats),
    ])
  }
  const toRepublish = repeats.filter((entry) => refunded.has(idOf(entry)))
  const limited = chargesOf([...accepted, ...toRepublish]).filter(
    ({ limit, messageId }) => limit !== null && !lockLost.has(messageId),
  )
  const overspent =
    limited.length === 0 ? NONE : overspending(limited, spentBefore ?? (await lockSpent(q, limited)))
  const isAffordable = (entry: LedgerEntry) => !lockLost.has(idOf(entry)) && !overspent.has(idOf(entry))

  const affordable = accepted.filter(isAffordable)
  const withReference = affordable.filter(({ fact }) => fact.clientRef !== null)
  const takenElsewhere = new Set(withReference.map(idOf))
  if (withReference.length > 0) {
    for (const row of await insertReferences(q, withReference))
      takenElsewhere.delete(encodeId('msg', row.message_id))
  }
  const inserted =
    takenElsewhere.size === 0 ? affordable : affordable.filter((entry) => !takenElsewhere.has(idOf(entry)))
  for (const entry of repeats) if (!refunded.has(idOf(entry))) takenElsewhere.add(idOf(entry))
  const updated = toRepublish.filter(isAffordable)
  const written = extraWrites({ lockLost, takenElsewhere, overspent })
  const { batches, outbox, responses } = written

  // One round trip: the driver pipelines these statements in this order.
  const charges = chargesOf([...inserted, ...updated])
  const [row] = await Promise.all([
    outbox === null ? null : insertOutboxRow(q, OUTBOX, outbox),
    inserted.length > 0 ? insertAcceptances(q, inserted) : null,
    updated.length > 0 ? updateAcceptances(q, updated) : null,
    batches.length > 0 ? writeBatches(q, batches) : null,
    responses.length > 0 ? writeResponses(q, encryption, responses) : null,
    appendedRows.length > 0 ? deleteOutboxRows(q, OUTBOX, appendedRows) : null,
    charges.length > 0 ? addSpent(q, charges) : null,
  ])
  const id = row?.[0]?.id
  const outboxRow = id === undefined ? null : Number(id)
  return { lockLost, takenElsewhere, overspent, outboxRow, extraWrites: written }
}

export const ledgerLayer: Layer.Layer<Ledger, never, Sql | MasterKeyEncryption | Messages> = Layer.effect(
  Ledger,
  Effect.gen(function* () {
    const sql = yield* Sql
    const encryption = yield* MasterKeyEncryption
    const messages = yield* Messages

    const clockAndUsed = Effect.fnUntraced(function* (references: ReadonlyArray<Reference>) {
      const [row] = yield* sql.run((q) => selectClockAndUsed(q, references), STATEMENT_DEADLINE)
      const used = row?.used ?? []
      const known = new Map<string, EarlierMessage | null>()
      if (used.length > 0) {
        const found = yield* messages.find(used.map(({ message_id }) => message_id))
        for (const { account, client_ref, message_id, mode } of used) {
          const key = refKey({ account: encodeId('acc', account), mode }, client_ref)
          known.set(key, found.get(encodeId('msg', message_id)) ?? null)
        }
      }
      return { at: Number(row?.at), known }
    })

    const optedOut = (recipients: ReadonlyArray<string>) =>
      recipients.length === 0
        ? Effect.succeed(NONE)
        : sql.run((q) => CommandOptOuts.readOptedOut(q, recipients), STATEMENT_DEADLINE)

    const commitPlain = <Writes extends ExtraWrites>({
      accepted,
      appendedRows,
      extraWrites,
      id,
    }: Commit<Writes>) =>
      Effect.suspend(() => {
        const unrecorded = { lockLost: NONE, takenElsewhere: NONE, overspent: NONE }
        const written = extraWrites(unrecorded)
        const { batches, outbox, responses } = written
        const charges = chargesOf(accepted)
        const plain = { id, entries: accepted, outbox, batches, responses, appendedRows, charges }
        return Effect.map(
          sql.run((q) => commitInOneStatement(q, encryption, plain), COMMIT_DEADLINE),
          ([row]): CommitResult<Writes> => ({
            ...unrecorded,
            extraWrites: written,
            outboxRow: row === undefined || row.id === null ? null : Number(row.id),
          }),
        )
      })
    const commitTransaction = <Writes extends ExtraWrites>(commit: Commit<Writes>) =>
      sql.transaction((q) => commitInSteps(q, encryption, commit), COMMIT_DEADLINE)

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

      commit: (commit) =>
        isPlain(commit)
          ? // A transaction finds out which references were taken and which locks lost meanwhile.
            Effect.catchIf(commitPlain(commit), isConflict, () => commitTransaction(commit))
          : commitTransaction(commit),

      withdraw: (commit) => sql.transaction((q) => withdrawCommit(q, commit), BACKGROUND_DEADLINE),

      refund: (codes) => Effect.asVoid(sql.run((q) => refundCodes(q, codes, true), AFTER_COMMIT)),

      seal: (batch, otpAccepted, records) =>
        sql.transaction(async (q) => {
          // One round trip: the driver sends statements in the order of their start.
          const [, codes] = await Promise.all([lockBatch(q, batch.id).execute(), countCodes(q, batch.id)])
          // Another process publishes one of its codes again, or has moved one to another batch.
          if (codes !== otpAccepted) return null
          return sealBatches(q, [batch], records)
        }, AFTER_COMMIT),

      discard: (batch) =>
        sql.transaction(async (q) => {
          // One round trip: the driver sends statements in the order of their start.
          await Promise.all([lockBatch(q, batch).execute(), deleteEmptyBatch(q, batch).execute()])
        }, AFTER_COMMIT),

      sealFromLedger: (batches, encode) =>
        sql.transaction(async (q) => {
          const settled = await lockSettledBatches(q, batches)
          const outboxRow = settled.length === 0 ? null : await sealBatches(q, settled, encode(settled))
          const stillOpen = await selectOpenBatches(q, batches)
          return { open: stillOpen, outboxRow }
        }, BACKGROUND_DEADLINE),
    }
  }),
)
