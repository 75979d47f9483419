/** A grant for tests. */
import type { Grant } from '../pacing/hub-rate.ts'

/** Of a hub that may submit ten parts per second. It contains no part. */
export const grantOf = (over: Partial<Grant> = {}): Grant => ({
  reaction: 0,
  rate: 10,
  share: 1,
  parts: 0,
  startsInMs: 0,
  everyMs: 100,
  pausedMs: 0,
  isTry: false,
  retryInMs: 5,
  ...over,
})
