import { applyOutcomeToBatch, applyOutcomeToHealth, type BatchDeliveryState, healthy } from '@hub/domain'
import { describe, expect, it } from 'vitest'
import { FANOUT_DEFAULTS } from './config.ts'

const HOUR_MS = 3_600_000

/**
 * Delivers one batch to a receiver that never answers, until its retry window ends, with the limits of
 * the process. `random` near 1 makes every interval as long as its jitter allows.
 */
const deliverToDeadReceiver = (random: number, rules = FANOUT_DEFAULTS) => {
  let batch: BatchDeliveryState = {
    status: 'pending',
    attempts: 0,
    earlyAttempts: 0,
    queuedAt: 0,
    scheduledAt: 0,
    dueAt: 0,
    redelivery: false,
  }
  let health = { ...healthy, backlogReleasedAt: null as number | null }
  let disabledAt: number | null = null
  for (let at = 0; disabledAt === null && at < rules.retryWindowMs; at = batch.dueAt ?? Infinity) {
    const endedAt = at + rules.deadlineMs
    const outcome = { kind: 'attempt', succeeded: false, startedAt: at, endedAt, random } as const
    const decision = applyOutcomeToBatch(batch, outcome, rules)
    const after = applyOutcomeToHealth(health, outcome, decision)
    batch = decision.batch
    health = after.health
    if (after.action === 'disable') disabledAt = endedAt
  }
  return { attempts: batch.attempts, disabledAt }
}

describe('the retry schedule and the threshold', () => {
  // DEL-17: up to 24 hours. DEL-19: 20 consecutive failures and an hour. The schedule of DEL-16, 1, 2, 4,
  // 8, 16, 32 and then 60 minutes, has its 20th attempt after 63 + 13 × 60 minutes, and 10 s for each
  // attempt.
  // Rules: DEL-11, DEL-16, DEL-19
  it('disable a subscription whose only batch always fails, long before its window ends', () => {
    const { attempts, disabledAt } = deliverToDeadReceiver(0.5)
    expect(attempts).toBe(20)
    expect(disabledAt).toBe((63 + 13 * 60) * 60_000 + 20 * 10_000)
  })

  it.each([0, 0.25, 0.75, 1 - Number.EPSILON])('reach it whatever the jitter is (%d)', (random) => {
    const { attempts, disabledAt } = deliverToDeadReceiver(random)
    expect(attempts).toBe(20)
    expect(disabledAt).toBeGreaterThanOrEqual(HOUR_MS)
    expect(disabledAt).toBeLessThan(24 * HOUR_MS)
  })
})
