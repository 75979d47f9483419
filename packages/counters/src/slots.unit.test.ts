import { assert, describe, it } from 'vitest'
import { readSlotRanges, slotOf } from './slots.ts'

describe('the slot of a key', () => {
  // Redis cluster specification, "CRC16 reference implementation": the output for "123456789" is 31C3.
  it('is the CRC16 of the key', () => assert.strictEqual(slotOf('123456789'), 0x31c3 % 16_384))

  // Answers of `CLUSTER KEYSLOT` of Redis 6.2 and 7.0.
  it.each([
    ['', 0],
    ['foo', 12_182],
    ['{user1000}.following', 3443],
    ['{user1000}.followers', 3443],
    ['foo{}{bar}', 8363],
    ['foo{{bar}}zap', 4015],
    ['foo{bar}{zap}', 5061],
    ['foo{bar', 15_278],
    ['ключ', 10_303],
  ])('%s: %i', (key, slot) => assert.strictEqual(slotOf(key), slot))
})

describe('the answer of CLUSTER SLOTS', () => {
  it('has the primary of each range, which may not know its host name', () => {
    assert.deepStrictEqual(
      readSlotRanges([
        [0, 5460, ['one.test', 6379, 'id', []], ['replica.test', 6379, 'id', []]],
        [5461, 10_922, [null, 6379, 'id', ['hostname', 'x']]],
        [10_923, 16_383, ['?', 6380, 'id']],
        [7, 7, ['', 6380, 'id']],
      ]),
      [
        { first: 0, last: 5460, host: 'one.test', port: 6379 },
        { first: 5461, last: 10_922, host: null, port: 6379 },
        { first: 10_923, last: 16_383, host: null, port: 6380 },
        { first: 7, last: 7, host: null, port: 6380 },
      ],
    )
  })

  it.each([null, 'text', [1], [[0, 1]], [[0, 16_384, ['a', 1]]], [['0', 1, ['a', 1]]], [[0, 1, ['a', '1']]]])(
    '%j is not one',
    (answer) => assert.isNull(readSlotRanges(answer)),
  )
})
