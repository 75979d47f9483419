import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { makeJoiner, numberOf } from './inbound.ts'

describe('the number of a writer', () => {
  it.each([
    ['79001234567', 1, '+79001234567'],
    ['+79001234567', 0, '+79001234567'],
    ['79001234567', 0, '+79001234567'],
    ['89001234567', 2, '+79001234567'],
    ['9001234567', 2, '+79001234567'],
    ['4915112345678', 1, '+4915112345678'],
    ['4915112345678', 0, null],
    ['7900', 0, null],
    ['77000', 1, null],
    ['HUB', 5, null],
    ['', 1, null],
    ['1'.repeat(16), 1, null],
  ])('%s of type %i: %s', (address, ton, number) => {
    expect(numberOf(address, ton)).toBe(number)
  })
})

describe('parts that somebody wrote', () => {
  const part = (key: string, of: number, at: number, text = String(at)) => ({
    key,
    concatenation: { reference: 1, parts: of, part: at },
    text,
    held: `${key}${at}`,
  })

  it('are put together in any order', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 6 }).chain((n) =>
          fc.shuffledSubarray(
            Array.from({ length: n }, (_, i) => i + 1),
            { minLength: n },
          ),
        ),
        (order) => {
          const joiner = makeJoiner<string>({ waitMs: 1000, maxParts: 10 })
          const told = order.map((at) => joiner.add(part('a', order.length, at), 0))
          const whole = order.map((_, i) => i + 1)
          expect(told.slice(0, -1)).toEqual(order.slice(1).map(() => 'waiting'))
          expect(told.at(-1)).toEqual({ text: whole.join(''), held: whole.map((at) => `a${at}`) })
          expect(joiner.size()).toBe(0)
        },
      ),
    )
  })

  it('of different writers or lengths are kept apart, and one that comes twice counts once', () => {
    const joiner = makeJoiner<string>({ waitMs: 1000, maxParts: 10 })
    expect(joiner.add(part('a', 2, 1), 0)).toBe('waiting')
    expect(joiner.add(part('b', 2, 2), 0)).toBe('waiting')
    expect(joiner.add(part('a', 3, 2), 0)).toBe('waiting')
    expect(joiner.add(part('a', 2, 1), 0)).toBe('waiting')
    expect(joiner.add(part('a', 2, 2), 0)).toEqual({ text: '12', held: ['a1', 'a1', 'a2'] })
    expect(joiner.size()).toBe(2)
  })

  it('that number themselves wrongly stand alone', () => {
    const joiner = makeJoiner<string>({ waitMs: 1000, maxParts: 10 })
    expect(joiner.add(part('a', 2, 3), 0)).toEqual({ text: '3', held: ['a3'] })
    expect(joiner.add(part('a', 2, 0), 0)).toEqual({ text: '0', held: ['a0'] })
    expect(joiner.add(part('a', 1, 1), 0)).toEqual({ text: '1', held: ['a1'] })
  })

  it('are given up in time, bounded in number, and forgotten with their connection', () => {
    const joiner = makeJoiner<string>({ waitMs: 1000, maxParts: 2 })
    joiner.add(part('a', 2, 1), 0)
    joiner.add(part('b', 2, 1), 500)
    expect(joiner.add(part('c', 2, 1), 500)).toBe('full')
    expect(joiner.expired(999)).toEqual([])
    expect(joiner.expired(1000)).toEqual([{ text: '1', held: ['a1'] }])
    joiner.drop((held) => held === 'b1')
    expect(joiner.size()).toBe(0)
    expect(joiner.expired(9999)).toEqual([])
  })
})
