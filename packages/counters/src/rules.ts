/** The numbers that both adapters count by. */

/** A minute, sliding (specification, Access and keys: failed-login gate). */
export const GATE_WINDOW_MS = 60_000
/** "More than 20": the gate is shut while the 21st newest failure is within the window. No older one matters. */
export const GATE_REMEMBERS = 21

export const HOUR_MS = 3_600_000
/** How far back the flood windows look. */
export const DAY_MS = 86_400_000

/** A full bucket is one second of tokens; the bucket is kept as its debt, the time until it is full again. */
export const FULL_BUCKET_US = 1_000_000
/** A thousandth of a microsecond forgives the rounding of sums such as three thirds. */
export const ROUNDING_US = 0.001

/** A rate must let something through; the store's settings say so too. */
export const atLeastOne = (requestsPerSecond: number): number =>
  Number.isFinite(requestsPerSecond) ? Math.max(1, Math.floor(requestsPerSecond)) : 1

/** Microseconds as the headers show them: seconds with one decimal, never less than the truth. */
export const toTenths = (microseconds: number): number => Math.ceil(microseconds / 100_000) / 10

/** Whole seconds, never less than the truth and at least one. */
export const toWaitSeconds = (ms: number): number => Math.max(1, Math.ceil(ms / 1000))

export const WINDOW_NAMES = ['pause', 'hour', 'day'] as const
