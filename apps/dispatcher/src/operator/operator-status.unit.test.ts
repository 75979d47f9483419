import { assert, describe, it } from 'vitest'
import { makeStatusReports, type ObservedOperator } from './operator-status.ts'

const smpp = (more: Partial<ObservedOperator> = {}): ObservedOperator => ({
  name: 'smpp',
  binds: [{ role: 'transceiver', established: 2, wanted: 2 }],
  rate: 40,
  configured: 50,
  passedParts: 0,
  throttledParts: 0,
  ...more,
})

const binds = (established: number) => [{ role: 'transceiver' as const, established, wanted: 2 }]

describe('the reports about operators', () => {
  it('have the answered parts per second since the report before', () => {
    const report = makeStatusReports()
    const first = report([smpp({ passedParts: 700 })], 1_000_000)
    assert.deepStrictEqual([first[0]?.passed, first[0]?.throttled], [0, 0])
    const second = report([smpp({ passedParts: 900, throttledParts: 5 })], 1_005_000)
    assert.deepStrictEqual([second[0]?.passed, second[0]?.throttled], [40, 1])
    const idle = report([smpp({ passedParts: 900, throttledParts: 5 })], 1_010_000)
    assert.deepStrictEqual([idle[0]?.passed, idle[0]?.throttled], [0, 0])
  })

  it('say since when so many binds are established', () => {
    const report = makeStatusReports()
    const since = (established: number, now: number) =>
      report([smpp({ binds: binds(established) })], now)[0]?.binds[0]?.since
    assert.strictEqual(since(2, 1000), 1000)
    assert.strictEqual(since(2, 2000), 1000)
    assert.strictEqual(since(1, 3000), 3000)
    assert.strictEqual(since(1, 4000), 3000)
    assert.strictEqual(since(2, 5000), 5000)
  })

  it('have no negative pace if the clock is set back', () => {
    const report = makeStatusReports()
    report([smpp()], 5000)
    assert.strictEqual(report([smpp({ passedParts: 10 })], 4000)[0]?.passed, 0)
  })
})
