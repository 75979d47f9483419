/**
 * The batch sweeper: seals batches that a crash left open. The ledger contains their accepted
 * elements. All other elements count as rejected, and no client has an answer that says otherwise.
 * Source: docs/architecture.md, Accepting.
 */
import { encodeOutboxRow, type TopicNames } from '@hub/kafka'
import { Outbox } from '@hub/outbox'
import { Sql, storageCrashPoint } from '@hub/store'
import { Duration, Effect, Layer, Schedule } from 'effect'
import { batchSealedRecords } from '../accept/batch/batch-sealed.ts'
import { lockOpenBatches, sealBatches } from '../accept/ledger/tables/batches.ts'

/** No request of the batch runs any more: three times the hard deadline of a request. */
const OPEN_FOR_SECONDS = 60
const SWEEP_EVERY = Duration.seconds(10)
/** Batches of one sweep. The next sweep takes the others. */
const BATCHES_PER_SWEEP = 20
const DEADLINE = { deadline: Duration.seconds(5) }

const atSwept = storageCrashPoint('command-api.swept', (done: object | null) => done !== null)

/** Seals batches that have been open for `openForSeconds`. `null`: there are none. */
export const sealOpenBatches = (sql: Sql['Service'], topics: TopicNames, openForSeconds = OPEN_FOR_SECONDS) =>
  sql.transaction(async (q) => {
    const batches = await lockOpenBatches(q, openForSeconds, BATCHES_PER_SWEEP)
    if (batches.length === 0) return null
    const records = encodeOutboxRow(batchSealedRecords(topics, batches))
    const outboxRow = await sealBatches(q, batches, records)
    return outboxRow === null ? null : { sealed: batches.length, outboxRow }
  }, DEADLINE)

export const batchSweeperLayer = (topics: TopicNames): Layer.Layer<never, never, Sql | Outbox> =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const sql = yield* Sql
      const outbox = yield* Outbox
      const sweep = sealOpenBatches(sql, topics).pipe(
        atSwept,
        Effect.flatMap((done) => {
          if (done === null) return Effect.void
          outbox.leave(done.outboxRow)
          return Effect.annotateLogs(Effect.logInfo('batch sweeper: sealed batches that were left open'), {
            batches: done.sealed,
            outbox_row: done.outboxRow,
          })
        }),
        Effect.catch((error) =>
          Effect.annotateLogs(
            Effect.logWarning('batch sweeper: open batches could not be sealed; the next sweep tries again'),
            { error: error._tag },
          ),
        ),
      )
      yield* Effect.forkScoped(Effect.repeat(sweep, Schedule.spaced(SWEEP_EVERY)))
    }),
  )
