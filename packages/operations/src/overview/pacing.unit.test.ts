import { describe, expect, it } from 'vitest'
import { afterRead, isDue, newPace } from './pacing.ts'

const DAY_MS = 86_400_000

/** The share of a day that reads take, and their number. */
const runDay = (everyMs: number, durationOf: (read: number) => number) => {
  let pace = newPace(everyMs)
  let busy = 0
  let reads = 0
  for (let now = 0; now < DAY_MS; now = Math.max(now + 1, pace.dueAt)) {
    if (!isDue(pace, now)) continue
    const duration = durationOf(reads)
    pace = afterRead(pace, now, now + duration)
    busy += duration
    reads += 1
  }
  return { share: busy / DAY_MS, reads }
}

describe('the pace of a read', () => {
  it('is the wanted one while the read is fast', () => {
    expect(runDay(5000, () => 2).reads).toBe(DAY_MS / 5000)
  })

  it.each([20, 400, 8000])(
    'is at most a quarter of a percent of the time if a read takes %s ms',
    (duration) => {
      expect(runDay(5000, () => duration).share).toBeLessThan(0.0027)
    },
  )

  it('does not become slow because some reads had to wait', () => {
    expect(runDay(5000, (read) => (read % 3 === 0 ? 2 : 500)).reads).toBeGreaterThan((DAY_MS / 5000) * 0.9)
  })
})
