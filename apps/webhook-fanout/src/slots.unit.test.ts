import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Slots } from './slots.ts'

class Holder {
  readonly name: string
  failing = false
  work = 0
  constructor(name: string, work: number, failing = false) {
    this.name = name
    this.work = work
    this.failing = failing
  }
  get hasWork(): boolean {
    return this.work > 0
  }
}

const LIMITS = { inFlight: 10, inFlightFailing: 4, inFlightEach: 3, inFlightEachFailing: 1 }

/** Takes slots as the deliverer does, until nobody may. */
const takeAll = (slots: Slots<Holder>): ReadonlyArray<string> => {
  const names: Array<string> = []
  for (let holder = slots.take(); holder !== null; holder = slots.take()) {
    holder.work -= 1
    names.push(holder.name)
    slots.enlist(holder)
  }
  return names
}

describe('slots', () => {
  it('go round, and a subscription has its bound', () => {
    const slots = new Slots<Holder>(LIMITS)
    const [a, b] = [new Holder('a', 9), new Holder('b', 2)]
    slots.enlist(a)
    slots.enlist(b)
    expect(takeAll(slots)).toEqual(['a', 'b', 'a', 'b', 'a'])
    slots.release(a)
    expect(takeAll(slots)).toEqual(['a'])
  })

  it('are bounded for the process', () => {
    const slots = new Slots<Holder>(LIMITS)
    for (let i = 0; i < 20; i++) slots.enlist(new Holder(`h${i}`, 5))
    expect(takeAll(slots).length).toBe(10)
    expect(slots.taken).toBe(10)
  })

  it('of failing ones are bounded apart, so that hung receivers leave room for the others', () => {
    const slots = new Slots<Holder>(LIMITS)
    for (let i = 0; i < 50; i++) slots.enlist(new Holder(`hung${i}`, 100, true))
    expect(takeAll(slots).length).toBe(4)
    const healthy = new Holder('healthy', 1)
    slots.enlist(healthy)
    expect(takeAll(slots)).toEqual(['healthy'])
    slots.release(healthy)
    healthy.work = 1
    slots.enlist(healthy)
    expect(takeAll(slots)).toEqual(['healthy'])
  })

  it('of one that begins to fail count as failing, and no longer once it has recovered', () => {
    const slots = new Slots<Holder>(LIMITS)
    const a = new Holder('a', 5)
    slots.enlist(a)
    expect(takeAll(slots)).toEqual(['a', 'a', 'a'])
    a.failing = true
    slots.release(a)
    expect([slots.taken, slots.takenFailing]).toEqual([2, 2])
    expect(takeAll(slots)).toEqual([])
    a.failing = false
    slots.release(a)
    expect([slots.taken, slots.takenFailing]).toEqual([1, 0])
    expect(takeAll(slots)).toEqual(['a', 'a'])
  })

  it('are never more than allowed, and idle only when nobody may', () => {
    const names = ['a', 'b', 'c', 'd', 'e']
    const step = fc.record({
      who: fc.constantFrom(...names),
      what: fc.constantFrom('work', 'release', 'fail', 'recover', 'drop'),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const limits = { inFlight: 6, inFlightFailing: 2, inFlightEach: 3, inFlightEachFailing: 1 }
        const slots = new Slots<Holder>(limits)
        const holders = new Map(names.map((name) => [name, new Holder(name, 0)]))
        const held = new Map(names.map((name) => [name, 0]))
        for (const { what, who } of steps) {
          const holder = holders.get(who)!
          const has = held.get(who)!
          if (what === 'work') holder.work += 1
          if (what === 'drop') holder.work = 0
          if (what === 'fail') holder.failing = true
          if (what === 'recover') holder.failing = false
          if (what === 'release' && has > 0) {
            held.set(who, has - 1)
            slots.release(holder)
          } else slots.enlist(holder)
          for (let next = slots.take(); next !== null; next = slots.take()) {
            next.work -= 1
            const taken = held.get(next.name)! + 1
            held.set(next.name, taken)
            expect(taken).toBeLessThanOrEqual(next.failing ? limits.inFlightEachFailing : limits.inFlightEach)
            slots.enlist(next)
          }
          const total = [...held.values()].reduce((sum, count) => sum + count, 0)
          const failing = [...holders.values()]
            .filter((one) => one.failing)
            .reduce((sum, one) => sum + held.get(one.name)!, 0)
          expect([slots.taken, slots.takenFailing]).toEqual([total, failing])
          expect(total).toBeLessThanOrEqual(limits.inFlight)
          for (const one of holders.values()) {
            const mayHave = one.failing ? limits.inFlightEachFailing : limits.inFlightEach
            const idle = one.hasWork && held.get(one.name)! < mayHave
            if (idle)
              expect(total === limits.inFlight || (one.failing && failing >= limits.inFlightFailing)).toBe(
                true,
              )
          }
        }
      }),
    )
  })
})
