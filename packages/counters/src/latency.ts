/**
 * The latency of Redis, estimated from the answers to its calls, and the deadlines that follow from
 * it. Pure.
 *
 * Source: RFC 6298, Computing TCP's Retransmission Timer, 2.2 and 2.3 (smoothed round-trip time plus
 * four times its variation). Its limits of the result (2.4, 2.5) are parameters here. Karn's algorithm
 * (3) is unnecessary: a call is never repeated, so each answer belongs to one call, and late answers
 * are measured, too.
 */

/** Weight of a new measurement in the smoothed latency, and in its variation. */
const ALPHA = 1 / 8
const BETA = 1 / 4
/** Variations above the smoothed latency at which an answer is late. */
const K = 4
/** The clock granularity G of the source: a busy process reads an answer later than it arrives. */
const GRANULARITY_MS = 50

export interface Latency {
  /** Milliseconds, as all times here. */
  readonly smoothed: number
  readonly variation: number
  readonly last: number
}

/** The estimate after a measurement; `null`: the first one. */
export const afterAnswer = (latency: Latency | null, measured: number): Latency =>
  latency === null
    ? { smoothed: measured, variation: measured / 2, last: measured }
    : {
        variation: (1 - BETA) * latency.variation + BETA * Math.abs(latency.smoothed - measured),
        smoothed: (1 - ALPHA) * latency.smoothed + ALPHA * measured,
        last: measured,
      }

/** The limits of a deadline. */
export interface DeadlineLimits {
  readonly least: number
  readonly most: number
}

/** How long a call waits for its answer: longer than for the last one, within the limits. */
export const deadlineOf = ({ smoothed, variation }: Latency, { least, most }: DeadlineLimits): number =>
  Math.min(most, Math.max(least, smoothed + Math.max(GRANULARITY_MS, K * variation)))

/**
 * The time after which an answer can be expected at best. One fast answer is enough to expect the
 * next one soon, and one slow answer does not change much.
 */
export const expectedOf = ({ last, smoothed }: Latency): number => Math.min(smoothed, last)
