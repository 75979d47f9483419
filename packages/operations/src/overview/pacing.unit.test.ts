import { describe, expect, it } from 'vitest'
import { afterFailure, afterRead, isDue, newPace } from './pacing.ts'

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

  it('is the wanted one again soon after a server was unavailable', () => {
    let pace = newPace(5000)
    let now = 0
    for (let read = 0; read < 5; read++) {
      pace = afterFailure(pace, now, now + 9000)
      now = pace.dueAt
    }
    const recoveredAt = now - 90_000
    expect(isDue(pace, recoveredAt + 90_000)).toBe(true)
    for (let read = 0; read < 5; read++) {
      pace = afterRead(pace, now, now + 2)
      now = pace.dueAt
    }
    expect(now - recoveredAt).toBe(90_000 + 5 * 5000)
  })
})
