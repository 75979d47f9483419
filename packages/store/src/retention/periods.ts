/**
 * For how long what is kept. Pure: a moment comes in, the moment before which things are too old goes out; all of them milliseconds since the
 * epoch. Source: specification, Retention and data handling. The topics have theirs in their catalogue (`@hub/kafka`).
 */

const DAY = 24 * 3_600_000

const yearsBefore = (now: number, years: number): number => {
  const date = new Date(now)
  return date.setUTCFullYear(date.getUTCFullYear() - years)
}

/** Recipient number and text: one year. */
export const personalDataCutoff = (now: number): number => yearsBefore(now, 1)

/** De-identified records with their history, events and webhook attempt logs: three years. */
export const recordsCutoff = (now: number): number => yearsBefore(now, 3)

/**
 * Operators' ids of messages, by which late reports are matched: as long as what operators say is kept at all, 90 days.
 */
export const operatorIdsCutoff = (now: number): number => now - 90 * DAY

/**
 * Days of the ledger: what was accepted is read from it until the projector has it, and the reconciler looks a day back. So a projector may be
 * away for a long weekend.
 */
export const LEDGER_DAYS = 4

/**
 * Days after which one goes although something in it never came to the read model: nothing of it could be sent since the first of them, and
 * a projector that is away for so long has been seen by somebody.
 */
export const LEDGER_HELD_DAYS = 30

export const ledgerSince = (now: number): number => now - LEDGER_DAYS * DAY
export const ledgerHeldSince = (now: number): number => now - LEDGER_HELD_DAYS * DAY

/**
 * By so much a message may have been accepted after the moment in its id: a code that was not published is accepted anew under its id for as
 * long as the ledger has it.
 */
export const ACCEPTANCE_AFTER_ID_MS = LEDGER_HELD_DAYS * DAY

/** The first moment of the month (UTC) after the one that is named `YYYYMM`. */
export const monthEnd = (month: string): number =>
  Date.UTC(Number(month.slice(0, 4)), Number(month.slice(4, 6)), 1)

/** The first moment of the day (UTC) after the one that is named `YYYYMMDD`. */
export const dayEnd = (day: string): number =>
  Date.UTC(Number(day.slice(0, 4)), Number(day.slice(4, 6)) - 1, Number(day.slice(6, 8)) + 1)
