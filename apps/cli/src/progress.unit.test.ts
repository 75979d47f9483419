import { describe, expect, it } from 'vitest'
import { durationText, progressText } from './progress.ts'

describe('the progress of a long command', () => {
  it.each([
    [0.2, '1 s'],
    [8, '8 s'],
    [65, '1 min 5 s'],
    [3599.5, '1 h 0 min'],
    [3720, '1 h 2 min'],
  ])('shows %d seconds as %s', (seconds, text) => {
    expect(durationText(seconds)).toBe(text)
  })

  it('shows the lines, the rate and the time that is left', () => {
    expect(progressText({ verb: 'Sent', unit: 'lines', done: 250_000, total: 1_000_000, rate: 2500 })).toBe(
      '[######..................] 25 %  Sent 250,000 of 1,000,000 lines, 2,500/s, 5 min 0 s left',
    )
  })

  it('shows neither rate nor time before they are known', () => {
    expect(progressText({ verb: 'Checked', unit: 'rows', done: 3000, total: null, rate: 0 })).toBe(
      'Checked 3,000 rows',
    )
    expect(progressText({ verb: 'Sent', unit: 'lines', done: 0, total: 0, rate: 0 })).toBe(
      '[########################] 100 %  Sent 0 of 0 lines',
    )
  })

  it('shows no share if the file has more lines than were counted', () => {
    expect(progressText({ verb: 'Sent', unit: 'lines', done: 3, total: 1, rate: 0 })).toBe('Sent 3 lines')
  })
})
