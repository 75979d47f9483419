import { assert, describe, it } from '@effect/vitest'
import { Clock, Effect, Random } from 'effect'
import { randomBytes, randomUUID } from 'node:crypto'
import { createConnection } from 'node:net'
import { withSimulatedGlobals } from './globals.ts'
import { Timers } from './timers.ts'
import { STARTED_AT, World } from './world.ts'

const worldOf = (seed: number) => new World(seed, { keepTimeline: true })

describe('timers', () => {
  it('fire in the order of their times, and of their creation at one time', () => {
    const timers = new Timers()
    const fired: Array<string> = []
    const at = [5, 3, 9, 3, 1, 7, 3]
    const cancels = at.map((time, i) => timers.add(time, () => fired.push(`${time}/${i}`)))
    cancels[5]!()
    for (let next = timers.nextAt(); next !== null; next = timers.nextAt()) timers.take()()
    assert.deepStrictEqual(fired, ['1/4', '3/1', '3/3', '3/6', '5/0', '9/2'])
  })
})

describe('a simulated process', () => {
  it('sleeps in virtual time, by a clock that can be wrong', () => {
    const world = worldOf(1)
    const process = world.startProcess('a', 3000)
    const times: Array<number> = []
    process.run(
      Effect.gen(function* () {
        times.push(yield* Clock.currentTimeMillis)
        yield* Effect.sleep('1 hour')
        times.push(yield* Clock.currentTimeMillis)
      }),
    )
    world.runFor(2 * 3_600_000)
    assert.deepStrictEqual(times, [STARTED_AT + 3000, STARTED_AT + 3000 + 3_600_000])
  })

  it('runs nothing while it stands still, and continues afterwards', () => {
    const world = worldOf(1)
    const process = world.startProcess('a', 0)
    const ran: Array<number> = []
    process.run(
      Effect.forever(
        Effect.andThen(
          Effect.sleep(1000),
          Effect.sync(() => ran.push(world.now() - STARTED_AT)),
        ),
      ),
    )
    world.runFor(1500)
    process.pause(10_000)
    world.runFor(12_000)
    assert.deepStrictEqual(ran, [1000, 11_500, 12_500, 13_500].slice(0, ran.length))
    assert.isTrue(ran.length >= 3, String(ran))
  })

  it('can die in the middle of its work, without its finalizers', () => {
    const world = worldOf(1)
    const process = world.startProcess('a', 0)
    let steps = 0
    let isFinalized = false
    process.run(
      Effect.forever(
        Effect.andThen(
          Effect.sync(() => steps++),
          Effect.yieldNow,
        ),
      ).pipe(Effect.ensuring(Effect.sync(() => (isFinalized = true)))),
    )
    process.killAfter(5)
    world.runFor(1000)
    assert.isFalse(process.isAlive)
    assert.isTrue(steps >= 1 && steps <= 6, String(steps))
    assert.isFalse(isFinalized)
  })
})

describe('a world', () => {
  const run = (seed: number) => {
    const world = worldOf(seed)
    const order: Array<string> = []
    for (const name of ['a', 'b', 'c']) {
      world.startProcess(name, 0).run(
        Effect.gen(function* () {
          for (let i = 0; i < 5; i++) {
            order.push(name)
            yield* Effect.yieldNow
          }
          order.push(String(yield* Random.nextBetween(0, 1)))
        }),
      )
    }
    world.runFor(1000)
    return { order: order.join(' '), digest: world.digest }
  }

  it('runs the tasks of several processes in an order that the seed determines', () => {
    assert.deepStrictEqual(run(1), run(1))
    assert.notStrictEqual(run(1).order, run(2).order)
  })

  it('replaces the time and the randomness of Node, and restores them', () => {
    const originals = [Date.now, Math.random, randomUUID, setTimeout]
    const values = (seed: number) => {
      const world = worldOf(seed)
      return withSimulatedGlobals(world, () => {
        world.runFor(5000)
        return [Date.now(), performance.now(), Math.random(), randomUUID(), randomBytes(8).toString('hex')]
      })
    }
    assert.deepStrictEqual(values(1), values(1))
    assert.notDeepEqual(values(1).slice(2), values(2).slice(2))
    assert.strictEqual(values(1)[0], STARTED_AT + 5000)
    assert.deepStrictEqual([Date.now, Math.random, randomUUID, setTimeout], originals)
  })

  it('runs the timers of a process in virtual time', () => {
    const world = worldOf(1)
    const fired: Array<number> = []
    withSimulatedGlobals(world, () => {
      world.startProcess('a', 0).post(() => {
        setTimeout(() => fired.push(world.now() - STARTED_AT), 60_000)
        clearTimeout(setTimeout(() => fired.push(-1), 10))
        setImmediate(() => fired.push(world.now() - STARTED_AT))
      })
      world.runFor(120_000)
    })
    assert.deepStrictEqual(fired, [0, 60_000])
  })

  it('has no timers outside of a process, and no connections', () => {
    const within = (act: () => void) =>
      withSimulatedGlobals(worldOf(1), () => assert.throws(act, /not available/u))
    within(() => setTimeout(() => {}, 1))
    within(() => setImmediate(() => {}))
    within(() => createConnection(1))
  })
})
