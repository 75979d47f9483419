import { assert, describe, it } from 'vitest'
import { Option } from 'effect'
import { parseAmount } from '../commands/accounts.ts'
import { parseDailyLimit } from '../commands/hub.ts'
import { parseList } from '../commands/opt-outs.ts'
import { parseTimestamp, parseDuration } from './arguments.ts'

describe('parsers of arguments', () => {
  it('accept durations with a unit', () => {
    assert.deepStrictEqual(
      ['0s', '90s', '30m', '2h', '1d'].map(parseDuration),
      [0, 90_000, 1_800_000, 7_200_000, 86_400_000],
    )
    for (const text of ['', '30', 'm', '1.5h', '-1h', '1w', '1h30m', '1234567s', ' 1h']) {
      assert.isNull(parseDuration(text), text)
    }
  })

  it('accept timestamps in UTC, from days to milliseconds', () => {
    assert.strictEqual(parseTimestamp('2026-11-21'), Date.UTC(2026, 10, 21))
    assert.strictEqual(parseTimestamp('2026-11-21T10:05Z'), Date.UTC(2026, 10, 21, 10, 5))
    assert.strictEqual(parseTimestamp('2026-11-21T10:05:07Z'), Date.UTC(2026, 10, 21, 10, 5, 7))
    assert.strictEqual(parseTimestamp('2026-11-21T10:05:07.089Z'), Date.UTC(2026, 10, 21, 10, 5, 7, 89))
    for (const text of [
      '',
      'today',
      '2026-02-30',
      '2026-11-21T10:05',
      '2026-11-21T10Z',
      '2026-11-21T25:00Z',
    ]) {
      assert.isNull(parseTimestamp(text), text)
    }
  })

  it('accept amounts with at most two fraction digits', () => {
    assert.deepStrictEqual(['0', '5', '5.5', '007.25'].map(parseAmount), ['0.00', '5.00', '5.50', '7.25'])
    for (const text of ['', '-5', '5.', '.5', '5.555', '5,50', '1e3', '1234567890']) {
      assert.isNull(parseAmount(text), text)
    }
  })

  it('accept daily limits and none', () => {
    assert.deepStrictEqual(parseDailyLimit('none'), Option.some(null))
    assert.deepStrictEqual(parseDailyLimit('0'), Option.some(0))
    assert.deepStrictEqual(parseDailyLimit('2000000'), Option.some(2_000_000))
    for (const text of ['', '-1', '1.5', 'None', '2000000001', '99999999999']) {
      assert.isTrue(Option.isNone(parseDailyLimit(text)), text)
    }
  })
})

describe('a list of numbers', () => {
  it('has one number per line, or in the first column', () => {
    assert.deepStrictEqual(parseList('+79000000001\n+79000000002'), {
      numbers: ['+79000000001', '+79000000002'],
      bad: [],
    })
    assert.deepStrictEqual(
      parseList('\uFEFFphone,name\r\n"+79000000001",Anna\r\n\r\n+79000000002,"B, C"\r\n'),
      {
        numbers: ['+79000000001', '+79000000002'],
        bad: [],
      },
    )
    assert.deepStrictEqual(parseList('+79000000001\t1\n+79000000001;2'), {
      numbers: ['+79000000001'],
      bad: [],
    })
  })

  it('reports invalid lines, and does not treat a number as a heading', () => {
    assert.deepStrictEqual(parseList('89000000001\n+79000000002\nphone\n+7900000000'), {
      numbers: ['+79000000002'],
      bad: [1, 3, 4],
    })
    assert.deepStrictEqual(parseList(''), { numbers: [], bad: [] })
  })
})
