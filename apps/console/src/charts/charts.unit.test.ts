import { describe, expect, it } from 'vitest'
import { lastHour } from './minutes.ts'
import { performerOf, placeSteps } from './timeline.ts'
import { lineOf, minuteAt, roundUp, SERIES, timeTicks, topOf, valueTicks } from './traffic.ts'

describe('the chart of messages per minute', () => {
  it('ends at a round number that is not below any value', () => {
    expect([0, 1, 3, 5, 6, 10, 11, 49, 50, 51, 1_999].map(roundUp)).toEqual([
      1, 1, 5, 5, 10, 10, 20, 50, 50, 100, 2_000,
    ])
  })

  it('has a point for each minute, and no value above its top', () => {
    const minutes = [
      { at: '', sent: 10, delivered: 5, failed: 0 },
      { at: '', sent: 5, delivered: 0, failed: 1 },
    ]
    const top = topOf(minutes, SERIES)
    expect(top).toBe(10)
    expect(SERIES.map((series) => lineOf(minutes, series, { width: 100, height: 50, top }))).toEqual([
      '0.0,0.0 100.0,25.0',
      '0.0,25.0 100.0,50.0',
      '0.0,50.0 100.0,45.0',
    ])
  })

  it('without a series has the scale of the others', () => {
    const minutes = [
      { at: '', sent: 1_000, delivered: 900, failed: 2 },
      { at: '', sent: 1_000, delivered: 900, failed: 0 },
    ]
    expect(topOf(minutes, ['failed'])).toBe(2)
    expect(topOf(minutes, [])).toBe(1)
  })

  it('has whole numbers at the vertical axis, and quarters of an hour at the horizontal one', () => {
    expect(valueTicks(20)).toEqual([0, 10, 20])
    expect(valueTicks(5)).toEqual([0, 5])
    expect(valueTicks(1)).toEqual([0, 1])
    const minutes = ['09:29', '09:30', '09:31', '09:45'].map((minute) => ({
      at: `2026-11-21T${minute}:00.000Z`,
      sent: 0,
      delivered: 0,
      failed: 0,
    }))
    expect(timeTicks(minutes)).toEqual([1, 3])
  })

  it('finds the minute under the pointer', () => {
    expect([-5, 0, 24, 26, 100, 130].map((x) => minuteAt(x, 100, 3))).toEqual([0, 0, 0, 1, 2, 2])
  })

  it('of an hour without messages is flat', () => {
    const plot = { width: 100, height: 50, top: topOf([], SERIES) }
    expect(lineOf([], 'sent', plot)).toBe('')
    const zero = { at: '', sent: 0, delivered: 0, failed: 0 }
    expect(lineOf([zero, zero], 'sent', plot)).toBe('0.0,50.0 100.0,50.0')
  })
})

describe('the chart of the steps of a message', () => {
  const at = (ms: number): string => new Date(Date.UTC(2026, 10, 21) + ms).toISOString()

  it('goes from the first to the last step, and keeps the order of time', () => {
    const placed = placeSteps([
      { at: at(0), by: 'command-api' },
      { at: at(3), by: 'dispatcher' },
      { at: at(3), by: 'operator' },
      { at: at(3_600_003), by: 'operator' },
    ])
    expect(placed.map(({ elapsed }) => elapsed)).toEqual([0, 3, 3, 3_600_003])
    expect(placed.map(({ gap }) => gap)).toEqual([0, 3, 0, 3_600_000])
    expect(placed[0]!.x).toBe(0)
    expect(placed[3]!.x).toBe(1)
    const distances = placed.slice(1).map(({ x }, i) => x - placed[i]!.x)
    expect(Math.min(...distances)).toBeGreaterThan(0)
    // An hour is longer than 3 ms, and does not hide it.
    expect(distances[2]!).toBeGreaterThan(distances[0]!)
    expect(distances[0]!).toBeGreaterThan(0.05)
  })

  it('places a step with a clock that is behind after the step before it', () => {
    const placed = placeSteps([
      { at: at(10), by: 'dispatcher' },
      { at: at(5), by: 'operator' },
    ])
    expect(placed[1]).toMatchObject({ x: 1, gap: 0, elapsed: 0 })
  })

  it('shows who performed a step', () => {
    expect(performerOf('operator smpp')).toBe('operator')
    expect(performerOf('operator')).toBe('operator')
    expect(performerOf('webhook-fanout')).toBe('webhook-fanout')
  })

  it('places a single step in the middle', () => {
    expect(placeSteps([{ at: at(0), by: 'command-api' }])).toMatchObject([{ x: 0.5 }])
    expect(placeSteps([])).toEqual([])
  })
})

describe('the minutes of the last hour', () => {
  it('are sixty, with zeros where there were no messages', () => {
    const minute = { minute: '2026-11-21T09:29:00.000Z', mode: 'live', class: 'otp', accepted: 3 } as const
    const minutes = [
      { ...minute, sent: 3, delivered: 2, failed: 1 },
      { ...minute, mode: 'test' as const, sent: 9, delivered: 9, failed: 0 },
    ]
    const hour = lastHour({ at: '2026-11-21T09:30:41.000Z', minutes }, 'live', 'otp')
    expect(hour).toHaveLength(60)
    expect(hour[0]).toEqual({ at: '2026-11-21T08:31:00.000Z', sent: 0, delivered: 0, failed: 0 })
    expect(hour[58]).toEqual({ at: '2026-11-21T09:29:00.000Z', sent: 3, delivered: 2, failed: 1 })
    expect(hour[59]!.at).toBe('2026-11-21T09:30:00.000Z')
    expect(hour.reduce((sum, { sent }) => sum + sent, 0)).toBe(3)
  })
})
