/**
 * The payload keys that messages of this process wait for and that it cannot use now. A process that
 * waits for one is not ready, and a metric says why.
 */
import type { PayloadKeyProblem } from '@hub/store'

/** A message asks for its key again after this time, ms. */
export const KEY_PAUSE_MS = 5000

/** After this time without a failure nobody waits for the key any more: its messages are final or moved. */
const FORGET_AFTER_MS = 3 * KEY_PAUSE_MS

/** Keys in memory. Further ones change neither readiness nor the reason. */
const MAX_KEYS = 1000

export interface UnusableKeys {
  /** A key could not be used. Returns true for the first time. */
  readonly failed: (keyId: string, reason: PayloadKeyProblem, now: number) => boolean
  /** A key was used. */
  readonly used: (keyId: string) => void
  /** The number of keys by reason. */
  readonly counts: (now: number) => ReadonlyMap<PayloadKeyProblem, number>
}

export const makeUnusableKeys = (): UnusableKeys => {
  const keys = new Map<string, { readonly reason: PayloadKeyProblem; readonly at: number }>()
  return {
    failed: (keyId, reason, now) => {
      const isNew = keys.get(keyId)?.reason !== reason
      if (keys.has(keyId) || keys.size < MAX_KEYS) keys.set(keyId, { reason, at: now })
      return isNew && keys.has(keyId)
    },
    used: (keyId) => void keys.delete(keyId),
    counts: (now) => {
      const counts = new Map<PayloadKeyProblem, number>()
      for (const [keyId, { at, reason }] of keys) {
        if (now - at > FORGET_AFTER_MS) keys.delete(keyId)
        else counts.set(reason, (counts.get(reason) ?? 0) + 1)
      }
      return counts
    },
  }
}
