/**
 * What of the read models the topics can still tell. They keep for thirteen months what the tables keep for three years, so older rows are
 * carried over as they are. Pure. Source: docs/decisions/0020.
 */
import { decodeId } from '@hub/domain'
import { ACCEPTANCE_AFTER_ID_MS } from '@hub/store'

const DAY = 24 * 3_600_000

/**
 * A record is appended at most so long after it happened: a `service` record may wait in the outbox while Kafka is away. Retention removes
 * records in the order in which they were appended, so what happened this much after the first one that is left is all there.
 */
const APPENDED_WITHIN = DAY

/** Sums that nothing changes any more: the last late report comes when operators' ids are forgotten, after ninety days. */
const SETTLED_AFTER = ACCEPTANCE_AFTER_ID_MS + 95 * DAY

export interface Horizon {
  /** The first moment of a month: messages with an id from here on are rebuilt. `null`: all. */
  readonly since: number | null
  /** The first moment of a day: batches and statistics from here on are rebuilt, to which no older message adds. `null`: all. */
  readonly sumsSince: number | null
}

/** Everything: nothing has been removed from the topics yet. */
export const EVERYTHING: Horizon = { since: null, sumsSince: null }

/**
 * The horizon of topics, of which some partitions have lost their beginnings: `firsts` are when the first records were appended that those
 * still have, or, where nothing is left, when the last one was applied. `null`: the topics hold too little for the sums to be told apart.
 */
export const horizonOf = (firsts: ReadonlyArray<number>, now: number): Horizon | null => {
  if (firsts.length === 0) return EVERYTHING
  const complete = new Date(firsts.reduce((latest, at) => Math.max(latest, at), 0) + APPENDED_WITHIN)
  const since = Date.UTC(complete.getUTCFullYear(), complete.getUTCMonth() + 1, 1)
  const sumsSince = since + ACCEPTANCE_AFTER_ID_MS + DAY
  return sumsSince <= now - SETTLED_AFTER ? { since, sumsSince } : null
}

/** The smallest UUIDv7 of a moment. */
export const uuidFloor = (at: number): string => {
  const hex = at.toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`
}

/** The smallest UUID: before every id. */
export const NIL = '00000000-0000-0000-0000-000000000000'
/** The largest. */
export const LAST = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** The first moment of a moment's month (UTC). */
export const monthOf = (at: number): number => {
  const date = new Date(at)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1)
}

/** What is rebuilt, in the terms of the rows: a row with an id or a day before its bound is left as it is. */
export interface Bounds {
  /** Least message id (UUID) of messages, history and charges. */
  readonly rows: string
  /** Of operators' ids, which are kept for a shorter time; and the moment of it. */
  readonly operatorIds: string
  readonly operatorIdsFrom: number
  /** Least batch id (UUID). */
  readonly batches: string
  /** First day, `2026-11-01`. */
  readonly day: string
}

/** `operatorIdsCutoff`: moment from which on operators' ids are kept. */
export const boundsOf = ({ since, sumsSince }: Horizon, operatorIdsCutoff: number): Bounds => {
  const operatorIdsFrom = Math.max(since ?? 0, monthOf(operatorIdsCutoff))
  return {
    rows: since === null ? NIL : uuidFloor(since),
    operatorIds: uuidFloor(operatorIdsFrom),
    operatorIdsFrom,
    batches: sumsSince === null ? NIL : uuidFloor(sumsSince),
    day: sumsSince === null ? '0001-01-01' : new Date(sumsSince).toISOString().slice(0, 10),
  }
}

/** Whether an id names something that is not before a bound. */
export const isFrom = (bound: string, prefix: 'msg' | 'bat', id: string): boolean =>
  (decodeId(prefix, id) ?? NIL) >= bound
