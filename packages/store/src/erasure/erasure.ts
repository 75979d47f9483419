/**
 * Erasure of a person on request: what holds their number, readable or sealed, goes; the hash of it stays where the specification keeps it
 * (opt-outs, de-identified records). Whoever asks computes that hash; no number comes here. Source: specification, Retention and data
 * handling (data-subject request); docs/decisions/0019.
 *
 * What is stored goes at once. A message under way runs its course: its sealed copies in the topics, and in the ledger until its
 * record has landed, can be read by the hub for as long as their short-lived keys exist. When the last key of that time is gone, what might
 * have come in between is removed once more, and the erasure is finished. Every step is one small transaction, safe to repeat; a crash
 * leaves the erasure where it was, and retention takes it on.
 */
import { randomUUID } from 'node:crypto'
import { Clock, Effect } from 'effect'
import { done, type Job, ROWS_A_STEP } from '../retention/job.ts'
import { recipientShareOf } from '../payload-encryption.ts'
import { type Queries, Sql, type StorageError } from '../sql.ts'

const HOUR_MS = 3_600_000

/**
 * Stored answers of idempotent requests hold masked numbers, encrypted, for a day; windows in Redis hold the hash, for a little more. Until
 * then an erasure is not finished, whatever keys there are.
 */
const LEAST_MS = 26 * HOUR_MS

/**
 * Since when a key for what operators and recipients say must be out of use before it may be destroyed: what recipients write is applied
 * within seconds, and a stop word must not be lost to an erasure while the dispatchers are away for a day.
 */
const APPLIED_WITHIN_MS = 24 * HOUR_MS

/** How often what a crash has left, or what has waited for long enough, is looked for. */
const AGAIN_EVERY_MS = 10 * 60_000

/** Rows of the ledger that one step reads: an erasure is rare, so it has no index there, which every acceptance would pay for. */
const LEDGER_ROWS_A_STEP = 20_000

const NIL = '00000000-0000-0000-0000-000000000000'

/** What was asked for and what has become of it: the receipt. Times in milliseconds since the epoch. */
export interface Erasure {
  /** UUID. */
  readonly id: string
  /** Recipient hash, 64 hexadecimal digits. */
  readonly recipient: string
  readonly requestedAt: number
  /** Numbers and texts that were removed, of messages. */
  readonly personalData: number
  /** Rows of the ledger of acceptances that were cleared. */
  readonly acceptances: number
  /** Keys that were destroyed before their time: what operators and recipients had said. */
  readonly sealingKeys: number
  /** When nothing stored was left; `null` while something may be. */
  readonly clearedAt: number | null
  /** When the last sealed copy becomes unreadable; `null` before `clearedAt`. */
  readonly sealedUntil: number | null
  readonly finishedAt: number | null
}

interface Row {
  readonly id: string
  readonly recipient: Buffer
  readonly requested_at: Date
  readonly before: Date
  readonly personal_data: string
  readonly acceptances: string
  readonly sealing_keys: string
  readonly position: string | null
  readonly cleared_at: Date | null
  readonly sealed_until: Date | null
  readonly finished_at: Date | null
}

const erasureOf = (row: Row): Erasure => ({
  id: row.id,
  recipient: row.recipient.toString('hex'),
  requestedAt: row.requested_at.getTime(),
  personalData: Number(row.personal_data),
  acceptances: Number(row.acceptances),
  sealingKeys: Number(row.sealing_keys),
  clearedAt: row.cleared_at?.getTime() ?? null,
  sealedUntil: row.sealed_until?.getTime() ?? null,
  finishedAt: row.finished_at?.getTime() ?? null,
})

/** Adds to the receipt, and moves the erasure on. */
const note = (
  q: Queries,
  id: string,
  more: { readonly personalData?: number; readonly acceptances?: number; readonly sealingKeys?: number },
) => q`
  UPDATE command.erasures
     SET personal_data = personal_data + ${more.personalData ?? 0}, acceptances = acceptances + ${more.acceptances ?? 0},
         sealing_keys = sealing_keys + ${more.sealingKeys ?? 0}
   WHERE id = ${id}`

const removePersonalData = async (q: Queries, row: Row): Promise<number> => {
  const gone = await q`
    DELETE FROM read.personal_data WHERE message_id IN (
      SELECT message_id FROM read.personal_data WHERE recipient = ${row.recipient} AND created_at < ${row.before}
       LIMIT ${ROWS_A_STEP})`
  if (gone.count > 0) await note(q, row.id, { personalData: gone.count })
  return gone.count
}

/**
 * A stretch of the ledger. The mask goes from every row of theirs; the sealed payload from those that nobody will publish again.
 * Answers whether that was the last stretch.
 */
const clearLedger = async (q: Queries, row: Row, now: number): Promise<boolean> => {
  const after = row.position ?? NIL
  const [stretch] = await q<{ last: string | null }[]>`
    SELECT max(message_id::text)::uuid AS last FROM (
      SELECT message_id FROM command.acceptances WHERE message_id > ${after} ORDER BY message_id
       LIMIT ${LEDGER_ROWS_A_STEP}) AS s`
  const last = stretch?.last ?? null
  if (last === null) {
    await q`UPDATE command.erasures SET position = NULL WHERE id = ${row.id}`
    return true
  }
  const cleared = await q`
    WITH theirs AS MATERIALIZED (
      SELECT a.message_id,
             a.given_back OR a.expires_at < ${new Date(now)}
               OR coalesce((SELECT m.account IS NOT NULL FROM read.messages m WHERE m.id = a.message_id), false) AS settled
        FROM command.acceptances a
       WHERE a.message_id > ${after} AND a.message_id <= ${last} AND a.recipient = ${row.recipient}
         AND a.created_at < ${row.before} AND (a.to_masked <> '' OR a.sealed IS NOT NULL))
    UPDATE command.acceptances a
       SET to_masked = '', sealed = CASE WHEN t.settled THEN NULL ELSE a.sealed END,
           sealing_key = CASE WHEN t.settled THEN NULL ELSE a.sealing_key END
      FROM theirs t WHERE a.message_id = t.message_id AND (a.to_masked <> '' OR t.settled)`
  await note(q, row.id, { acceptances: cleared.count })
  await q`UPDATE command.erasures SET position = ${last} WHERE id = ${row.id}`
  return false
}

/** Destroys the keys of the recipient's share that are out of use. */
const destroyKeys = async (q: Queries, row: Row, now: number): Promise<void> => {
  const gone = await q`
    DELETE FROM command.sealing_keys
     WHERE share = ${recipientShareOf(row.recipient.toString('hex'))}
       AND usable_until <= ${new Date(Math.min(now, row.before.getTime() + 2 * APPLIED_WITHIN_MS) - APPLIED_WITHIN_MS)}`
  if (gone.count > 0) await note(q, row.id, { sealingKeys: gone.count })
}

/** Until when something sealed before the request can be read: the last of its keys, and what is kept for a day. */
const sealedUntil = async (q: Queries, row: Row): Promise<Date> => {
  const [found] = await q<{ until: Date | null }[]>`
    SELECT greatest(
             max(destroy_after) FILTER (WHERE class IN ('otp', 'service')),
             max(usable_until) FILTER (WHERE class = 'report' AND share = ${recipientShareOf(row.recipient.toString('hex'))})
               + make_interval(secs => ${APPLIED_WITHIN_MS / 1000})) AS until
      FROM command.sealing_keys`
  const least = row.before.getTime() + LEAST_MS
  return new Date(Math.max(least, found?.until?.getTime() ?? 0))
}

/** What a step came to: there is more to remove now; nothing stored is left and the rest is a matter of time; it is finished. */
type Progress = 'more' | 'cleared' | 'finished'

/** One step of an erasure whose row is held. */
const step = async (q: Queries, row: Row, now: number): Promise<Progress> => {
  if ((await removePersonalData(q, row)) > 0) return 'more'
  if (!(await clearLedger(q, row, now))) return 'more'
  await destroyKeys(q, row, now)
  const until = row.sealed_until ?? (await sealedUntil(q, row))
  const isOver = until.getTime() <= now
  await q`
    UPDATE command.erasures
       SET cleared_at = coalesce(cleared_at, ${new Date(now)}), sealed_until = ${until},
           finished_at = ${isOver ? new Date(now) : null}
     WHERE id = ${row.id}`
  return isOver ? 'finished' : 'cleared'
}

const DEADLINE = { deadline: '8 seconds' } as const

/**
 * Forgets a person, by recipient hash (64 hexadecimal digits): removes at once what is stored of messages accepted until now, and
 * leaves the rest to retention, which finishes it when the last key of that time is gone. Answers the receipt as it stands. Safe to repeat:
 * while an erasure of the same person is not finished it is gone on with, for what has come since, too.
 */
export const eraseRecipient = Effect.fn('eraseRecipient')(function* (
  recipient: string,
): Effect.fn.Return<Erasure, StorageError, Sql> {
  const sql = yield* Sql
  const now = yield* Clock.currentTimeMillis
  const hash = Buffer.from(recipient, 'hex')
  // Before anything is removed: from here on no projector stores their number again.
  yield* sql.run(
    (q) => q`
      INSERT INTO command.erasures (id, recipient, requested_at, before)
      VALUES (${randomUUID()}, ${hash}, ${new Date(now)}, ${new Date(now)})
      ON CONFLICT (recipient) WHERE finished_at IS NULL
      DO UPDATE SET before = excluded.before, position = NULL, cleared_at = NULL, sealed_until = NULL`,
  )
  for (;;) {
    const progress = yield* sql.transaction(async (q): Promise<Progress> => {
      const [row] = await q<Row[]>`
        SELECT * FROM command.erasures WHERE recipient = ${hash} AND finished_at IS NULL FOR UPDATE`
      return row === undefined ? 'finished' : step(q, row, now)
    }, DEADLINE)
    if (progress !== 'more') break
  }
  const [row] = yield* sql.run(
    (q) => q<Row[]>`
      SELECT * FROM command.erasures WHERE recipient = ${hash} ORDER BY requested_at DESC, id DESC LIMIT 1`,
  )
  return row === undefined ? yield* Effect.die('an erasure has no receipt') : erasureOf(row)
})

/** The receipts of a person's erasures, newest first. */
export const readErasures = Effect.fn('readErasures')(function* (
  recipient: string,
): Effect.fn.Return<ReadonlyArray<Erasure>, StorageError, Sql> {
  const sql = yield* Sql
  const rows = yield* sql.run(
    (q) => q<Row[]>`
      SELECT * FROM command.erasures WHERE recipient = ${Buffer.from(recipient, 'hex')}
       ORDER BY requested_at DESC, id DESC`,
  )
  return rows.map(erasureOf)
})

/** Goes on with what a crash left, and finishes what only had to wait. */
export const erasures: Job = {
  name: 'erasures',
  everyMs: AGAIN_EVERY_MS,
  step: async (q, now, position) => {
    // One after the other. What only waits is left alone until its time has come, and then gone through once more.
    const [row] = await q<Row[]>`
      SELECT * FROM command.erasures
       WHERE finished_at IS NULL AND (cleared_at IS NULL OR sealed_until <= ${new Date(now)}) AND id >= ${position ?? NIL}
       ORDER BY id LIMIT 1 FOR UPDATE`
    if (row === undefined) return done()
    const progress = await step(q, row, now)
    return { removed: progress === 'finished' ? 1 : 0, position: row.id }
  },
}
