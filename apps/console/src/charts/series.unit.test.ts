import { describe, expect, it } from 'vitest'
import { floorOfShares, levelOf, segmentsOf, tickParts, worstRanges } from './series.ts'

describe('a line of insights', () => {
  it('has gaps where there is no value', () => {
    const plot = { width: 100, height: 50, bottom: 0.5, top: 1 }
    expect(segmentsOf([1, 0.5, null, 0.75, null], plot)).toEqual([
      [
        { x: 0, y: 0 },
        { x: 25, y: 50 },
      ],
      [{ x: 75, y: 25 }],
    ])
    expect(segmentsOf([null, null], plot)).toEqual([])
    expect(segmentsOf([1], plot)).toEqual([[{ x: 0, y: 0 }]])
  })

  it('begins at the tenth below the smallest share', () => {
    expect(floorOfShares([[0.97, 1], [null]])).toBe(0.9)
    expect(floorOfShares([[0.97], [0.61]])).toBe(0.6)
    expect(floorOfShares([[0]])).toBe(0)
    expect(floorOfShares([])).toBe(0.9)
  })

  it('has labels at even distances, and one at its end', () => {
    expect(tickParts(24, 4)).toEqual([5, 11, 17, 23])
    expect(tickParts(3, 10)).toEqual([0, 1, 2])
    expect(tickParts(2, 0)).toEqual([1])
  })
})

describe('the heat map', () => {
  it('has five levels', () => {
    expect([1, 0.95, 0.9, 0.8, 0.79, 0.5, 0.49, 0, null].map(levelOf)).toEqual([
      'good',
      'good',
      'fair',
      'fair',
      'poor',
      'poor',
      'bad',
      'bad',
      'none',
    ])
  })

  it('shows the ranges with the most failed messages first', () => {
    const cell = { at: '', accepted: 10, delivered: 10, final: 10 }
    const cells = [
      { ...cell, range: '901' },
      { ...cell, range: '902', delivered: 8 },
      { ...cell, range: '903', accepted: 11 },
      { ...cell, range: '902', delivered: 9 },
      { ...cell, range: '904', delivered: 9 },
    ]
    expect(worstRanges(cells, 10)).toEqual(['902', '904', '903', '901'])
    expect(worstRanges(cells, 2)).toEqual(['902', '904'])
  })
})
