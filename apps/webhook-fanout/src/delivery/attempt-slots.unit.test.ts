import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AttemptSlots } from './attempt-slots.ts'

class Holder {
  readonly name: string
  readonly account: string
  failing = false
  work = 0
  /** Without `account`, the holder is the only one of its account. */
  constructor(name: string, work: number, { account = name, failing = false } = {}) {
    this.name = name
    this.account = account
    this.work = work
    this.failing = failing
  }
  get hasWork(): boolean {
    return this.work > 0
  }
}

const LIMITS = {
  inFlight: 10,
  inFlightFailing: 4,
  inFlightEach: 3,
  inFlightEachFailing: 1,
  unrecorded: 12,
  unrecordedEach: 5,
}

/** Ends an attempt and records its outcome. */
const release = (slots: AttemptSlots<Holder>, holder: Holder) => {
  slots.ended(holder)
  slots.recorded(holder)
}

/** Takes all slots that may be taken, as the deliverer does. */
const takeAll = (slots: AttemptSlots<Holder>): ReadonlyArray<string> => {
  const names: Array<string> = []
  for (let holder = slots.take(); holder !== null; holder = slots.take()) {
    holder.work -= 1
    names.push(holder.name)
    slots.enqueue(holder)
  }
  return names
}

describe('attempt slots', () => {
  it('are taken in turn, up to the bound of a subscription', () => {
    const slots = new AttemptSlots<Holder>(LIMITS)
    const [a, b] = [new Holder('a', 9), new Holder('b', 2)]
    slots.enqueue(a)
    slots.enqueue(b)
    expect(takeAll(slots)).toEqual(['a', 'b', 'a', 'b', 'a'])
    release(slots, a)
    expect(takeAll(slots)).toEqual(['a'])
  })

  it('are taken in turn by accounts, and by the subscriptions of each', () => {
    const slots = new AttemptSlots<Holder>({ ...LIMITS, inFlight: 100, unrecorded: 100 })
    const account = 'many'
    for (const name of ['a', 'b', 'c']) slots.enqueue(new Holder(name, 2, { account }))
    slots.enqueue(new Holder('other', 3))
    expect(takeAll(slots)).toEqual(['a', 'other', 'b', 'other', 'c', 'other', 'a', 'b', 'c'])
  })

  it('are never all taken by one account, so that its hung receivers do not stop others', () => {
    const limits = { ...LIMITS, inFlight: 256, inFlightFailing: 128, inFlightEach: 16, unrecorded: 1024 }
    for (const failing of [false, true]) {
      const slots = new AttemptSlots<Holder>({ ...limits, inFlightEachFailing: 16, unrecordedEach: 256 })
      const hung = (account: string) => {
        for (let i = 0; i < 40; i++) {
          slots.enqueue(new Holder(`${account} ${i}`, 100, { account, failing }))
        }
        return takeAll(slots).length
      }
      const all = failing ? limits.inFlightFailing : limits.inFlight
      const first = hung('first')
      expect(first).toBeLessThanOrEqual(all / 2)
      expect(first).toBeGreaterThan(all / 2 - 4)
      expect(hung('second')).toBeLessThanOrEqual(all / 4)
      slots.enqueue(new Holder('other', 8, { failing }))
      expect(takeAll(slots)).toEqual(Array.from({ length: 8 }, () => 'other'))
    }
  })

  it('have a bound for the process', () => {
    const slots = new AttemptSlots<Holder>(LIMITS)
    for (let i = 0; i < 20; i++) slots.enqueue(new Holder(`h${i}`, 5))
    expect(takeAll(slots).length).toBe(10)
    expect(slots.taken).toBe(10)
  })

  it('have a lower bound for all failing subscriptions, so that hung receivers do not stop the others', () => {
    const slots = new AttemptSlots<Holder>(LIMITS)
    for (let i = 0; i < 50; i++) slots.enqueue(new Holder(`hung${i}`, 100, { failing: true }))
    expect(takeAll(slots).length).toBe(4)
    const healthy = new Holder('healthy', 1)
    slots.enqueue(healthy)
    expect(takeAll(slots)).toEqual(['healthy'])
    release(slots, healthy)
    healthy.work = 1
    slots.enqueue(healthy)
    expect(takeAll(slots)).toEqual(['healthy'])
  })

  it('of a subscription count as failing from its first failure until its next success', () => {
    const slots = new AttemptSlots<Holder>(LIMITS)
    const a = new Holder('a', 5)
    slots.enqueue(a)
    expect(takeAll(slots)).toEqual(['a', 'a', 'a'])
    a.failing = true
    release(slots, a)
    expect([slots.taken, slots.takenFailing]).toEqual([2, 2])
    expect(takeAll(slots)).toEqual([])
    a.failing = false
    release(slots, a)
    expect([slots.taken, slots.takenFailing]).toEqual([1, 0])
    expect(takeAll(slots)).toEqual(['a', 'a'])
  })

  it('are free when their attempts end, up to the bound of unrecorded attempts', () => {
    const slots = new AttemptSlots<Holder>(LIMITS)
    const a = new Holder('a', 9)
    slots.enqueue(a)
    expect(takeAll(slots)).toEqual(['a', 'a', 'a'])
    for (let i = 0; i < 3; i++) slots.ended(a)
    expect(slots.taken).toBe(0)
    // Five may be unrecorded.
    expect(takeAll(slots)).toEqual(['a', 'a'])
    slots.recorded(a)
    expect(takeAll(slots)).toEqual(['a'])
    expect([slots.taken, slots.unrecorded]).toEqual([3, 5])
  })

  it('of a failing subscription are not taken again before its last attempts are recorded', () => {
    const slots = new AttemptSlots<Holder>(LIMITS)
    const a = new Holder('a', 9, { failing: true })
    slots.enqueue(a)
    expect(takeAll(slots)).toEqual(['a'])
    slots.ended(a)
    expect(takeAll(slots)).toEqual([])
    slots.recorded(a)
    expect(takeAll(slots)).toEqual(['a'])
  })

  it('are not taken above the bound of unrecorded attempts of the process', () => {
    const slots = new AttemptSlots<Holder>(LIMITS)
    for (let i = 0; i < 20; i++) {
      const holder = new Holder(`h${i}`, 1)
      slots.enqueue(holder)
      if (takeAll(slots).length > 0) slots.ended(holder)
    }
    expect([slots.taken, slots.unrecorded]).toEqual([0, LIMITS.unrecorded])
  })

  it('are taken for a subscription that recovers while it waits behind failing ones', () => {
    const slots = new AttemptSlots<Holder>(LIMITS)
    const hung = Array.from({ length: 4 }, (_, i) => new Holder(`hung${i}`, 100, { failing: true }))
    for (const holder of hung) slots.enqueue(holder)
    expect(takeAll(slots).length).toBe(4)
    const waiting = new Holder('waiting', 1, { failing: true })
    slots.enqueue(waiting)
    expect(takeAll(slots)).toEqual([])
    waiting.failing = false
    slots.enqueue(waiting)
    expect(takeAll(slots)).toEqual(['waiting'])
  })

  it('never exceed a limit, and are idle only when a limit is reached', () => {
    const names = ['a', 'b', 'c', 'd', 'e']
    const step = fc.record({
      who: fc.constantFrom(...names),
      what: fc.constantFrom('work', 'end', 'record', 'fail', 'recover', 'drop'),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const limits = {
          inFlight: 6,
          inFlightFailing: 2,
          inFlightEach: 3,
          inFlightEachFailing: 1,
          unrecorded: 9,
          unrecordedEach: 4,
        }
        const slots = new AttemptSlots<Holder>(limits)
        // Two accounts with two subscriptions each, and one with one.
        const holders = names.map((name, i) => new Holder(name, 0, { account: `account ${i >> 1}` }))
        const held = new Map(holders.map((holder) => [holder, { slots: 0, unrecorded: 0 }]))
        const sum = (of: (holder: Holder) => number) =>
          holders.reduce((total, holder) => total + of(holder), 0)
        const slotsOf = (holder: Holder) => held.get(holder)!.slots
        const unrecordedOf = (holder: Holder) => held.get(holder)!.unrecorded
        for (const { what, who } of steps) {
          const holder = holders.find(({ name }) => name === who)!
          const has = held.get(holder)!
          if (what === 'work') holder.work += 1
          if (what === 'drop') holder.work = 0
          if (what === 'fail') holder.failing = true
          if (what === 'recover') holder.failing = false
          if (what === 'end' && has.slots > 0) {
            has.slots -= 1
            slots.ended(holder)
          } else if (what === 'record' && has.unrecorded > has.slots) {
            has.unrecorded -= 1
            slots.recorded(holder)
          } else slots.enqueue(holder)
          const ofAccount = (one: Holder, failingOnly: boolean) =>
            sum((each) =>
              each.account === one.account && (each.failing || !failingOnly) ? slotsOf(each) : 0,
            )
          const mayTake = (one: Holder) =>
            slotsOf(one) < limits.inFlight - sum(slotsOf) - ofAccount(one, false) &&
            (!one.failing ||
              slotsOf(one) <
                limits.inFlightFailing -
                  sum((each) => (each.failing ? slotsOf(each) : 0)) -
                  ofAccount(one, true))
          for (let next = slots.take(); next !== null; next = slots.take()) {
            next.work -= 1
            expect(mayTake(next)).toBe(true)
            const taken = held.get(next)!
            taken.slots += 1
            taken.unrecorded += 1
            expect(taken.slots).toBeLessThanOrEqual(
              next.failing ? limits.inFlightEachFailing : limits.inFlightEach,
            )
            if (next.failing) expect(taken.unrecorded).toBeLessThanOrEqual(limits.inFlightEachFailing)
            else expect(taken.unrecorded).toBeLessThanOrEqual(limits.unrecordedEach)
            slots.enqueue(next)
          }
          const total = sum(slotsOf)
          const unrecorded = sum(unrecordedOf)
          const failing = sum((one) => (one.failing ? slotsOf(one) : 0))
          expect([slots.taken, slots.takenFailing, slots.unrecorded]).toEqual([total, failing, unrecorded])
          expect(total).toBeLessThanOrEqual(limits.inFlight)
          expect(unrecorded).toBeLessThanOrEqual(limits.unrecorded)
          for (const one of holders) {
            const idle =
              one.hasWork &&
              (one.failing
                ? unrecordedOf(one) < limits.inFlightEachFailing
                : slotsOf(one) < limits.inFlightEach && unrecordedOf(one) < limits.unrecordedEach)
            if (!idle) continue
            expect(
              total === limits.inFlight ||
                unrecorded === limits.unrecorded ||
                (one.failing && failing >= limits.inFlightFailing) ||
                !mayTake(one),
            ).toBe(true)
          }
        }
      }),
      { numRuns: 2000 },
    )
  })
})
