import { describe, expect, it } from 'vitest'
import { type KeptRows, MOST_ROWS, withPage } from './kept-rows.ts'

const PAGE = 100
const pageAt = (first: number) => Array.from({ length: PAGE }, (_, i) => first + i)

describe('the rows of a long list', () => {
  it('are a bounded number, the last ones, and their place in the list is known', () => {
    let kept: KeptRows<number> = { rows: [], dropped: 0 }
    for (let first = 0; first < 3 * MOST_ROWS; first += PAGE) {
      kept = withPage(kept, pageAt(first))
      expect(kept.rows.length).toBeLessThanOrEqual(MOST_ROWS)
      expect(kept.dropped + kept.rows.length).toBe(first + PAGE)
      expect(kept.rows[0]).toBe(kept.dropped)
      expect(kept.rows.at(-1)).toBe(first + PAGE - 1)
    }
    // Not only the last screen.
    expect(kept.rows.length).toBeGreaterThan(MOST_ROWS / 3)
  })

  it('are all rows of a list that is not so long', () => {
    let kept: KeptRows<number> = { rows: [], dropped: 0 }
    for (let first = 0; first < MOST_ROWS; first += PAGE) kept = withPage(kept, pageAt(first))
    expect(kept.dropped).toBe(0)
    expect(kept.rows).toHaveLength(MOST_ROWS)
  })
})
