/** `read.charges`: what live messages cost; a row a charge, and a row a reversal. Owner: projector. */
import type { MessageClass } from '@hub/domain'
import type { Queries } from '../../pool.ts'
import { uuidFloor } from '../../uuid.ts'

/** Charges of messages with these ids, of one account, class, template and currency. */
export interface ChargeSum {
  /** UUID. */
  readonly account: string
  /** `null` with `template`: the messages are older than three years. */
  readonly class: MessageClass | null
  readonly template: string | null
  readonly currency: string
  /** Numbers and sums of amounts are decimal texts. */
  readonly messages: string
  readonly parts: string
  readonly charged: string
  readonly reversals: string
  readonly returned: string
}

/** A period of ids, milliseconds since the epoch, and what to sum up. */
interface ChargePeriod {
  readonly from: number
  readonly to: number
  /** The first day of the month of acceptance: `2026-11-01`. */
  readonly month: string
  /** UUID; `null`: all. */
  readonly account: string | null
}

/**
 * The sums of the charges of a month whose messages have an id from a period. Both tables are read in
 * the order of ids.
 */
export const readSums = async (
  q: Queries,
  { account, from, month, to }: ChargePeriod,
): Promise<ReadonlyArray<ChargeSum>> =>
  q<ChargeSum[]>`
    SELECT c.account, m.class, m.template, c.currency,
           count(*) FILTER (WHERE c.kind = 'charge')::text AS messages,
           coalesce(sum(m.parts) FILTER (WHERE c.kind = 'charge'), 0)::text AS parts,
           coalesce(sum(c.amount) FILTER (WHERE c.kind = 'charge'), 0)::numeric(18, 2)::text AS charged,
           count(*) FILTER (WHERE c.kind = 'reversal')::text AS reversals,
           coalesce(sum(c.amount) FILTER (WHERE c.kind = 'reversal'), 0)::numeric(18, 2)::text AS returned
      FROM read.charges c
      LEFT JOIN read.messages m ON m.id = c.message_id AND m.id >= ${uuidFloor(from)} AND m.id < ${uuidFloor(to)}
     WHERE c.message_id >= ${uuidFloor(from)} AND c.message_id < ${uuidFloor(to)} AND c.period = ${month}::date
       AND (${account}::uuid IS NULL OR c.account = ${account})
     GROUP BY 1, 2, 3, 4`

/** The charges of an account for the messages that were accepted on one day, in one currency. */
export interface DaySum {
  /** In UTC: `2026-11-21`. */
  readonly day: string
  readonly currency: string
  /** Numbers and sums of amounts are decimal texts. */
  readonly messages: string
  readonly charged: string
  readonly returned: string
  readonly price: string
}

/**
 * The sums of an account (UUID) by the day of acceptance, in a month given by its first day. The return
 * of a charge belongs to the day of its charge, as it belongs to its month.
 */
export const readDays = async (q: Queries, account: string, month: string): Promise<ReadonlyArray<DaySum>> =>
  q<DaySum[]>`
    WITH messages AS (
      SELECT currency, min(created_at) AS accepted_at,
             coalesce(sum(amount) FILTER (WHERE kind = 'charge'), 0) AS charged,
             coalesce(sum(amount) FILTER (WHERE kind = 'reversal'), 0) AS returned
        FROM read.charges WHERE account = ${account} AND period = ${month}::date
       GROUP BY message_id, currency)
    SELECT (accepted_at AT TIME ZONE 'UTC')::date::text AS day, currency, count(*)::text AS messages,
           sum(charged)::numeric(18, 2)::text AS charged, sum(returned)::numeric(18, 2)::text AS returned,
           sum(charged - returned)::numeric(18, 2)::text AS price
      FROM messages GROUP BY 1, 2 ORDER BY 1, 2`
