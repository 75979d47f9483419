import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fromTimestamp, toTimestamp } from './timestamp.ts'

describe('timestamps', () => {
  // Rules: GEN-5
  it('have milliseconds and a Z, and parse to the same moment', () => {
    expect(toTimestamp(0)).toBe('1970-01-01T00:00:00.000Z')
    fc.assert(
      fc.property(fc.nat({ max: 4_102_444_800_000 }), (ms) => {
        expect(fromTimestamp(toTimestamp(ms))).toBe(ms)
      }),
    )
  })

  // Rules: GEN-5
  it.each([
    '2026-11-21',
    '2026-11-21T10:00:00Z',
    '2026-11-21T10:00:00.000',
    '2026-11-21T10:00:00.000+03:00',
    '2026-02-30T10:00:00.000Z',
    '0000-01-01T00:00:00.000Z',
    '2026-13-01T10:00:00.000Z',
    '2026-11-21T24:00:00.000Z',
    '2026-11-21t10:00:00.000z',
    '2026-11-21T10:00:00.000Z\n',
    '',
  ])('in another form are rejected: %j', (text) => {
    expect(fromTimestamp(text)).toBeNull()
  })
})
