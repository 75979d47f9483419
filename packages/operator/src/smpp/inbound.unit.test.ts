import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { makeReassembler, parsePhoneNumber } from './inbound.ts'

describe('parsePhoneNumber', () => {
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
    expect(parsePhoneNumber(address, ton)).toBe(number)
  })
})

describe('the parts of an inbound text', () => {
  const body = (at: number) => ({ octets: Buffer.from(String(at)), dataCoding: 0 })
  const part = (key: string, of: number, at: number) => ({
    key,
    concatenation: { reference: 1, parts: of, part: at },
    body: body(at),
    item: `${key}${at}`,
  })

  it('are reassembled in any order', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 6 }).chain((n) =>
          fc.shuffledSubarray(
            Array.from({ length: n }, (_, i) => i + 1),
            { minLength: n },
          ),
        ),
        (order) => {
          const reassembler = makeReassembler<string>({ waitMs: 1000, maxParts: 10 })
          const results = order.map((at) => reassembler.add(part('a', order.length, at), 0))
          const whole = order.map((_, i) => i + 1)
          expect(results.slice(0, -1)).toEqual(order.slice(1).map(() => 'waiting'))
          expect(results.at(-1)).toEqual({ bodies: whole.map(body), items: whole.map((at) => `a${at}`) })
          expect(reassembler.size()).toBe(0)
        },
      ),
    )
  })

  it('of different senders or lengths are separate, and a repeated part counts once', () => {
    const reassembler = makeReassembler<string>({ waitMs: 1000, maxParts: 10 })
    expect(reassembler.add(part('a', 2, 1), 0)).toBe('waiting')
    expect(reassembler.add(part('b', 2, 2), 0)).toBe('waiting')
    expect(reassembler.add(part('a', 3, 2), 0)).toBe('waiting')
    expect(reassembler.add(part('a', 2, 1), 0)).toBe('waiting')
    expect(reassembler.add(part('a', 2, 2), 0)).toEqual({
      bodies: [body(1), body(2)],
      items: ['a1', 'a1', 'a2'],
    })
    expect(reassembler.size()).toBe(2)
  })

  it('with an invalid number are texts of their own', () => {
    const reassembler = makeReassembler<string>({ waitMs: 1000, maxParts: 10 })
    expect(reassembler.add(part('a', 2, 3), 0)).toEqual({ bodies: [body(3)], items: ['a3'] })
    expect(reassembler.add(part('a', 2, 0), 0)).toEqual({ bodies: [body(0)], items: ['a0'] })
    expect(reassembler.add(part('a', 1, 1), 0)).toEqual({ bodies: [body(1)], items: ['a1'] })
  })

  it('expire, are limited in number, and are discarded with their session', () => {
    const reassembler = makeReassembler<string>({ waitMs: 1000, maxParts: 2 })
    reassembler.add(part('a', 2, 1), 0)
    reassembler.add(part('b', 2, 1), 500)
    expect(reassembler.add(part('c', 2, 1), 500)).toBe('full')
    expect(reassembler.expired(999)).toEqual([])
    expect(reassembler.expired(1000)).toEqual([{ bodies: [body(1)], items: ['a1'] }])
    reassembler.discard((item) => item === 'b1')
    expect(reassembler.size()).toBe(0)
    expect(reassembler.expired(9999)).toEqual([])
  })
})
