import { expect, it } from 'vitest'
import { EVERY_MS, makeSeldom, MAX_KINDS } from './seldom.ts'

it('lets one line of a kind pass in a while, and tells how many it kept', () => {
  let now = 0
  const isDue = makeSeldom(() => now)
  expect([isDue('a'), isDue('a'), isDue('b'), isDue('a')]).toEqual([0, null, 0, null])
  now = EVERY_MS
  expect([isDue('a'), isDue('a'), isDue('b')]).toEqual([2, null, 0])
})

it('takes kinds without end for one', () => {
  const isDue = makeSeldom(() => 0)
  const passed = Array.from({ length: 1000 }, (_, i) => isDue(`kind ${i}`)).filter((told) => told !== null)
  expect(passed).toHaveLength(MAX_KINDS + 1)
})
