/**
 * Periodic maintenance: creates partitions of the ledger in advance, deletes ids of old commits,
 * measures how long moderation takes, and re-encrypts stored data after a change of the master key.
 * Each job is bounded and repeated after a failure. Retention (`@hub/store`) deletes expired data in
 * another process.
 */
import { MESSAGE_CLASSES } from '@hub/domain'
import { PayloadKeyTopics } from '@hub/kafka'
import {
  ENCRYPTED_COLUMNS,
  MasterKeyEncryption,
  reencryptColumn,
  retireOtherMasterKeys,
  Sql,
  type StorageError,
} from '@hub/store'
import { Cause, Duration, Effect, Layer, Metric, Schedule } from 'effect'
import { deleteOldCommits } from '../accept/ledger/tables/commits.ts'
import { oldestPendingModeration } from '../metrics.ts'
import { readPendingModeration } from './pending-moderation.ts'

/** Daily partitions that are created in advance: more than a weekend without a running process. */
const DAYS_AHEAD = 3
const LEDGER_EVERY = Duration.hours(1)
/** The creation of partitions waits for locks. No request waits for it. */
const DEADLINE = { deadline: Duration.seconds(8) }

/** How often ids of old commits are deleted, and how many at once. */
const COMMITS_EVERY = Duration.seconds(30)
const COMMITS_PER_RUN = 20_000

/** How often the wait for moderation is measured. It is counted in days. */
const MODERATION_EVERY = Duration.minutes(1)

/**
 * The next pass, while data under a previous master key exists or a pass has failed; and the next look for another
 * version of the transit key.
 */
const REENCRYPT_AGAIN_AFTER = Duration.minutes(10)

/** Whether stored responses under a previous master key exist. */
const hasOldResponses = (sql: Sql['Service'], prefix: Uint8Array) =>
  sql.run(async (q) => {
    const rows = await q`
      SELECT 1 FROM command.idempotency_keys
       WHERE answer IS NOT NULL AND expires_at > now()
         AND substring(answer FROM 1 FOR ${prefix.length}) <> ${Buffer.from(prefix)}::bytea LIMIT 1`
    return rows.length > 0
  }, DEADLINE)

/**
 * Whether payload keys under a previous master key exist. They cannot be re-encrypted: Kafka deletes
 * them within 50 hours.
 */
const hasOldPayloadKeys = (topics: PayloadKeyTopics['Service'], prefix: Uint8Array) =>
  Effect.map(Effect.forEach(MESSAGE_CLASSES, topics.read), (keys) =>
    keys.flat().some(({ wrapped }) => Buffer.compare(wrapped.subarray(0, prefix.length), prefix) !== 0),
  )

/**
 * Re-encrypts all columns once. Returns true if no data and no process needs a previous master key, or an earlier
 * version of the transit key, any more.
 */
export const reencryptAll = Effect.gen(function* () {
  const sql = yield* Sql
  const masterKey = yield* MasterKeyEncryption
  const topics = yield* PayloadKeyTopics
  const prefix = yield* masterKey.currentPrefix
  let reencrypted = 0
  let unreadable = 0
  for (const column of ENCRYPTED_COLUMNS) {
    const done = yield* reencryptColumn(column)
    reencrypted += done.reencrypted
    unreadable += done.unreadable
  }
  if (reencrypted > 0) {
    yield* Effect.annotateLogs(
      Effect.logInfo('maintenance: re-encrypted stored data with the current master key'),
      {
        values: reencrypted,
      },
    )
  }
  if (unreadable > 0) {
    yield* Effect.annotateLogs(
      Effect.logError(
        'maintenance: stored data cannot be decrypted by any master key; add the missing key to HUB_PREVIOUS_MASTER_KEYS, or permit its version in the transit engine',
      ),
      { values: unreadable },
    )
  }
  // A process with the previous key may have written data meanwhile. The next pass finds it.
  const isDone =
    reencrypted === 0 &&
    unreadable === 0 &&
    !(yield* hasOldResponses(sql, prefix)) &&
    !(yield* hasOldPayloadKeys(topics, prefix)) &&
    (yield* retireOtherMasterKeys)
  if (isDone)
    yield* Effect.logInfo(
      'maintenance: all data is under the current master key; HUB_PREVIOUS_MASTER_KEYS, the settings of a transit engine that is not the key provider, and earlier versions of the transit key can be removed',
    )
  return isDone
})

/** Sets the metric of the wait for moderation. */
export const observePendingModeration = Effect.gen(function* () {
  const sql = yield* Sql
  const { sender, template } = yield* sql.run(readPendingModeration, DEADLINE)
  yield* Metric.update(Metric.withAttributes(oldestPendingModeration, { kind: 'template' }), template)
  yield* Metric.update(Metric.withAttributes(oldestPendingModeration, { kind: 'sender' }), sender)
})

/**
 * Repeats the re-encryption until it is complete, if data under another key may exist. A transit key can get another
 * version at any time: then the re-encryption begins again.
 */
const reencryption = Effect.gen(function* () {
  const { currentPrefix, olderCiphertexts } = yield* MasterKeyEncryption
  if (olderCiphertexts === 'never') return
  let completeUnder: Buffer | null = null
  const pass = Effect.gen(function* () {
    const prefix = yield* currentPrefix
    if (completeUnder?.equals(prefix) !== true && (yield* reencryptAll)) completeUnder = prefix
    return completeUnder !== null && olderCiphertexts === 'now'
  })
  yield* pass.pipe(
    Effect.catchCause((cause) =>
      Cause.hasInterruptsOnly(cause)
        ? Effect.interrupt
        : Effect.as(
            Effect.logWarning('maintenance: a re-encryption pass failed; the next pass tries again', cause),
            false,
          ),
    ),
    Effect.repeat({ until: (done) => done, schedule: Schedule.spaced(REENCRYPT_AGAIN_AFTER) }),
    Effect.forkScoped,
  )
})

/** Runs a job at once and then on its schedule, also after a failure. */
const repeated = <A>(name: string, every: Duration.Duration, job: Effect.Effect<A, StorageError>) =>
  job.pipe(
    Effect.catchCause((cause) =>
      Cause.hasInterruptsOnly(cause)
        ? Effect.interrupt
        : Effect.annotateLogs(
            Effect.logWarning('maintenance: a job failed; its next run tries again', cause),
            { job: name },
          ),
    ),
    Effect.repeat(Schedule.spaced(every)),
    Effect.forkScoped,
  )

export const maintenanceLayer: Layer.Layer<never, never, Sql | MasterKeyEncryption | PayloadKeyTopics> =
  Layer.effectDiscard(
    Effect.gen(function* () {
      const sql = yield* Sql
      yield* reencryption
      yield* repeated(
        'ledger partitions',
        LEDGER_EVERY,
        sql.run((q) => q`SELECT command.ensure_acceptance_days(${DAYS_AHEAD})`, DEADLINE),
      )
      yield* repeated(
        'old commits',
        COMMITS_EVERY,
        sql.run((q) => deleteOldCommits(q, COMMITS_PER_RUN), DEADLINE),
      )
      yield* repeated(
        'pending moderation',
        MODERATION_EVERY,
        Effect.provideService(observePendingModeration, Sql, sql),
      )
    }),
  )
