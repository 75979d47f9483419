/** Slices of work, on a clock and turns of the test. */
import { assert, describe, it } from 'vitest'
import { makeSlices } from './slices.ts'

const setUp = () => {
  let time = 0
  const turns: Array<() => void> = []
  const slices = makeSlices({
    sliceMs: { shortest: 4, longest: 6 },
    now: () => time,
    nextTurn: (work) => void turns.push(work),
  })
  const done: Array<string> = []
  return {
    done,
    turns,
    /** Work that takes a millisecond. */
    add: (name: string, isUrgent = false) =>
      slices.add(isUrgent, () => {
        time++
        done.push(name)
      }),
    addFailing: () =>
      slices.add(false, () => {
        throw new Error('failed')
      }),
    turn: () => turns.shift()?.(),
    /** The process reads from its sockets. */
    read: (ms: number) => void (time += ms),
  }
}

describe('slices', () => {
  it('run no work in the turn in which it is added, and end after their time', () => {
    const { add, done, turn, turns } = setUp()
    for (let i = 0; i < 10; i++) add(String(i))
    assert.deepStrictEqual(done, [])
    assert.strictEqual(turns.length, 1)
    turn()
    assert.deepStrictEqual(done, ['0', '1', '2', '3'])
    turn()
    turn()
    assert.strictEqual(done.length, 10)
    assert.strictEqual(turns.length, 0)
  })

  it('run urgent work first, and in each slice some of the other work', () => {
    const { add, done, turn } = setUp()
    for (let i = 0; i < 4; i++) add(`other${i}`)
    for (let i = 0; i < 6; i++) add(`urgent${i}`, true)
    turn()
    assert.deepStrictEqual(done, ['other0', 'urgent0', 'urgent1', 'urgent2'])
    turn()
    assert.deepStrictEqual(done.slice(4), ['other1', 'urgent3', 'urgent4', 'urgent5'])
  })

  it('take as long as the time since the last one, up to a bound', () => {
    const { add, done, read, turn } = setUp()
    for (let i = 0; i < 30; i++) add(String(i))
    turn()
    assert.strictEqual(done.length, 4)
    read(5)
    turn()
    assert.strictEqual(done.length, 4 + 5)
    read(100)
    turn()
    assert.strictEqual(done.length, 4 + 5 + 6)
  })

  it('go on after work that fails', () => {
    const { add, addFailing, done, turn } = setUp()
    addFailing()
    add('next')
    assert.throws(turn, 'failed')
    turn()
    assert.deepStrictEqual(done, ['next'])
  })
})
