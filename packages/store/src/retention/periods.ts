/**
 * Retention periods. Each cutoff function takes the current time and returns the time before which
 * data is too old; both in milliseconds since the epoch. Pure. Source: docs/contract/retention.md;
 * docs/security.md, Retention. The retention of topics is in their catalogue (`@hub/kafka`).
 */

const DAY = 24 * 3_600_000

const yearsBefore = (now: number, years: number): number => {
  const date = new Date(now)
  return date.setUTCFullYear(date.getUTCFullYear() - years)
}

/** Recipient number and text, and the client address of the last use of a key: one year. */
export const personalDataCutoff = (now: number): number => yearsBefore(now, 1)

/** De-identified records with their history, events and webhook attempt logs: three years. */
export const recordsCutoff = (now: number): number => yearsBefore(now, 3)

/** Number and text of inbound messages, as hub staff read them: 90 days. Then they are masked. */
export const rawInboundCutoff = (now: number): number => now - 90 * DAY

/** Operator ids, which match late reports: 90 days, as long as raw reports. */
export const operatorIdsCutoff = (now: number): number => now - 90 * DAY

/**
 * Days of the ledger, which reads use for unprojected messages. So the projector may be down for a
 * long weekend, and the reconciler look one day back.
 */
const LEDGER_DAYS = 4

/**
 * Days after which a day of the ledger is dropped although the read models lack some of its
 * messages. A projector that is down for so long has been noticed.
 */
const LEDGER_FORCED_DAYS = 30

export const ledgerCutoff = (now: number): number => now - LEDGER_DAYS * DAY
export const ledgerForcedCutoff = (now: number): number => now - LEDGER_FORCED_DAYS * DAY

/**
 * How long after the timestamp of its id a message may be accepted, ms: a code that was not
 * published is accepted again under its id while the ledger contains it.
 */
export const ACCEPTANCE_AFTER_ID_MS = LEDGER_FORCED_DAYS * DAY

/** The end of the month `YYYYMM` (UTC). */
export const monthEnd = (month: string): number =>
  Date.UTC(Number(month.slice(0, 4)), Number(month.slice(4, 6)), 1)

/** The end of the day `YYYYMMDD` (UTC). */
export const dayEnd = (day: string): number =>
  Date.UTC(Number(day.slice(0, 4)), Number(day.slice(4, 6)) - 1, Number(day.slice(6, 8)) + 1)
