/**
 * Erasures and the restore of backups: publishes each erasure to Kafka, finds those that a restored
 * database does not contain, and applies them again (docs/decisions/erasure.md#after-a-restore).
 */
import { ErasureTopic, kafkaCrashPoint, type KafkaUnavailable, type PublishedErasure } from '@hub/kafka'
import { Clock, Effect, type Scope } from 'effect'
import { epochMs, type Queries, Sql, type StorageError } from '../sql.ts'
import { continueErasure } from './erasure.ts'

/** Erasures are rare. A step of this size is some milliseconds. */
const ROWS_PER_STEP = 500
/** How often a projector looks for erasures to publish, ms. */
const PUBLISH_EVERY_MS = 10_000
/** How often a process compares the topic with the database, ms. */
const WATCH_EVERY_MS = 10_000

const atErasurePublished = kafkaCrashPoint('projector.erasure-published')

/** The published form of the rows that the topic does not have yet, oldest first. */
const unpublished = (q: Queries) => q<PublishedErasure[]>`
  SELECT id AS erasure, encode(recipient, 'hex') AS recipient, ${epochMs(q, 'requested_at')} AS "requestedAt",
         ${epochMs(q, 'before')} AS before
    FROM command.erasures WHERE published_at IS NULL ORDER BY requested_at, id LIMIT ${ROWS_PER_STEP}`

/** Appends the erasures that the topic does not have yet. Returns their number. */
export const publishErasures: Effect.Effect<number, StorageError | KafkaUnavailable, Sql | ErasureTopic> =
  Effect.gen(function* () {
    const sql = yield* Sql
    const topic = yield* ErasureTopic
    const rows = yield* sql.run(unpublished)
    if (rows.length === 0) return 0
    yield* atErasurePublished(topic.append(rows))
    const now = yield* Clock.currentTimeMillis
    // A repeated request may have changed a row meanwhile: then it is published again.
    yield* sql.run(
      (q) => q`
        UPDATE command.erasures e SET published_at = ${new Date(now)}
          FROM unnest(${rows.map(({ erasure }) => erasure)}::uuid[],
                      ${rows.map(({ before }) => new Date(before).toISOString())}::timestamptz[]) AS p (id, before)
         WHERE e.id = p.id AND e.before = p.before`,
    )
    return rows.length
  })

/** Publishes erasures as long as the process runs. Run it in every projector. */
export const keepErasuresPublished: Effect.Effect<never, never, Sql | ErasureTopic> = publishErasures.pipe(
  Effect.catch((error) => Effect.as(Effect.logWarning('erasures: not published; retrying', error), 0)),
  Effect.flatMap((count) =>
    Effect.when(Effect.sleep(PUBLISH_EVERY_MS), Effect.succeed(count < ROWS_PER_STEP)),
  ),
  Effect.forever,
)

/** The time since when the oldest erasure waits for its publication, ms since the epoch. */
export const oldestUnpublishedErasure: Effect.Effect<number | null, StorageError, Sql> = Effect.flatMap(
  Sql,
  (sql) =>
    sql.run(async (q) => {
      const [row] = await q<{ at: number | null }[]>`
        SELECT ${epochMs(q, 'requested_at')} AS at FROM command.erasures
         WHERE published_at IS NULL ORDER BY requested_at LIMIT 1`
      return row?.at ?? null
    }),
)

/**
 * The erasures of the topic that the database does not contain. There are some only after the
 * restore of a backup that is older than them.
 */
export const missingErasures: Effect.Effect<
  ReadonlyArray<PublishedErasure>,
  StorageError | KafkaUnavailable,
  Sql | ErasureTopic
> = Effect.gen(function* () {
  const sql = yield* Sql
  const { read } = yield* ErasureTopic
  const published = yield* read
  if (published.length === 0) return []
  const rows = yield* sql.run(
    (q) => q<{ id: string; before: number }[]>`
      SELECT id, ${epochMs(q, 'before')} AS before FROM command.erasures
       WHERE id = ANY (${published.map(({ erasure }) => erasure)}::uuid[])`,
  )
  const known = new Map(rows.map(({ before, id }) => [id, before]))
  return published.filter(({ before, erasure }) => (known.get(erasure) ?? -1) < before)
})

/** Records a missing erasure again. The steps of the erasure then remove the restored data. */
const recordAgain = async (
  q: Queries,
  { before, erasure, recipient, requestedAt }: PublishedErasure,
  now: number,
) => {
  const hash = Buffer.from(recipient, 'hex')
  const until = new Date(before)
  const [open] = await q`
    UPDATE command.erasures
       SET before = greatest(before, ${until}), position = NULL, cleared_at = NULL, sealed_until = NULL, published_at = NULL
     WHERE recipient = ${hash} AND finished_at IS NULL AND id <> ${erasure}
    RETURNING id`
  // A recipient has one open erasure: if an older one is open, it also removes this data.
  const finishedAt = open === undefined ? null : new Date(now)
  await q`
    INSERT INTO command.erasures (id, recipient, requested_at, before, published_at, finished_at)
    VALUES (${erasure}, ${hash}, ${new Date(requestedAt)}, ${until}, ${new Date(now)}, ${finishedAt})
    ON CONFLICT (id) DO UPDATE
       SET before = excluded.before, position = NULL, cleared_at = NULL, sealed_until = NULL,
           finished_at = excluded.finished_at`
}

/**
 * Applies the erasures again that the database does not contain. Returns their number. Safe to
 * repeat, and after a crash the retention job `erasures` continues.
 */
export const restoreErasures = Effect.fn('restoreErasures')(function* (): Effect.fn.Return<
  number,
  StorageError | KafkaUnavailable,
  Sql | ErasureTopic
> {
  const sql = yield* Sql
  const missing = yield* missingErasures
  for (const erasure of missing) {
    const now = yield* Clock.currentTimeMillis
    yield* sql.transaction((q) => recordAgain(q, erasure, now))
    yield* continueErasure(erasure.recipient)
  }
  return missing.length
})

/**
 * Compares topic and database periodically, until the scope closes. The result tells whether the
 * database contains every erasure. Before the first comparison it is `false`; while a server does
 * not answer, the last result counts.
 */
export const watchErasures: Effect.Effect<
  Effect.Effect<boolean>,
  never,
  Sql | ErasureTopic | Scope.Scope
> = Effect.gen(function* () {
  let isComplete = false
  let hasWarned = false
  yield* missingErasures.pipe(
    Effect.flatMap((missing) => {
      const wasComplete = isComplete
      isComplete = missing.length === 0
      return missing.length > 0 && wasComplete !== isComplete
        ? Effect.annotateLogs(
            Effect.logError(
              'erasures: the database was restored and contains erased people; run hubctl restore erasures',
            ),
            { erasures: missing.length },
          )
        : Effect.void
    }),
    Effect.catch((error) => {
      // Without a first comparison the process stays unready, so the log must say why, once.
      const level = isComplete || hasWarned ? Effect.logDebug : Effect.logWarning
      hasWarned = true
      return level('erasures: topic and database cannot be compared now', error)
    }),
    Effect.andThen(Effect.suspend(() => Effect.sleep(isComplete ? WATCH_EVERY_MS : 1000))),
    Effect.forever,
    Effect.forkScoped,
  )
  return Effect.sync(() => isComplete)
})
