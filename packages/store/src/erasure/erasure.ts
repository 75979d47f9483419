/**
 * Erases a person's data on request: everything that contains the phone number, readable or
 * encrypted. Records with the recipient hash stay where they must (opt-outs,
 * de-identified records). The caller computes the hash, so no number reaches this module. Source: RET-8;
 * docs/decisions/erasure.md.
 *
 * Stored data is removed at once. An open message is still delivered: its encrypted copies in the
 * topics and in the ledger remain readable for the hub while their payload keys exist. After the
 * last of these keys is destroyed, the erasure removes what arrived in between, and is finished.
 * Each step is a small transaction that is safe to repeat. After a crash, the retention job
 * `erasures` continues.
 */
import { randomUUID } from 'node:crypto'
import { payloadKeyGoneAt } from '@hub/kafka'
import { Clock, Effect } from 'effect'
import { runEnded, type Job, ROWS_PER_STEP } from '../retention/job.ts'
import { recipientShareOf } from '../payload-encryption.ts'
import { storageCrashPoint, transactionCrashPoint } from '../crash-points.ts'
import { epochMs, type Queries, Sql, type StorageError } from '../sql.ts'
import { isProjected } from '../tables/read/messages.ts'
import { NIL_UUID } from '../uuid.ts'

const HOUR_MS = 3_600_000

/**
 * The shortest duration of an erasure: idempotency keys keep encrypted answers with masked numbers
 * for a day, the flood windows in Redis the hash slightly longer.
 */
const MIN_DURATION_MS = 26 * HOUR_MS

/**
 * How long a `report` key must be out of use before an erasure destroys it. The dispatcher applies
 * inbound messages within seconds. An erasure must not destroy an opt-out word while the
 * dispatchers are down for a day.
 */
const APPLIED_WITHIN_MS = 24 * HOUR_MS

/** How often the job looks for interrupted erasures, and for erasures that can finish. */
const JOB_INTERVAL_MS = 10 * 60_000

/** Ledger rows that one step reads: the ledger has no index by recipient. */
const LEDGER_ROWS_PER_STEP = 20_000

/** The receipt of an erasure. Times in milliseconds since the epoch. */
export interface Erasure {
  /** UUID. */
  readonly id: string
  /** Recipient hash, 64 hexadecimal digits. */
  readonly recipient: string
  readonly requestedAt: number
  /** Messages whose number and text were removed. */
  readonly personalData: number
  /** Ledger rows from which the number was removed. */
  readonly acceptances: number
  /** `report` keys that were destroyed early. */
  readonly payloadKeys: number
  /** When the stored data was removed; `null` before. */
  readonly clearedAt: number | null
  /** When the last encrypted copy becomes unreadable; `null` before `clearedAt`. */
  readonly sealedUntil: number | null
  readonly finishedAt: number | null
  /** When it was recorded in Kafka, where a restore finds it; `null` before. */
  readonly publishedAt: number | null
}

/** The columns of an `Erasure`. */
const receipt = (q: Queries) => q`
  id, encode(recipient, 'hex') AS recipient, ${epochMs(q, 'requested_at')} AS "requestedAt",
  personal_data::float8 AS "personalData", acceptances::float8, sealing_keys::float8 AS "payloadKeys",
  ${epochMs(q, 'cleared_at')} AS "clearedAt", ${epochMs(q, 'sealed_until')} AS "sealedUntil",
  ${epochMs(q, 'finished_at')} AS "finishedAt", ${epochMs(q, 'published_at')} AS "publishedAt"`

/** The row of an unfinished erasure, as its steps need it. */
interface Row {
  readonly id: string
  readonly recipient: Buffer
  readonly before: Date
  readonly position: string | null
  readonly sealed_until: Date | null
}

/** Adds to the counts of the receipt. */
const addToReceipt = (
  q: Queries,
  id: string,
  added: { readonly personalData?: number; readonly acceptances?: number; readonly payloadKeys?: number },
) => q`
  UPDATE command.erasures
     SET personal_data = personal_data + ${added.personalData ?? 0}, acceptances = acceptances + ${added.acceptances ?? 0},
         sealing_keys = sealing_keys + ${added.payloadKeys ?? 0}
   WHERE id = ${id}`

/** Removes numbers and texts: of messages, and of what the person wrote to the hub. */
const removePersonalData = async (q: Queries, row: Row): Promise<number> => {
  const removed = await q`
    DELETE FROM read.personal_data WHERE message_id IN (
      SELECT message_id FROM read.personal_data WHERE recipient = ${row.recipient} AND created_at < ${row.before}
       LIMIT ${ROWS_PER_STEP})`
  const cleared = await q`
    UPDATE command.inbound_messages SET sealing_key = NULL, sealed = NULL WHERE id IN (
      SELECT id FROM command.inbound_messages
       WHERE recipient = ${row.recipient} AND received_at < ${row.before} AND sealed IS NOT NULL
       LIMIT ${ROWS_PER_STEP})`
  const count = removed.count + cleared.count
  if (count > 0) await addToReceipt(q, row.id, { personalData: count })
  return count
}

/**
 * Clears the next rows of the ledger: the masked number, and the encrypted payload of rows that
 * nobody will publish again. Returns whether that was the last step.
 */
const clearLedger = async (q: Queries, row: Row, now: number): Promise<boolean> => {
  const after = row.position ?? NIL_UUID
  const [step] = await q<{ last: string | null }[]>`
    SELECT max(message_id::text)::uuid AS last FROM (
      SELECT message_id FROM command.acceptances WHERE message_id > ${after} ORDER BY message_id
       LIMIT ${LEDGER_ROWS_PER_STEP}) AS s`
  const last = step?.last ?? null
  if (last === null) {
    await q`UPDATE command.erasures SET position = NULL WHERE id = ${row.id}`
    return true
  }
  const cleared = await q`
    WITH own AS MATERIALIZED (
      SELECT a.message_id,
             a.given_back OR a.expires_at < ${new Date(now)}
               OR ${isProjected(q, 'a.message_id')} AS settled
        FROM command.acceptances a
       WHERE a.message_id > ${after} AND a.message_id <= ${last} AND a.recipient = ${row.recipient}
         AND a.created_at < ${row.before} AND (a.to_masked <> '' OR a.sealed IS NOT NULL))
    UPDATE command.acceptances a
       SET to_masked = '', sealed = CASE WHEN t.settled THEN NULL ELSE a.sealed END,
           sealing_key = CASE WHEN t.settled THEN NULL ELSE a.sealing_key END
      FROM own t WHERE a.message_id = t.message_id AND (a.to_masked <> '' OR t.settled)`
  await addToReceipt(q, row.id, { acceptances: cleared.count })
  await q`UPDATE command.erasures SET position = ${last} WHERE id = ${row.id}`
  return false
}

/** Destroys the `report` keys of the recipient's share that are out of use. */
const destroyKeys = async (q: Queries, row: Row, now: number): Promise<void> => {
  const removed = await q`
    DELETE FROM command.sealing_keys
     WHERE share = ${recipientShareOf(row.recipient.toString('hex'))}
       AND usable_until <= ${new Date(Math.min(now, row.before.getTime() + 2 * APPLIED_WITHIN_MS) - APPLIED_WITHIN_MS)}`
  if (removed.count > 0) await addToReceipt(q, row.id, { payloadKeys: removed.count })
}

/**
 * Until when data from before the request can be decrypted: the end of its last key. Kafka has the
 * message keys; the keys of class `service` live longest.
 */
const readableUntil = async (q: Queries, row: Row): Promise<Date> => {
  const [found] = await q<{ until: Date | null }[]>`
    SELECT greatest(
             -- Keys that a version before 0.4.0 created.
             max(destroy_after) FILTER (WHERE class IN ('otp', 'service')),
             max(usable_until) FILTER (WHERE class = 'report' AND share = ${recipientShareOf(row.recipient.toString('hex'))})
               + make_interval(secs => ${APPLIED_WITHIN_MS / 1000})) AS until
      FROM command.sealing_keys`
  const earliest = Math.max(
    row.before.getTime() + MIN_DURATION_MS,
    payloadKeyGoneAt('service', row.before.getTime()),
  )
  return new Date(Math.max(earliest, found?.until?.getTime() ?? 0))
}

/** `more`: another step follows. `cleared`: only keys remain. `finished`: they ended. */
type Progress = 'more' | 'cleared' | 'finished'

/** One step of an erasure. The caller has locked its row. */
const step = async (q: Queries, row: Row, now: number): Promise<Progress> => {
  if ((await removePersonalData(q, row)) > 0) return 'more'
  if (!(await clearLedger(q, row, now))) return 'more'
  await destroyKeys(q, row, now)
  const until = row.sealed_until ?? (await readableUntil(q, row))
  const isOver = until.getTime() <= now
  await q`
    UPDATE command.erasures
       SET cleared_at = coalesce(cleared_at, ${new Date(now)}), sealed_until = ${until},
           finished_at = ${isOver ? new Date(now) : null}
     WHERE id = ${row.id}`
  return isOver ? 'finished' : 'cleared'
}

const DEADLINE = { deadline: '8 seconds' } as const

const atRecorded = storageCrashPoint('hubctl.erasure-recorded')
const atStepWritten = transactionCrashPoint('hubctl.erasure-step-written')
const atStepCommitted = storageCrashPoint('hubctl.erasure-step-committed')

/** Runs the steps of the open erasure of a person, until only keys remain. */
export const continueErasure = Effect.fnUntraced(function* (
  recipient: string,
): Effect.fn.Return<void, StorageError, Sql> {
  const sql = yield* Sql
  const now = yield* Clock.currentTimeMillis
  for (;;) {
    const progress = yield* sql
      .transaction(async (q): Promise<Progress> => {
        const [row] = await q<Row[]>`
        SELECT * FROM command.erasures
         WHERE recipient = ${Buffer.from(recipient, 'hex')} AND finished_at IS NULL FOR UPDATE`
        if (row === undefined) return 'finished'
        const progress = await step(q, row, now)
        atStepWritten()
        return progress
      }, DEADLINE)
      .pipe(atStepCommitted)
    if (progress !== 'more') return
  }
})

/**
 * Records an erasure by recipient hash in the caller's transaction, and returns the id of its receipt.
 * From the commit on the projector does not store the number again. An unfinished erasure of the same
 * person starts again, and then includes newer messages.
 */
export const recordErasure = async (q: Queries, recipient: string, now: number): Promise<string> => {
  const [row] = await q<{ id: string }[]>`
    INSERT INTO command.erasures (id, recipient, requested_at, before)
    VALUES (${randomUUID()}, ${Buffer.from(recipient, 'hex')}, ${new Date(now)}, ${new Date(now)})
    ON CONFLICT (recipient) WHERE finished_at IS NULL
    DO UPDATE SET before = excluded.before, position = NULL, cleared_at = NULL, sealed_until = NULL,
                  published_at = NULL
    RETURNING id`
  return row?.id ?? ''
}

/**
 * Erases a person by recipient hash (64 hexadecimal digits): removes the stored data of all
 * messages accepted until now. The retention job finishes the erasure after the end of the last
 * key. Returns the current receipt. Safe to repeat: an unfinished erasure of the same person
 * continues, and then includes newer messages.
 */
export const eraseRecipient = Effect.fn('eraseRecipient')(function* (
  recipient: string,
): Effect.fn.Return<Erasure, StorageError, Sql> {
  const sql = yield* Sql
  const now = yield* Clock.currentTimeMillis
  // Recorded before the removal, so that a projector does not store the number again meanwhile.
  yield* sql.run((q) => recordErasure(q, recipient, now)).pipe(atRecorded)
  yield* continueErasure(recipient)
  const [row] = yield* readErasures(recipient)
  return row === undefined
    ? yield* Effect.die('An erasure has no row in command.erasures: was it deleted meanwhile?')
    : row
})

/** The receipts of a person's erasures, newest first. */
export const readErasures = Effect.fn('readErasures')(function* (
  recipient: string,
): Effect.fn.Return<ReadonlyArray<Erasure>, StorageError, Sql> {
  const sql = yield* Sql
  return yield* sql.run(
    (q) => q<Erasure[]>`
      SELECT ${receipt(q)} FROM command.erasures WHERE recipient = ${Buffer.from(recipient, 'hex')}
       ORDER BY requested_at DESC, id DESC`,
  )
})

/** The recipient hash of a receipt; `null` for an unknown id. */
export const recipientOfErasure = Effect.fnUntraced(function* (
  id: string,
): Effect.fn.Return<string | null, StorageError, Sql> {
  const sql = yield* Sql
  const [row] = yield* sql.run(
    (q) => q<{ recipient: string }[]>`
      SELECT encode(recipient, 'hex') AS recipient FROM command.erasures WHERE id = ${id}`,
  )
  return row?.recipient ?? null
})

/** The retention job that continues interrupted erasures and finishes those whose keys ended. */
export const erasures: Job = {
  name: 'erasures',
  everyMs: JOB_INTERVAL_MS,
  step: async (q, now, position) => {
    // A cleared erasure waits until its keys have ended; then all steps run again.
    const [row] = await q<Row[]>`
      SELECT * FROM command.erasures
       WHERE finished_at IS NULL AND (cleared_at IS NULL OR sealed_until <= ${new Date(now)}) AND id >= ${position ?? NIL_UUID}
       ORDER BY id LIMIT 1 FOR UPDATE`
    if (row === undefined) return runEnded()
    const progress = await step(q, row, now)
    return { removed: progress === 'finished' ? 1 : 0, position: row.id }
  },
}
