/** The server delay: its bounds for any measurements, and what it follows. */
import fc from 'fast-check'
import { assert, describe, it } from 'vitest'
import { WORK_KINDS } from './work-kinds.ts'
import { BUSY_UTILIZATION, LONGEST_MS, makeServerDelay, SLOW_MS, WINDOW_MS } from './server-delay.ts'

const IDLE = 0.3
const SAMPLE_MS = 100
const kind = fc.constantFrom(...WORK_KINDS)

/** Ends some samples. In each of them, `service` sends were accepted after these times. */
const follow = (
  server: ReturnType<typeof makeServerDelay>,
  samples: number,
  times: ReadonlyArray<number>,
  utilization = IDLE,
): void => {
  for (let i = 0; i < samples; i++) {
    for (const ms of times) server.accepted('service', ms)
    server.sample(SAMPLE_MS, utilization)
  }
}

describe('the server delay', () => {
  it('is 0 or between its bounds, is not lower for a less urgent kind, and ends with the acceptances', () => {
    const step = fc.record({
      kind,
      times: fc.array(fc.integer({ min: 0, max: 5000 }), { maxLength: 3 }),
      ms: fc.integer({ min: 1, max: 2000 }),
      utilization: fc.double({ min: 0, max: 1, noNaN: true }),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const server = makeServerDelay()
        for (const one of steps) {
          for (const ms of one.times) server.accepted(one.kind, ms)
          server.sample(one.ms, one.utilization)
          const added = WORK_KINDS.map((each) => server.addedMs(each))
          for (const ms of added) assert.isTrue(ms === 0 || (ms >= SLOW_MS && ms <= LONGEST_MS), String(ms))
          assert.deepStrictEqual(
            added,
            added.toSorted((a, b) => a - b),
          )
        }
        follow(server, (2 * WINDOW_MS) / SAMPLE_MS, [])
        for (const each of WORK_KINDS) assert.strictEqual(server.addedMs(each), 0)
      }),
    )
  })

  it('is the least time of the last window, however many sends took longer', () => {
    const server = makeServerDelay()
    follow(server, 1, [400, 1900, 2500])
    assert.strictEqual(server.addedMs('service'), 400)
    assert.strictEqual(server.addedMs('batch'), 400)
    assert.strictEqual(server.addedMs('otp'), 0)
    follow(server, (2 * WINDOW_MS) / SAMPLE_MS, [700])
    assert.strictEqual(server.addedMs('service'), 700)
    // One fast send proves fast servers.
    follow(server, 1, [20, 700])
    assert.strictEqual(server.addedMs('service'), 0)
  })

  it('does not count times of a process that is busy itself', () => {
    const server = makeServerDelay()
    follow(server, 20, [900], BUSY_UTILIZATION)
    assert.strictEqual(server.addedMs('service'), 0)
    follow(server, 1, [900])
    assert.strictEqual(server.addedMs('service'), 900)
  })
})
