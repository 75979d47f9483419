/** Writes the hourly counts of an account by number range as the projector does, for today and the weeks before. */
import { earlierWeeks, hoursBack } from '@hub/domain'
import type { HubAdmin } from './hub-admin.ts'

const HOUR_MS = 3_600_000

export interface RangeTraffic {
  /** UUID. */
  readonly account: string
  readonly range: string
  /** Messages of an hour, and how many of them are delivered. */
  readonly now: { readonly accepted: number; readonly delivered: number }
  readonly before: { readonly accepted: number; readonly delivered: number }
  /** The hours that end with the present one. */
  readonly hours: number
}

export const writeRangeTraffic = async (
  { sql }: Pick<HubAdmin, 'sql'>,
  { account, before, hours, now, range }: RangeTraffic,
): Promise<void> => {
  const rowOf = (hour: number, { accepted, delivered }: RangeTraffic['now']) => ({
    hour: new Date(hour),
    account,
    mode: 'live',
    class: 'otp',
    number_range: range,
    reason_code: '',
    currency: 'RUB',
    accepted,
    sent: accepted,
    delivered,
    undelivered: accepted - delivered,
    rejected: 0,
    expired: 0,
    parts: accepted,
    price: '0',
  })
  const rows = [
    ...hoursBack(Date.now(), hours).map((hour) => rowOf(hour, now)),
    // The next hour may begin before anybody looks.
    ...hoursBack(Date.now() + HOUR_MS, hours + 2).flatMap((hour) =>
      earlierWeeks(hour).map((week) => rowOf(week, before)),
    ),
  ]
  await sql`INSERT INTO read.range_stats ${sql(rows)}`
}
