/** The clock of PostgreSQL. */
import type { Queries } from './pool.ts'
import type { SqlFragment } from './sql.ts'

/**
 * How far it may differ from the clock of this machine. Acceptances are stamped by PostgreSQL's
 * clock, lifetimes end by this machine's clock. Source: docs/architecture.md, Accepting.
 */
export const CLOCK_TOLERANCE_MS = 1000

/** An expression: its time, in milliseconds since the epoch. */
export const databaseClock = (q: Queries): SqlFragment =>
  q`(extract(epoch FROM clock_timestamp()) * 1000)::float8`
