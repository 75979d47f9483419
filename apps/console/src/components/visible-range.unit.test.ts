import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { visibleRange } from './visible-range.ts'

describe('the visible rows of a long table', () => {
  it('are those in the window, with a margin', () => {
    const view = { rows: 1_000_000, rowHeight: 40, viewHeight: 800 }
    expect(visibleRange({ ...view, top: 200 })).toEqual({ from: 0, until: 45 })
    expect(visibleRange({ ...view, top: -40_000 })).toEqual({ from: 970, until: 1_050 })
    expect(visibleRange({ ...view, top: -40 * 1_000_000 })).toEqual({ from: 999_970, until: 1_000_000 })
  })

  it('are never more than the window and the margins, and contain each row that is in the window', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 1_000_000 }),
        fc.integer({ min: 10, max: 200 }),
        fc.integer({ min: -40_000_000, max: 2_000 }),
        fc.integer({ min: 100, max: 4_000 }),
        fc.nat(),
        (rows, rowHeight, top, viewHeight, pick) => {
          const { from, until } = visibleRange({ rows, rowHeight, top, viewHeight })
          expect(from).toBeGreaterThanOrEqual(0)
          expect(until).toBeLessThanOrEqual(rows)
          expect(until - from).toBeLessThanOrEqual(viewHeight / rowHeight + 62)
          if (rows === 0) return
          const row = pick % rows
          const y = top + row * rowHeight
          if (y + rowHeight > 0 && y < viewHeight) {
            expect(row).toBeGreaterThanOrEqual(from)
            expect(row).toBeLessThan(until)
          }
        },
      ),
    )
  })
})
