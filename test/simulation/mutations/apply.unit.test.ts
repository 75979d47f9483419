import { assert, describe, it } from '@effect/vitest'
import { applyMutation } from './apply.ts'

const SOURCE = `
export const LIMIT = 10
class Lane {
  #open = new Map()
  read(offset: number) {
    // The first one.
    if (offset < 0) return null
    return this.#open.get(
      offset,
    )
  }
  readAll() { return [this.read(0), this.read(1), this.read(1)] }
}
const makeLog = () => {
  const read = (offset: number) => offset + 1
  return { read, close: () => read(LIMIT) }
}
`
const mutate = (path: string, find: string, replace: string) =>
  applyMutation(SOURCE, { name: 'a fault', file: 'lane.ts', in: path, find, replace })

describe('a mutation', () => {
  it('replaces an expression, whatever its format', () => {
    assert.strictEqual(
      mutate('Lane.read', 'this.#open.get(offset)', 'undefined'),
      SOURCE.replace('this.#open.get(\n      offset,\n    )', 'undefined'),
    )
    assert.strictEqual(mutate('LIMIT', '1_0', '20'), SOURCE.replace('LIMIT = 10', 'LIMIT = 20'))
  })

  it('replaces statements, whatever their comments', () => {
    const find = 'if (offset < 0) return null; return this.#open.get(offset)'
    assert.include(mutate('Lane.read', find, 'return 0'), '// The first one.\n    return 0\n  }')
  })

  it('changes the declaration that it names', () => {
    assert.include(mutate('makeLog.read', 'offset', 'LIMIT'), '(offset: number) => LIMIT + 1')
    assert.include(mutate('makeLog.close', 'LIMIT', '0'), 'close: () => read(0)')
  })

  it('names what does not fit', () => {
    assert.throws(
      () => mutate('Lane.write', 'offset', '0'),
      /"a fault" does not fit lane\.ts: .*Lane\.write occurs 0/u,
    )
    assert.throws(
      () => mutate('read', 'offset + 1', 'offset'),
      /the declaration read occurs 2 times, not once/u,
    )
    assert.throws(
      () => mutate('makeLog', 'offset + 2', 'offset'),
      /in makeLog, offset \+ 2 occurs 0 times, not once/u,
    )
    assert.throws(() => mutate('Lane.readAll', 'this.read(1)', 'null'), /this\.read\(1\) occurs 2 times/u)
    assert.throws(() => mutate('LIMIT', '10', '1e1'), /the replacement is the same as 10/u)
    assert.throws(() => mutate('LIMIT', '10', '10 )'), /"a fault" does not fit/u)
    assert.throws(() => mutate('LIMIT', '', '10'), /nothing is neither an expression nor statements/u)
  })
})
