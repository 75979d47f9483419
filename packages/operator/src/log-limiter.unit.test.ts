import { expect, it } from 'vitest'
import { LOG_INTERVAL_MS, makeLogLimiter, MAX_KINDS } from './log-limiter.ts'

it('passes one line of a kind in each interval, with the number of suppressed lines', () => {
  let now = 0
  const check = makeLogLimiter(() => now)
  expect([check('a'), check('a'), check('b'), check('a')]).toEqual([0, null, 0, null])
  now = LOG_INTERVAL_MS
  expect([check('a'), check('a'), check('b')]).toEqual([2, null, 0])
})

it('treats further kinds as one kind when there are too many', () => {
  const check = makeLogLimiter(() => 0)
  const passed = Array.from({ length: 1000 }, (_, i) => check(`kind ${i}`)).filter((count) => count !== null)
  expect(passed).toHaveLength(MAX_KINDS + 1)
})
