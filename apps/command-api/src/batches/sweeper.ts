/**
 * What a crash left open: batches whose outcome nobody wrote down. Which of their messages were accepted is in the ledger; elements
 * of which nothing is known were never accepted, and nobody was told otherwise.
 *
 * Source: architecture, Accepting.
 */
import { encodeId, type Mode } from '@hub/domain'
import { type BatchSealed, batchSealedRecord, encodeOutboxRow, type TopicNames } from '@hub/kafka'
import { type Queries, Sql } from '@hub/store'
import { Duration, Effect, Layer, Schedule } from 'effect'
import { writeBatches } from '../accept/ledger-statements.ts'
import { OutboxMode } from '../accept/outbox-mode.ts'

/** By then no request of that batch can be running: three times its hard deadline. */
const OPEN_FOR_SECONDS = 60
const SWEEP_EVERY = Duration.seconds(10)
/** Batches of one turn; more of them wait for the next. */
const BATCHES_A_TURN = 20
const DEADLINE = { deadline: Duration.seconds(5) }

interface OpenBatch {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly total: number
  readonly duplicate: number
  readonly created_at: Date
  readonly now: Date
  readonly accepted: number
}

/**
 * Open batches, locked, whose members are certain: every code among them is in the read model, given back, or past the lifetime in
 * which it could still be published. A code belongs to the batch that the read model has it in, whatever the ledger meant: a process may
 * have died between recording it in another one and publishing it there.
 */
const openBatches = (q: Queries, openForSeconds: number) => q<OpenBatch[]>`
  SELECT b.id, b.account, b.mode, b.total, b.duplicate, b.created_at, clock_timestamp() AS now,
         coalesce(m.accepted, 0)::integer AS accepted
    FROM command.batches b
    LEFT JOIN LATERAL (
      SELECT count(*) FILTER (WHERE a.class = 'service')
               + (SELECT count(*) FROM read.messages r
                   WHERE r.batch_id = b.id AND r.class = 'otp' AND r.account IS NOT NULL) AS accepted,
             count(*) FILTER (WHERE a.class = 'otp' AND r.account IS NULL AND NOT a.given_back
                                AND a.expires_at > now() - interval '1 minute') AS unproven
        FROM command.acceptances a
        LEFT JOIN LATERAL (SELECT account FROM read.messages WHERE id = a.message_id LIMIT 1) AS r ON true
       WHERE a.batch_id = b.id) AS m ON true
   WHERE b.sealed_at IS NULL AND b.created_at < now() - make_interval(secs => ${openForSeconds}) AND m.unproven = 0
   ORDER BY b.created_at LIMIT ${BATCHES_A_TURN} FOR UPDATE OF b SKIP LOCKED`

/** Seals what is open for so long. Answers the outbox rows it wrote, highest last, and how many batches it sealed. */
export const sealOpenBatches = (sql: Sql['Service'], topics: TopicNames, openForSeconds = OPEN_FOR_SECONDS) =>
  sql.transaction(async (q) => {
    const open = await openBatches(q, openForSeconds)
    if (open.length === 0) return null
    const rows = open.map((batch) => ({
      id: encodeId('bat', batch.id),
      owner: { account: encodeId('acc', batch.account), accountUuid: batch.account, mode: batch.mode },
      total: batch.total,
      accepted: batch.accepted,
      duplicate: Math.min(batch.duplicate, batch.total - batch.accepted),
      rejected: Math.max(0, batch.total - batch.accepted - batch.duplicate),
      createdAt: batch.created_at.getTime(),
      sealedAt: batch.now.getTime(),
    }))
    const seals = rows.map((row) =>
      batchSealedRecord(topics, {
        type: 'BatchSealed',
        batch: row.id,
        account: row.owner.account,
        mode: row.owner.mode,
        total: row.total,
        accepted: row.accepted,
        duplicate: row.duplicate,
        rejected: row.rejected,
        createdAt: row.createdAt,
        at: row.sealedAt,
      } satisfies BatchSealed),
    )
    await writeBatches(q, rows)
    const [outbox] = await q<{ id: string }[]>`
      INSERT INTO command.outbox (records) VALUES (${encodeOutboxRow(seals)}) RETURNING id`
    return { sealed: rows.length, outboxRow: Number(outbox?.id) }
  }, DEADLINE)

export const batchSweeperLayer = (topics: TopicNames): Layer.Layer<never, never, Sql | OutboxMode> =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const sql = yield* Sql
      const outboxMode = yield* OutboxMode
      const sweep = sealOpenBatches(sql, topics).pipe(
        Effect.flatMap((done) => {
          if (done === null) return Effect.void
          outboxMode.leaveToRelay(done.outboxRow)
          return Effect.annotateLogs(Effect.logInfo('sealed batches that were left open'), {
            batches: done.sealed,
          })
        }),
        Effect.catch((error) =>
          Effect.annotateLogs(Effect.logWarning('open batches could not be sealed'), { error: error._tag }),
        ),
      )
      yield* Effect.forkScoped(Effect.repeat(sweep, Schedule.spaced(SWEEP_EVERY)))
    }),
  )
