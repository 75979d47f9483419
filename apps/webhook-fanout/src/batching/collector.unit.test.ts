import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type CollectedEvent, Collector } from './collector.ts'

const OPTIONS = { batchEvents: 100, batchWindowMs: 1000 }

const event = (n: number): CollectedEvent => ({ id: `evt_${n}`, sequence: n, body: `{"n":${n}}`, offset: n })

const collectorWith = (count: number, at: number, from = 1) => {
  const collector = new Collector<string>(OPTIONS)
  for (let n = from; n < from + count; n++) collector.add('we_a', event(n), at)
  return collector
}
const sizes = (cuts: ReadonlyArray<{ readonly events: ReadonlyArray<unknown> }>) =>
  cuts.map((cut) => cut.events.length)

describe('a batch closes', () => {
  it('with its hundredth event, at once', () => {
    const collector = collectorWith(99, 0)
    expect(collector.nextDue()).toBe(1000)
    expect(collector.cut(999, 10_000)).toEqual([])
    collector.add('we_a', event(100), 10)
    expect(collector.nextDue()).toBe(Number.NEGATIVE_INFINITY)
    expect(sizes(collector.cut(10, 10_000))).toEqual([100])
  })

  it('one second after its first event, not its last', () => {
    const collector = collectorWith(1, 5000)
    collector.add('we_a', event(2), 5900)
    expect(collector.nextDue()).toBe(6000)
    expect(collector.cut(5999, 10_000)).toEqual([])
    expect(sizes(collector.cut(6000, 10_000))).toEqual([2])
  })

  it('what came behind a full batch waits its own second', () => {
    const collector = collectorWith(100, 0)
    for (let n = 101; n <= 103; n++) collector.add('we_a', event(n), 700)
    const first = collector.cut(700, 10_000)
    expect(sizes(first)).toEqual([100])
    collector.remove(first)
    expect(collector.nextDue()).toBe(1700)
    expect(sizes(collector.cut(1700, 10_000))).toEqual([3])
  })

  it('for each subscription by itself', () => {
    const collector = new Collector<string>(OPTIONS)
    collector.add('we_a', event(1), 0)
    collector.add('we_b', event(1), 500)
    expect(collector.cut(1000, 10_000).map((cut) => cut.subscription)).toEqual(['we_a'])
    expect(collector.cut(1500, 10_000).map((cut) => cut.subscription)).toEqual(['we_a', 'we_b'])
  })
})

describe('what is cut', () => {
  it('stays until it is stored, and comes again when that failed', () => {
    const collector = collectorWith(3, 0)
    const once = collector.cut(1000, 10_000)
    collector.add('we_a', event(4), 1001)
    expect(collector.lowestOffset()).toBe(1)
    expect(collector.lowestOffset(once)).toBe(4)
    expect(collector.cut(1002, 10_000)).toMatchObject([{ events: [1, 2, 3, 4].map(event) }])
    collector.remove(once)
    expect(collector.lowestOffset()).toBe(4)
    expect(collector.events).toBe(1)
    expect(collector.characters).toBe(event(4).body.length)
  })

  it('is bounded, and at least one batch', () => {
    const collector = collectorWith(450, 0)
    expect(sizes(collector.cut(0, 250))).toEqual([100, 100])
    expect(sizes(collector.cut(0, 1))).toEqual([100])
    expect(sizes(collector.cut(1000, 10_000))).toEqual([100, 100, 100, 100, 50])
  })

  it('of a subscription that is gone meanwhile is not missed', () => {
    const collector = collectorWith(3, 0)
    const cuts = collector.cut(1000, 10_000)
    collector.drop('we_a')
    expect([collector.events, collector.characters, collector.lowestOffset()]).toEqual([0, 0, null])
    collector.add('we_a', event(9), 1000)
    collector.remove(cuts)
    expect(collector.events).toBe(1)
  })
})

it('whatever happens, every event is cut once, in order, and the lowest offset is that of the oldest left', () => {
  const step = fc.oneof(
    fc.record({
      kind: fc.constant('add' as const),
      to: fc.constantFrom('a', 'b', 'c'),
      count: fc.integer({ min: 1, max: 9 }),
    }),
    fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 15 }) }),
    fc.record({
      kind: fc.constant('flush' as const),
      limit: fc.integer({ min: 1, max: 12 }),
      stored: fc.boolean(),
    }),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const collector = new Collector<string>({ batchEvents: 4, batchWindowMs: 10 })
      const added = new Map<string, Array<number>>()
      const flushed = new Map<string, Array<number>>()
      let now = 0
      let next = 0
      const flush = (limit: number, stored: boolean) => {
        const cuts = collector.cut(now, limit)
        for (const cut of cuts) expect(cut.events.length).toBeLessThanOrEqual(4)
        const due = collector.nextDue()
        expect(cuts.length > 0).toBe(due !== null && due <= now)
        if (!stored) return
        const after = collector.lowestOffset(cuts)
        collector.remove(cuts)
        expect(collector.lowestOffset()).toBe(after)
        for (const cut of cuts) {
          flushed.set(cut.subscription, [
            ...(flushed.get(cut.subscription) ?? []),
            ...cut.events.map(({ offset }) => offset),
          ])
        }
      }
      for (const one of steps) {
        if (one.kind === 'wait') now += one.ms
        else if (one.kind === 'flush') flush(one.limit, one.stored)
        else {
          for (let i = 0; i < one.count; i++) {
            collector.add(one.to, event(next), now)
            added.set(one.to, [...(added.get(one.to) ?? []), next])
            next += 1
          }
        }
        const left = [...added].flatMap(([to, offsets]) => offsets.slice(flushed.get(to)?.length ?? 0))
        expect(collector.events).toBe(left.length)
        expect(collector.lowestOffset()).toBe(left.length === 0 ? null : Math.min(...left))
      }
      now += 10
      while (collector.events > 0) flush(8, true)
      expect(flushed).toEqual(added)
    }),
  )
})
