/** The selection of cells: by command line, by day, and their division into waves. */
import { describe, expect, it } from 'vitest'
import { WrongOptions } from '../../support/command-line.ts'
import { CRASH_FAULTS } from '@hub/crash-points'
import { CELLS, cellsOfPart, partOf, PARTS, POINTS, readOptions, wavesOf } from './cells.ts'

describe('the command line', () => {
  it('selects all cells, those of a point, of a fault, and one cell', () => {
    expect(readOptions([])).toEqual({ command: 'run', cells: CELLS })
    expect(readOptions(['--point', 'dispatcher.submitted'])).toMatchObject({ cells: { length: 3 } })
    const two = 'dispatcher.submitted,command-api.recorded'
    expect(readOptions(['--point', two])).toMatchObject({ cells: { length: 6 } })
    expect(readOptions(['--fault', 'kill'])).toMatchObject({ cells: { length: POINTS.length } })
    const cell = { point: 'dispatcher.submitted', fault: 'stop' }
    expect(readOptions(['--point', cell.point, '--fault', cell.fault])).toEqual({
      command: 'run',
      cells: [cell],
    })
  })

  it.each([
    [['--point', 'nowhere'], /"nowhere" is not a point\. The points are command-api\.key-acquired, /u],
    [['--fault', 'fire'], /"fire" is not a fault\. The faults are kill, stop, reported-failure\./u],
    [['--part', '20'], /--part must be a whole number from 0 to 19, not "20"\./u],
    [['--part', ''], /--part must be a whole number/u],
    [['--speed', '1'], /speed/u],
  ])('refuses %j with a sentence', (args, message) => {
    expect(() => readOptions(args)).toThrow(WrongOptions)
    expect(() => readOptions(args)).toThrow(message)
  })
})

describe('the parts', () => {
  const parts = Array.from({ length: PARTS }, (_, part) => cellsOfPart(part))

  it('contain each cell once', () => {
    expect(new Set(parts.flat())).toEqual(new Set(CELLS))
    expect(parts.flat()).toHaveLength(CELLS.length)
  })

  it('have points of all apps and all faults', () => {
    const apps = ['command-api', 'dispatcher', 'projector', 'webhook-fanout']
    for (const part of parts) {
      expect(part.map(({ point }) => point.split('.')[0])).toEqual(expect.arrayContaining(apps))
      expect(part.map(({ fault }) => fault)).toEqual(expect.arrayContaining([...CRASH_FAULTS]))
    }
  })

  it('rotate with the days, unless the setting names one', () => {
    const day = 86_400_000
    expect([0, 1, 19, 20].map((days) => partOf(undefined, days * day))).toEqual([0, 1, 19, 0])
    expect(partOf('13', 0)).toBe(13)
    expect(() => partOf('x', 0)).toThrow('HUB_CRASH_PART')
    expect(() => partOf('20', 0)).toThrow('HUB_CRASH_PART must be a whole number from 0 to 19.')
  })
})

describe('the waves', () => {
  it('contain each cell once, no point twice, and at most one stop of a command-api', () => {
    const waves = wavesOf(CELLS, 8, ({ point }) => point === 'dispatcher.submitted')
    expect(waves.flat()).toHaveLength(CELLS.length)
    expect(new Set(waves.flat())).toEqual(new Set(CELLS))
    for (const wave of waves) {
      expect(new Set(wave.map(({ point }) => point)).size).toBe(wave.length)
      const stops = wave.filter(({ fault, point }) => fault === 'stop' && point.startsWith('command-api.'))
      expect(stops.length).toBeLessThanOrEqual(1)
      expect(wave.length).toBeLessThanOrEqual(8)
      if (wave.some(({ point }) => point === 'dispatcher.submitted')) expect(wave).toHaveLength(1)
    }
  })
})
