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
const sizes = (batches: ReadonlyArray<{ readonly events: ReadonlyArray<unknown> }>) =>
  batches.map(({ events }) => events.length)

describe('a batch is due', () => {
  // Rules: DEL-2
  it('at once with its hundredth event', () => {
    const collector = collectorWith(99, 0)
    expect(collector.nextDue()).toBe(1000)
    expect(collector.dueBatches(999, 10_000)).toEqual([])
    collector.add('we_a', event(100), 10)
    expect(collector.nextDue()).toBe(Number.NEGATIVE_INFINITY)
    expect(sizes(collector.dueBatches(10, 10_000))).toEqual([100])
  })

  // Rules: DEL-2
  it('one second after its first event, not its last', () => {
    const collector = collectorWith(1, 5000)
    collector.add('we_a', event(2), 5900)
    expect(collector.nextDue()).toBe(6000)
    expect(collector.dueBatches(5999, 10_000)).toEqual([])
    expect(sizes(collector.dueBatches(6000, 10_000))).toEqual([2])
  })

  it('one second after the first event behind a full batch', () => {
    const collector = collectorWith(100, 0)
    for (let n = 101; n <= 103; n++) collector.add('we_a', event(n), 700)
    const first = collector.dueBatches(700, 10_000)
    expect(sizes(first)).toEqual([100])
    collector.markStored(first)
    expect(collector.nextDue()).toBe(1700)
    expect(sizes(collector.dueBatches(1700, 10_000))).toEqual([3])
  })

  it('for each subscription separately', () => {
    const collector = new Collector<string>(OPTIONS)
    collector.add('we_a', event(1), 0)
    collector.add('we_b', event(1), 500)
    expect(collector.dueBatches(1000, 10_000).map(({ subscription }) => subscription)).toEqual(['we_a'])
    expect(collector.dueBatches(1500, 10_000).map(({ subscription }) => subscription)).toEqual([
      'we_a',
      'we_b',
    ])
  })
})

describe('due batches', () => {
  it('stay until they are stored, and are due again when that failed', () => {
    const collector = collectorWith(3, 0)
    const once = collector.dueBatches(1000, 10_000)
    collector.add('we_a', event(4), 1001)
    expect(collector.lowestOffset()).toBe(1)
    expect(collector.lowestOffset(once)).toBe(4)
    expect(collector.dueBatches(1002, 10_000)).toMatchObject([{ events: [1, 2, 3, 4].map(event) }])
    collector.markStored(once)
    expect(collector.lowestOffset()).toBe(4)
    expect(collector.events).toBe(1)
    expect(collector.characters).toBe(event(4).body.length)
  })

  it('have a limit of events, but contain at least one batch', () => {
    const collector = collectorWith(450, 0)
    expect(sizes(collector.dueBatches(0, 250))).toEqual([100, 100])
    expect(sizes(collector.dueBatches(0, 1))).toEqual([100])
    expect(sizes(collector.dueBatches(1000, 10_000))).toEqual([100, 100, 100, 100, 50])
  })

  it('of a subscription that was dropped meanwhile are ignored when they are stored', () => {
    const collector = collectorWith(3, 0)
    const batches = collector.dueBatches(1000, 10_000)
    collector.drop('we_a')
    expect([collector.events, collector.characters, collector.lowestOffset()]).toEqual([0, 0, null])
    collector.add('we_a', event(9), 1000)
    collector.markStored(batches)
    expect(collector.events).toBe(1)
  })
})

it('every event is in one due batch, in order, and the lowest offset is that of the oldest remaining event', () => {
  const step = fc.oneof(
    fc.record({
      kind: fc.constant('add' as const),
      to: fc.constantFrom('a', 'b', 'c'),
      count: fc.integer({ min: 1, max: 9 }),
    }),
    fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 15 }) }),
    fc.record({
      kind: fc.constant('store' as const),
      limit: fc.integer({ min: 1, max: 12 }),
      succeeds: fc.boolean(),
    }),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const collector = new Collector<string>({ batchEvents: 4, batchWindowMs: 10 })
      const added = new Map<string, Array<number>>()
      const stored = new Map<string, Array<number>>()
      let now = 0
      let next = 0
      const store = (limit: number, succeeds: boolean) => {
        const batches = collector.dueBatches(now, limit)
        for (const { events } of batches) expect(events.length).toBeLessThanOrEqual(4)
        const due = collector.nextDue()
        expect(batches.length > 0).toBe(due !== null && due <= now)
        if (!succeeds) return
        const after = collector.lowestOffset(batches)
        collector.markStored(batches)
        expect(collector.lowestOffset()).toBe(after)
        for (const { events, subscription } of batches) {
          stored.set(subscription, [
            ...(stored.get(subscription) ?? []),
            ...events.map(({ offset }) => offset),
          ])
        }
      }
      for (const one of steps) {
        if (one.kind === 'wait') now += one.ms
        else if (one.kind === 'store') store(one.limit, one.succeeds)
        else {
          for (let i = 0; i < one.count; i++) {
            collector.add(one.to, event(next), now)
            added.set(one.to, [...(added.get(one.to) ?? []), next])
            next += 1
          }
        }
        const left = [...added].flatMap(([to, offsets]) => offsets.slice(stored.get(to)?.length ?? 0))
        expect(collector.events).toBe(left.length)
        expect(collector.lowestOffset()).toBe(left.length === 0 ? null : Math.min(...left))
      }
      now += 10
      while (collector.events > 0) store(8, true)
      expect(stored).toEqual(added)
    }),
  )
})
