/**
 * Counts of `read.messages` for the last minutes, for the overview of hub staff. Owner: projector. Each
 * statement reads a range of ids, which begin with the time of acceptance.
 */
import type { MessageClass, Mode } from '@hub/domain'
import type { Queries } from '../../pool.ts'
import { epochMs, type SqlFragment } from '../../sql.ts'
import { uuidFloor } from '../../uuid.ts'

/** A period in milliseconds since the epoch, without its end. */
interface Period {
  readonly from: number
  readonly to: number
}

/**
 * A repeated code keeps the id of its first send, so a few messages are accepted after the time of
 * their id. Later ones are not counted.
 */
const ID_BEFORE_ACCEPTANCE_MS = 60_000

const acceptedIn = (q: Queries, { from, to }: Period): SqlFragment => q`
  id >= ${uuidFloor(from - ID_BEFORE_ACCEPTANCE_MS)} AND id < ${uuidFloor(to)}
  AND created_at >= ${new Date(from)} AND created_at < ${new Date(to)} AND account IS NOT NULL`

/** The messages that were accepted in a minute, by their status now. */
export interface MinuteCounts {
  /** The start of the minute, milliseconds since the epoch. */
  readonly minute: number
  readonly mode: Mode
  readonly class: MessageClass
  readonly accepted: number
  /** Submitted to an SMS operator, whatever became of them. */
  readonly sent: number
  readonly delivered: number
  /** Undelivered, rejected or expired. */
  readonly failed: number
}

export const readMinutes = async (q: Queries, period: Period): Promise<ReadonlyArray<MinuteCounts>> =>
  q<MinuteCounts[]>`
    SELECT ${epochMs(q, 'minute')} AS minute, mode, class, accepted, sent, delivered, failed
      FROM (SELECT date_trunc('minute', created_at) AS minute, mode, class, count(*)::int AS accepted,
                   count(*) FILTER (WHERE handed_over)::int AS sent,
                   count(*) FILTER (WHERE status = 'delivered')::int AS delivered,
                   count(*) FILTER (WHERE status IN ('undelivered', 'rejected', 'expired'))::int AS failed
              FROM read.messages
             WHERE ${acceptedIn(q, period)}
             GROUP BY 1, 2, 3) AS m
     ORDER BY 1, 2, 3`

/** The time from acceptance to submission. */
export interface SubmissionTime {
  readonly mode: Mode
  readonly class: MessageClass
  readonly messages: number
  /** Milliseconds. */
  readonly p50: number
  readonly p99: number
}

/** Of the newest `limit` messages of a period that were submitted. */
export const readSubmissionTimes = async (
  q: Queries,
  period: Period,
  limit: number,
): Promise<ReadonlyArray<SubmissionTime>> => q<SubmissionTime[]>`
    SELECT mode, class, count(*)::int AS messages,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) AS p50,
           percentile_cont(0.99) WITHIN GROUP (ORDER BY ms) AS p99
      FROM (SELECT m.mode, m.class, greatest(0, extract(epoch FROM h.at - m.created_at) * 1000)::float8 AS ms
              FROM (SELECT id, mode, class, created_at FROM read.messages
                     WHERE ${acceptedIn(q, period)} AND handed_over
                     ORDER BY id DESC LIMIT ${limit}) AS m
             CROSS JOIN LATERAL (
                   SELECT at FROM read.message_history
                    WHERE message_id = m.id AND status = 'sent' ORDER BY at LIMIT 1) AS h) AS t
     GROUP BY mode, class
     ORDER BY mode, class`
