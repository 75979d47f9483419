import { describe, expect, it } from 'vitest'
import { commandOf, readOptions } from './options.ts'
import { FAULT_NAMES } from './schedule.ts'

describe('the command line of histories', () => {
  it('has defaults', () => {
    expect(readOptions([])).toEqual({
      command: 'run',
      runs: 1,
      run: {
        seed: 1,
        rate: 500,
        seconds: 300,
        faults: FAULT_NAMES,
        out: '.local/histories',
        keep: false,
        maxBytes: 1024 * 1024 * 1024,
      },
    })
  })

  it('reads seeds, faults and sizes', () => {
    expect(
      readOptions([
        '--runs',
        '20',
        '--seed',
        '7',
        '--faults',
        'kill,redis-loss',
        '--rate',
        '50',
        '--max-mb',
        '2',
      ]),
    ).toMatchObject({
      runs: 20,
      run: { seed: 7, faults: ['kill', 'redis-loss'], rate: 50, maxBytes: 2 * 1024 * 1024 },
    })
    expect(readOptions(['--faults', 'none'])).toMatchObject({ run: { faults: [] } })
    expect(readOptions(['--help'])).toEqual({ command: 'help' })
  })

  it.each([
    [['--seed', '3', '--rate', '500', '--seconds', '300']],
    [['--seed', '4', '--rate', '9', '--seconds', '8', '--faults', 'kill,stop']],
    [['--seed', '4', '--rate', '9', '--seconds', '8', '--faults', 'none']],
  ])('%j is the command that repeats a run', (args) => {
    const options = readOptions(args)
    if (options.command !== 'run') throw new Error('no run')
    expect(commandOf(options.run)).toBe(`npm run histories -- ${args.join(' ')}`)
  })

  it.each([
    [['--faults', 'meteor'], '"meteor" is not a fault. The faults are kill, '],
    [['--seed', 'abc'], '--seed must be a whole number from 0 to '],
    [['--runs', '0'], '--runs must be a whole number from 1 to 1000, not "0".'],
    [['--rate', '-5'], 'rate'],
    [['--seconds', '1'], '--seconds must be a whole number from 5 to 86400, not "1".'],
    [['--colour'], "Unknown option '--colour'"],
  ])('refuses %j', (args, message) => {
    expect(() => readOptions(args)).toThrow(message)
  })
})
