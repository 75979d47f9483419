import { assert, describe, it } from '@effect/vitest'
import { WrongOptions } from '../support/command-line.ts'
import { MUTATIONS } from './mutations/mutations.ts'
import { commandOf, HELP, readOptions } from './options.ts'
import { FAULT_KINDS, type FaultKind } from './world/faults.ts'

const read = (line: string) => readOptions(line === '' ? [] : line.split(' '))
const errorOf = (line: string): string => {
  try {
    read(line)
  } catch (error) {
    assert.instanceOf(error, WrongOptions, line)
    return (error as WrongOptions).message
  }
  throw new Error(`no error: ${line}`)
}

describe('npm run simulate', () => {
  it('runs seeds by default', () => {
    assert.deepInclude(read(''), { command: 'run', from: 1, seeds: 1000, keepGoing: false, kinds: null })
    assert.deepStrictEqual(read('--seeds 5 --from 7 --threads 1 --faults kill'), {
      command: 'run',
      from: 7,
      seeds: 5,
      threads: 1,
      keepGoing: false,
      kinds: new Set<FaultKind>(['kill']),
    })
  })

  it('replays the run that its own output names', () => {
    for (const line of ['--seed 17', '--seed 17 --size 3 --limit 40 --without 1,2 --faults kill,pause']) {
      const options = read(line)
      assert(options.command === 'replay')
      assert.strictEqual(commandOf(options.plan), `npm run simulate -- ${line}`)
    }
  })

  it('runs all mutations, or those with a text in their names', () => {
    const all = read('--mutations --threads 3')
    assert(all.command === 'mutate')
    assert.deepStrictEqual([all.names.length, all.threads], [MUTATIONS.length, 3])
    assert.deepInclude(read('--mutation lease --threads 1'), {
      command: 'mutate',
      names: MUTATIONS.map(({ name }) => name).filter((name) => name.includes('lease')),
    })
    assert.match(errorOf('--mutation nonsense'), /^No mutation has "nonsense"/u)
    assert.match(errorOf('--mutations --seed 3'), /^--seed cannot be combined/u)
  })

  it('refuses a wrong command line, and says why', () => {
    assert.strictEqual(errorOf('--seed abc'), '--seed must be a whole number from 0 on, not "abc".')
    assert.strictEqual(errorOf('--seeds 0'), '--seeds must be a whole number from 1 on, not "0".')
    assert.strictEqual(errorOf('--seed 1.5'), '--seed must be a whole number from 0 on, not "1.5".')
    assert.strictEqual(
      errorOf('--seed 1 --without 2,x'),
      '--without must be a whole number from 0 on, not "x".',
    )
    assert.match(errorOf('--faults kill,fire'), /^"fire" is not a fault\. The faults are .*kill/u)
    assert.strictEqual(errorOf('--colour red'), "Unknown option '--colour'.")
    assert.match(errorOf('--limit 3'), /^--limit needs --seed/u)
    assert.match(errorOf('--seed 1 --seeds 3'), /^--seeds is for many seeds/u)
  })

  it('lists all faults in its help', () => {
    assert.strictEqual(read('--help').command, 'help')
    for (const kind of FAULT_KINDS) assert.include(HELP, kind)
  })
})
