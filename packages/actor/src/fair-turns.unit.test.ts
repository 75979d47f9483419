/** Turns of accounts, with the bounds of start-time fair queueing. */
import { assert, describe, it } from '@effect/vitest'
import fc from 'fast-check'
import { FairTurns } from './fair-turns.ts'

const MAX_PARTS = 10

/** Items that wait, by account and source. Each is its number of parts. */
class Waiting {
  readonly turns = new FairTurns<number>()
  readonly #items = new Map<string, Array<number>>()
  readonly taken: Array<{ readonly account: string; readonly source: number; readonly parts: number }> = []
  readonly #weights: ReadonlyMap<string, number>

  constructor(weights: ReadonlyMap<string, number>) {
    this.#weights = weights
  }

  #of(account: string, source: number): Array<number> {
    const key = `${account} ${source}`
    const items = this.#items.get(key) ?? []
    this.#items.set(key, items)
    return items
  }

  get count(): number {
    return [...this.#items.values()].reduce((sum, items) => sum + items.length, 0)
  }

  push(account: string, source: number, parts: number): void {
    this.#of(account, source).push(parts)
    this.turns.add(account, source)
  }

  /** Takes one item; `false` without any. */
  take(): boolean {
    for (;;) {
      const peeked = this.turns.peek()
      const turn = this.turns.next()
      assert.deepStrictEqual(peeked, turn)
      if (turn === null) return false
      const { account, source } = turn
      const parts = this.#of(account, source).shift()
      if (parts === undefined) {
        this.turns.emptied(account, source)
        continue
      }
      this.turns.served(account, parts / (this.#weights.get(account) ?? 1))
      this.taken.push({ account, source, parts })
      return true
    }
  }
}

const ACCOUNTS = ['a', 'b', 'c', 'd']
const weights = fc
  .tuple(...ACCOUNTS.map(() => fc.integer({ min: 1, max: 100 })))
  .map((each) => new Map(ACCOUNTS.map((account, i) => [account, each[i]!])))
const parts = fc.integer({ min: 1, max: MAX_PARTS })

describe('FairTurns', () => {
  it('gives accounts that always wait shares in proportion to their weights', () => {
    fc.assert(
      fc.property(weights, fc.array(parts, { minLength: 50, maxLength: 300 }), (weightOf, sizes) => {
        const waiting = new Waiting(weightOf)
        // More than can be taken.
        for (const account of ACCOUNTS) for (const size of sizes) waiting.push(account, 0, size)
        const had = new Map(ACCOUNTS.map((account) => [account, 0]))
        for (let i = 0; i < sizes.length; i++) {
          assert.isTrue(waiting.take())
          const { account, parts: size } = waiting.taken.at(-1)!
          had.set(account, had.get(account)! + size / weightOf.get(account)!)
          for (const one of ACCOUNTS) {
            for (const other of ACCOUNTS) {
              assert.isAtMost(
                had.get(one)! - had.get(other)!,
                MAX_PARTS / weightOf.get(one)! + MAX_PARTS / weightOf.get(other)! + 1e-6,
              )
            }
          }
        }
      }),
    )
  })

  it('starves no account: a new one waits for at most its share of one item of each other', () => {
    fc.assert(
      fc.property(weights, fc.nat(200), parts, (weightOf, before, size) => {
        const waiting = new Waiting(weightOf)
        const [newcomer = '', ...others] = ACCOUNTS
        for (const account of others) for (let i = 0; i < 2000; i++) waiting.push(account, 0, MAX_PARTS)
        for (let i = 0; i < before; i++) waiting.take()
        waiting.push(newcomer, 0, size)
        const from = waiting.taken.length
        while (waiting.taken.at(-1)?.account !== newcomer) assert.isTrue(waiting.take())
        for (const account of others) {
          const meanwhile = waiting.taken.slice(from).filter((item) => item.account === account)
          assert.isAtMost(meanwhile.length, 1, 'the newcomer starts beside the others, not behind them')
        }
      }),
    )
  })

  it('gives an account that was idle no more than the others from then on', () => {
    const waiting = new Waiting(new Map())
    for (let i = 0; i < 1000; i++) waiting.push('a', 0, 1)
    for (let i = 0; i < 500; i++) waiting.take()
    for (let i = 0; i < 1000; i++) waiting.push('b', 0, 1)
    for (let i = 0; i < 100; i++) waiting.take()
    const count = (account: string) =>
      waiting.taken.slice(500).filter((item) => item.account === account).length
    assert.deepStrictEqual([count('a'), count('b')], [50, 50])
  })

  it('counts an item that was taken in the turn of another account for its own account', () => {
    const turns = new FairTurns<number>()
    turns.add('a', 0)
    turns.add('b', 0)
    turns.served('a', 5)
    const next = Array.from({ length: 6 }, () => {
      const { account } = turns.next()!
      turns.served(account, 1)
      return account
    })
    assert.deepStrictEqual(next.slice(0, 5), ['b', 'b', 'b', 'b', 'b'])
  })

  it('lets the sources of an account take turns', () => {
    const waiting = new Waiting(new Map())
    for (let i = 0; i < 3; i++) for (const source of [7, 8, 9]) waiting.push('a', source, 1)
    while (waiting.take());
    assert.deepStrictEqual(
      waiting.taken.map(({ source }) => source),
      [7, 8, 9, 7, 8, 9, 7, 8, 9],
    )
  })

  it('is never idle while an item waits, and takes each item once', () => {
    const step = fc.oneof(
      fc.record({
        do: fc.constant('push' as const),
        account: fc.constantFrom(...ACCOUNTS),
        source: fc.nat(2),
        parts,
      }),
      fc.record({ do: fc.constant('take' as const) }),
    )
    fc.assert(
      fc.property(weights, fc.array(step, { maxLength: 200 }), (weightOf, steps) => {
        const waiting = new Waiting(weightOf)
        let pushed = 0
        for (const next of steps) {
          if (next.do === 'push') {
            waiting.push(next.account, next.source, next.parts)
            pushed++
            continue
          }
          const waits = pushed > waiting.taken.length
          assert.strictEqual(waiting.take(), waits)
        }
        while (waiting.take());
        assert.strictEqual(waiting.taken.length, pushed)
        assert.strictEqual(waiting.count, 0)
      }),
    )
  })
})
