import { assert, describe, it } from '@effect/vitest'
import { secondsToNextDay, utcDay } from './day.ts'

const at = (text: string) => Date.parse(text)

describe('days of the daily limit', () => {
  it('are UTC', () => {
    assert.strictEqual(utcDay(at('2026-11-21T23:59:59.999Z')), '2026-11-21')
    assert.strictEqual(utcDay(at('2026-11-22T00:00:00.000Z')), '2026-11-22')
    assert.strictEqual(utcDay(at('2026-11-22T02:00:00+03:00')), '2026-11-21')
  })

  it('end at midnight, with a wait of at least a minute', () => {
    assert.strictEqual(secondsToNextDay(at('2026-11-21T00:00:00.000Z')), 86_400)
    assert.strictEqual(secondsToNextDay(at('2026-11-21T22:00:00.001Z')), 7_200)
    assert.strictEqual(secondsToNextDay(at('2026-11-21T22:00:00.999Z')), 7_200)
    assert.strictEqual(secondsToNextDay(at('2026-11-21T22:00:01.000Z')), 7_199)
    assert.strictEqual(secondsToNextDay(at('2026-11-21T23:58:59.000Z')), 61)
    assert.strictEqual(secondsToNextDay(at('2026-11-21T23:59:30.000Z')), 60)
    assert.strictEqual(secondsToNextDay(at('2026-11-21T23:59:59.999Z')), 60)
  })
})
