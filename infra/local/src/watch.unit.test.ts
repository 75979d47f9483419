import { describe, expect, it } from 'vitest'
import { warningOrError } from './watch.ts'

describe('a line of an app log', () => {
  it.each([
    ['{"level":"error","message":"Kafka is down"}', 'Kafka is down'],
    ['{"level":"WARN","message":"slow"}', 'slow'],
    ['{"level":"info","message":"started"}', null],
    ['{"level":"error"}', null],
    ['{"level":', null],
    ['    at Module._compile (node:internal)', null],
  ])('%s is shown as %s', (line, shown) => {
    expect(warningOrError(line)).toBe(shown)
  })
})
