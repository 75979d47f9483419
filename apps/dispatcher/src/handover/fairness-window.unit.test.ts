import { assert, describe, it } from '@effect/vitest'
import { FairnessWindow, jainIndex } from './fairness-window.ts'

const MINUTE = 60

/** Samples of seconds in which each account has so much. Returns the last index. */
const pass = (window: FairnessWindow, seconds: number, amounts: Readonly<Record<string, number>>): number => {
  let index = 1
  for (let second = 0; second < seconds; second++) {
    for (const [account, amount] of Object.entries(amounts)) window.accepted(account, amount)
    index = window.sample(new Set(Object.keys(amounts)))
  }
  return index
}

describe("Jain's index", () => {
  it('is 1 for equal values, and 1/n if one has everything', () => {
    assert.strictEqual(jainIndex([]), 1)
    assert.strictEqual(jainIndex([0, 0]), 1)
    assert.strictEqual(jainIndex([7, 7, 7]), 1)
    assert.strictEqual(jainIndex([5, 0, 0, 0]), 0.25)
  })
})

describe('the fairness of a minute', () => {
  it('is that of the accounts that waited all the time', () => {
    const window = new FairnessWindow()
    assert.strictEqual(pass(window, MINUTE - 1, { a: 3, b: 1 }), 1, 'nobody has waited for a minute')
    assert.strictEqual(pass(window, 1, { a: 3, b: 1 }), 16 / 20)
    // A small account has everything that it asks for.
    window.accepted('c', 1)
    assert.strictEqual(window.sample(new Set(['a', 'b'])) < 0.82, true)
    assert.strictEqual(pass(window, MINUTE, { a: 2, b: 2 }), 1)
  })

  it('begins again when an account does not wait', () => {
    const window = new FairnessWindow()
    pass(window, MINUTE, { a: 3, b: 1 })
    window.sample(new Set(['a']))
    assert.strictEqual(pass(window, MINUTE - 1, { a: 3, b: 1 }), 1)
    assert.strictEqual(pass(window, 1, { a: 3, b: 1 }), 16 / 20)
  })

  it('counts an account that waits and gets nothing', () => {
    const window = new FairnessWindow()
    assert.strictEqual(pass(window, MINUTE, { a: 4, b: 0 }), 0.5)
  })
})
