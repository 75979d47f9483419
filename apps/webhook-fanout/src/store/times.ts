/** Timestamps between this program (milliseconds since the epoch) and PostgreSQL. */

export const toMs = (date: Date | null): number | null => date?.getTime() ?? null

export const toDate = (at: number | null): Date | null => (at === null ? null : new Date(at))

/** For elements of `sqlArray`. */
export const isoText = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString())
