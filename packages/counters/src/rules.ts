/** The constants, roundings and verdicts that both adapters share. */
import type { RateVerdict } from './port.ts'

/** A sliding minute (AUTH-8). */
export const GATE_WINDOW_MS = 60_000
/** "More than 20": the gate is closed while the 21st newest failure is within the window. */
export const GATE_REMEMBERS = 21

export const HOUR_MS = 3_600_000
/** The longest flood window. */
export const DAY_MS = 86_400_000

/** A full bucket: the tokens of one second. A bucket is stored as the time until it is full. */
export const FULL_BUCKET_US = 1_000_000
/** Tolerance for the rounding of sums such as three thirds. */
export const ROUNDING_US = 0.001

/** A rate is at least one request per second, like in the settings of an account. */
export const atLeastOne = (requestsPerSecond: number): number =>
  Number.isFinite(requestsPerSecond) ? Math.max(1, Math.floor(requestsPerSecond)) : 1

/** Microseconds as seconds with one decimal, rounded up, for the headers. */
const toTenths = (microseconds: number): number => Math.ceil(microseconds / 100_000) / 10

/** Whole seconds, rounded up, at least 1. */
export const toWaitSeconds = (ms: number): number => Math.max(1, Math.ceil(ms / 1000))

/**
 * The verdict for the request at `index`, of which the first `granted` pass. `debt`: of the bucket
 * before them, µs.
 */
export const tokenVerdict = (limit: number, granted: number, debt: number, index: number): RateVerdict => {
  const each = FULL_BUCKET_US / limit
  const allowed = index < granted
  const owed = debt + each * Math.min(index + 1, granted)
  return {
    allowed,
    limit,
    remaining: Math.max(0, Math.floor((FULL_BUCKET_US + ROUNDING_US - owed) / each)),
    resetSeconds: toTenths(Math.max(0, Math.ceil(owed - ROUNDING_US))),
    retryAfterSeconds: allowed ? 0 : toWaitSeconds((owed + each - FULL_BUCKET_US) / 1000),
  }
}

export const WINDOW_NAMES = ['pause', 'hour', 'day'] as const
