/** The deadline of most statements. */
import { Duration } from 'effect'

/**
 * A request waits for a hanging PostgreSQL twice at most, and still has its answer within the 3 s of
 * the contract. A slow PostgreSQL may need a second for a round trip.
 */
export const STATEMENT_DEADLINE = { deadline: Duration.millis(1200) }
