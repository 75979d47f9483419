/**
 * Seals batches: records that the membership of a batch is complete, and the record `BatchSealed`.
 *
 * A batch is sealed by the transaction that makes its last outcome known (`record.ts`), by
 * `sealPendingBatch` after its codes were acknowledged, or by the ledger: after an unknown outcome
 * (`corrections.ts`) or a crash (the sweeper).
 *
 * Source: BAT-11 to BAT-13; docs/decisions/repeats.md#sealed-batches.
 */
import { encodeOutboxRow, type TopicNames } from '@hub/kafka'
import { storageCrashPoint } from '@hub/store'
import { Clock, Effect, Result } from 'effect'
import { batchSealedRecords } from './batch-sealed.ts'
import type { BatchRow, Ledger } from '../ledger/ledger.port.ts'
import type { NewBatch, PendingRequest } from '../request.ts'
import type { SendOutcome } from '../send.ts'

const atSealed = storageCrashPoint('command-api.sealed', (row: number | null) => row !== null)

export interface BatchOutcome extends Omit<BatchRow, 'createdAt' | 'sealedAt'> {
  /** How many of the accepted messages are codes. */
  readonly otpAccepted: number
  /**
   * True if the batch exists: the hub accepted an element, or refused all of them. A repeat without
   * new messages creates no batch, and neither does a request that fails as a whole.
   */
  readonly exists: boolean
}

/** Errors that concern the whole request. If nothing is accepted, there is no batch. */
const REQUEST_ERRORS: ReadonlySet<string> = new Set([
  'internal_error',
  'hub_daily_limit_reached',
  'idempotency_conflict',
])

/** Counts the outcomes that are known. Pure. */
export const batchOutcome = (batch: NewBatch, outcomes: ReadonlyArray<SendOutcome>): BatchOutcome => {
  let accepted = 0
  let otpAccepted = 0
  let duplicate = 0
  let requestFailed = false
  for (const outcome of outcomes) {
    if (Result.isFailure(outcome)) requestFailed ||= REQUEST_ERRORS.has(outcome.failure.code)
    else if (outcome.success.duplicate) duplicate++
    else {
      accepted++
      if (outcome.success.view.class === 'otp') otpAccepted++
    }
  }
  return {
    id: batch.id,
    owner: batch.owner,
    total: batch.total,
    accepted,
    otpAccepted,
    duplicate,
    rejected: batch.malformed + outcomes.length - accepted - duplicate,
    exists: accepted > 0 || (duplicate === 0 && !requestFailed),
  }
}

/**
 * Seals the batch of a request whose sends all have their outcome, if no acceptance batch could. A batch
 * that does not exist, because all of its codes were refused, is deleted. After a failure the sweeper
 * seals it. Returns what is left to publish.
 */
export const sealPendingBatch = Effect.fnUntraced(function* (
  ledger: Pick<Ledger['Service'], 'lookup' | 'seal' | 'discard'>,
  topics: TopicNames,
  request: PendingRequest,
  outcomes: ReadonlyArray<SendOutcome>,
) {
  const { batch } = request.context
  if (batch === undefined || request.isSealed || request.isUncertain) return null
  const outcome = batchOutcome(batch, outcomes)
  if (!outcome.exists && !request.isInLedger) return null
  const seal = Effect.gen(function* () {
    const createdAt =
      request.createdAt ?? (yield* ledger.lookup({ references: [], recipients: [], remembered: [] })).at
    request.create(createdAt)
    // PostgreSQL's clock, plus the time that this process measured since the request arrived.
    const elapsed = Math.max(0, (yield* Clock.currentTimeMillis) - request.arrivedAt)
    const row = { ...outcome, createdAt, sealedAt: createdAt + elapsed }
    const outboxRecords = batchSealedRecords(topics, [row])
    const outboxRow = yield* ledger
      .seal(row, outcome.otpAccepted, encodeOutboxRow(outboxRecords))
      .pipe(atSealed)
    request.seal()
    return outboxRow === null ? null : { outboxRow, outboxRecords, otpSends: [] }
  })
  // Its codes were refused after they were recorded, so nothing of it is left.
  const discard = Effect.map(ledger.discard(batch.id), () => {
    request.discard()
    return null
  })
  return yield* (outcome.exists ? seal : discard).pipe(
    Effect.catch((error) =>
      Effect.as(
        Effect.logWarning('acceptor: a batch was not closed; the sweeper seals it').pipe(
          Effect.annotateLogs({ batch: batch.id, error: error._tag }),
        ),
        null,
      ),
    ),
  )
})
