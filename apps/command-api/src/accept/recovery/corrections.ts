/**
 * Corrects the ledger after failures: refunds codes and seals batches whose statements failed, and
 * batches of requests with an unknown outcome. It tries until PostgreSQL answers, so the ledger is
 * correct within seconds after an outage. What a crash loses is left to the reconciler and to the
 * batch sweeper.
 */
import { batchSealedRecords } from '../batch/batch-sealed.ts'
import { encodeOutboxRow, type TopicNames } from '@hub/kafka'
import type { Outbox } from '@hub/outbox'
import { Duration, Effect, Schedule } from 'effect'
import type { Ledger, UnprovenCode } from '../ledger/ledger.port.ts'

const EVERY = Duration.millis(500)
/** Codes and batches that wait. Others are left to the reconciler and to the sweeper. */
const MAX_CODES = 20_000
const MAX_BATCHES = 2000
/** Codes or batches of one statement: some milliseconds of PostgreSQL's time. */
const PER_STATEMENT = 500

interface CorrectionsOptions {
  readonly ledger: Ledger['Service']
  readonly outbox: Outbox['Service']
  readonly topics: TopicNames
}

export const makeCorrections = Effect.fnUntraced(function* ({ ledger, outbox, topics }: CorrectionsOptions) {
  const codes: Array<UnprovenCode> = []
  const batches = new Set<string>()

  const refundNext = Effect.suspend(() => {
    const next = codes.slice(0, PER_STATEMENT)
    return Effect.map(ledger.refund(next), () => void codes.splice(0, next.length))
  })

  /** Seals what can be sealed. Batches with unproven codes stay for the next turn. */
  const sealNext = Effect.gen(function* () {
    const next = [...batches].slice(0, PER_STATEMENT)
    const { open, outboxRow } = yield* ledger.sealFromLedger(next, (rows) =>
      encodeOutboxRow(batchSealedRecords(topics, rows)),
    )
    for (const batch of next) batches.delete(batch)
    // At the end, so that others come first in the next turn.
    for (const batch of open) batches.add(batch)
    if (outboxRow !== null) outbox.leave(outboxRow)
  })

  const turn = Effect.gen(function* () {
    while (codes.length > 0) yield* refundNext
    if (batches.size > 0) yield* sealNext
  }).pipe(
    Effect.catchCause((cause) =>
      Effect.annotateLogs(Effect.logDebug('corrections: a turn failed; the next turn tries again', cause), {
        codes: codes.length,
        batches: batches.size,
      }),
    ),
  )
  yield* Effect.forkScoped(Effect.repeat(turn, Schedule.spaced(EVERY)))

  return {
    /** Refunds codes that Kafka certainly does not contain. */
    refund: (unproven: ReadonlyArray<UnprovenCode>): void => {
      codes.push(...unproven.slice(0, Math.max(0, MAX_CODES - codes.length)))
    },
    /** Seals a batch (`bat_…`) by what the ledger contains. Its request must have ended. */
    seal: (batch: string): void => {
      if (batches.size < MAX_BATCHES) batches.add(batch)
    },
  }
})
export type Corrections = Effect.Success<ReturnType<typeof makeCorrections>>
