/**
 * The horizon of a rebuild: from when on the topics contain all records. The topics keep records
 * for thirteen months, the tables keep rows for three years. Older rows are copied from the live
 * tables. Pure. Source: docs/decisions/read-models.md#rebuild.
 */
import { decodeId } from '@hub/domain'
import { ACCEPTANCE_AFTER_ID_MS, NIL_UUID, uuidFloor } from '@hub/store'

const DAY = 24 * 3_600_000

/**
 * A fact is appended at most this long after it occurred: a `service` record may wait in the outbox
 * while Kafka is unavailable. Kafka removes records in the order of their appends. So all facts
 * that occurred this long after the first remaining record are in the topic.
 */
const APPENDED_WITHIN = DAY

/** After this, aggregates no longer change: late reports need operator ids (90 days). */
const SETTLED_AFTER = ACCEPTANCE_AFTER_ID_MS + 95 * DAY

export interface Horizon {
  /** The start of a month: messages with an id from then on are rebuilt. `null`: all. */
  readonly since: number | null
  /** The start of a day. Batches and statistics from then on are rebuilt; `null`: all. */
  readonly sumsSince: number | null
}

/** The topics contain all records ever appended. */
export const EVERYTHING: Horizon = { since: null, sumsSince: null }

/**
 * The horizon, from `firsts`: for each partition without its first records, when its first
 * remaining record was appended, or for an empty partition when its last record was applied.
 * `null`: aggregates before the horizon may still change.
 */
export const horizonOf = (firsts: ReadonlyArray<number>, now: number): Horizon | null => {
  if (firsts.length === 0) return EVERYTHING
  const complete = new Date(firsts.reduce((latest, at) => Math.max(latest, at), 0) + APPENDED_WITHIN)
  const since = Date.UTC(complete.getUTCFullYear(), complete.getUTCMonth() + 1, 1)
  const sumsSince = since + ACCEPTANCE_AFTER_ID_MS + DAY
  return sumsSince <= now - SETTLED_AFTER ? { since, sumsSince } : null
}

/** The largest UUID. */
export const LAST = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** The start of the month (UTC) of a timestamp. */
export const monthOf = (at: number): number => {
  const date = new Date(at)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1)
}

/** The horizon as ids and days: a row before its bound is not rebuilt. */
export interface Bounds {
  /** The smallest message id (UUID) of messages, history and charges. */
  readonly rows: string
  /** The same for operator ids, which are kept for a shorter time; and its timestamp. */
  readonly operatorIds: string
  readonly operatorIdsFrom: number
  /** The smallest batch id (UUID). */
  readonly batches: string
  /** The first day, `2026-11-01`. */
  readonly day: string
}

/** `operatorIdsCutoff`: when the oldest operator id that is kept was given (ms). */
export const boundsOf = ({ since, sumsSince }: Horizon, operatorIdsCutoff: number): Bounds => {
  const operatorIdsFrom = Math.max(since ?? 0, monthOf(operatorIdsCutoff))
  return {
    rows: since === null ? NIL_UUID : uuidFloor(since),
    operatorIds: uuidFloor(operatorIdsFrom),
    operatorIdsFrom,
    batches: sumsSince === null ? NIL_UUID : uuidFloor(sumsSince),
    day: sumsSince === null ? '0001-01-01' : new Date(sumsSince).toISOString().slice(0, 10),
  }
}

/** Whether a public id is at or after a bound. */
export const isFrom = (bound: string, prefix: 'msg' | 'bat', id: string): boolean =>
  (decodeId(prefix, id) ?? NIL_UUID) >= bound
