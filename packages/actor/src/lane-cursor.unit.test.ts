/** A lane that is read through `LaneCursor` for routes of very different lengths and speeds. */
import { assert, describe, it } from '@effect/vitest'
import fc from 'fast-check'
import { LaneCursor } from './lane-cursor.ts'

const ROUTES = ['a', 'b', 'c', 'd']
const SHARE = 8
/** As in the cursor: records that are read again, per ms, and of one reread. */
const REREAD_PER_MS = 20
const REREAD_RECORDS = 10_000

class Reader {
  readonly lane: Array<string>
  readonly waiting = new Map<string, Array<number>>()
  readonly taken = new Map<string, Array<number>>()
  readonly #fullAt = new Map<string, number>()
  /** The routes with skipped records, as the cursor told. */
  readonly behind = new Set<string>()
  /** The shares may change: others use the same buffer. */
  share: number
  position = 0
  reread = 0
  now = 0
  readonly cursor = new LaneCursor<string>({
    isFull: (route) => this.waitingOf(route).length >= this.share,
    onSkip: (route) => {
      this.behind.add(route)
      this.#fullAt.set(route, this.waitingOf(route).length)
    },
    onCaughtUp: (route) => this.behind.delete(route),
    left: (route) => {
      const fullAt = this.#fullAt.get(route) ?? 0
      return fullAt === 0 ? 0 : this.waitingOf(route).length / fullAt
    },
  })

  constructor(lane: ReadonlyArray<string>, share = SHARE) {
    this.lane = [...lane]
    this.share = share
  }

  waitingOf(route: string): Array<number> {
    const found = this.waiting.get(route) ?? []
    this.waiting.set(route, found)
    return found
  }

  takenOf(route: string): Array<number> {
    const found = this.taken.get(route) ?? []
    this.taken.set(route, found)
    return found
  }

  seek(): void {
    const next = this.cursor.seekTarget(this.position, this.now)
    if (next === null) return
    assert.isAtLeast(
      next,
      Math.min(this.cursor.lowestSkipped() ?? this.cursor.frontier, this.cursor.frontier),
    )
    this.position = next
  }

  /** Reads so many records, unless the lane waits. */
  read(count: number): void {
    this.seek()
    if (this.cursor.isWaiting(this.now)) return
    for (let i = 0; i < count && this.position < this.lane.length; i++) {
      const offset = this.position++
      if (!this.cursor.isNew(offset)) this.reread++
      const route = this.lane[offset]!
      if (route === 'unreadable') this.cursor.pass(offset)
      else {
        const mayAccept = this.waitingOf(route).length < this.share
        if (this.cursor.accepts(offset, route)) {
          assert.isTrue(mayAccept, 'the share is not full')
          this.waitingOf(route).push(offset)
          this.takenOf(route).push(offset)
        }
      }
    }
    this.seek()
  }

  check(): void {
    const lowest = this.cursor.lowestSkipped()
    for (const route of ROUTES) {
      const read = this.lane.flatMap((one, offset) =>
        one === route && offset < this.cursor.frontier ? [offset] : [],
      )
      const taken = this.takenOf(route)
      assert.deepStrictEqual(taken, read.slice(0, taken.length), 'each record once, in lane order')
      const missing = read[taken.length]
      if (missing !== undefined) {
        assert.isTrue(this.behind.has(route))
        assert.isNotNull(lowest)
        assert.isAtMost(lowest!, missing, 'recovery still needs a skipped record')
      }
    }
  }

  finish(route: string, count: number): void {
    this.waitingOf(route).splice(0, count)
  }

  /** Gives up the last waiting record of a route. */
  giveUp(route: string): void {
    const offset = this.waitingOf(route).pop()
    if (offset === undefined) return
    this.takenOf(route).pop()
    this.cursor.giveUp(offset, route)
  }

  /** Routes make progress, and time passes, until the whole lane is read. Returns the rounds. */
  readAll(perRound: number, count: number): number {
    let rounds = 0
    while (this.position < this.lane.length || this.cursor.lowestSkipped() !== null) {
      this.now += 1000
      this.read(count)
      for (const route of this.waiting.keys()) this.finish(route, perRound)
      if (++rounds > 100_000) throw new Error('the lane is never read')
    }
    return rounds
  }
}

const step = fc.oneof(
  fc.record({ do: fc.constant('read' as const), count: fc.nat(12) }),
  fc.record({ do: fc.constant('finish' as const), route: fc.constantFrom(...ROUTES), count: fc.nat(SHARE) }),
  fc.record({
    do: fc.constant('append' as const),
    routes: fc.array(fc.constantFrom(...ROUTES, 'unreadable')),
  }),
  fc.record({ do: fc.constant('share' as const), share: fc.nat(SHARE) }),
  fc.record({ do: fc.constant('giveUp' as const), route: fc.constantFrom(...ROUTES) }),
  fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(1, 50, 1000) }),
)

describe('LaneCursor', () => {
  it('accepts every record once, in order, within the shares', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80, size: 'max' }), (steps) => {
        const reader = new Reader([])
        for (const next of steps) {
          if (next.do === 'read') reader.read(next.count)
          else if (next.do === 'finish') reader.finish(next.route, next.count)
          else if (next.do === 'append') reader.lane.push(...next.routes)
          else if (next.do === 'share') reader.share = next.share
          else if (next.do === 'giveUp') reader.giveUp(next.route)
          else reader.now += next.ms
          reader.check()
        }
        reader.share = SHARE
        reader.readAll(SHARE, 5)
        reader.check()
        assert.strictEqual(reader.behind.size, 0)
        for (const route of ROUTES) {
          assert.lengthOf(reader.takenOf(route), reader.lane.filter((one) => one === route).length)
        }
      }),
      { numRuns: 300 },
    )
  })

  it('finds the records of other routes behind a long backlog with one read of each record', () => {
    const reader = new Reader([
      ...Array.from({ length: 50_000 }, () => 'backlog'),
      ...Array.from({ length: SHARE }, () => 'late'),
    ])
    let records = 0
    while (reader.takenOf('late').length < SHARE) {
      reader.now += 100
      reader.read(2000)
      records += 2000
      assert.isBelow(records, 60_000)
    }
    assert.strictEqual(reader.takenOf('backlog').length, SHARE)
    assert.strictEqual(reader.reread, 0)
    assert.strictEqual(reader.cursor.lowestSkipped(), SHARE)
  })

  it('reads a bounded number of records again', () => {
    const routes = Array.from({ length: 50 }, (_, i) => `account ${i}`)
    fc.assert(
      fc.property(
        // The length of the campaigns in the lane, and how much of its share a route uses per round.
        fc.constantFrom(1, 30, 400),
        fc.array(fc.nat(40), { minLength: 50, maxLength: 50 }),
        (length, speeds) => {
          const lane = Array.from({ length: 20_000 }, (_, i) => routes[Math.floor(i / length) % 50]!)
          const reader = new Reader(lane, 40)
          for (let round = 0; round < 300; round++) {
            reader.now += 20
            reader.read(500)
            for (const [i, route] of routes.entries()) reader.finish(route, speeds[i]!)
            assert.isAtMost(reader.reread, REREAD_PER_MS * reader.now + REREAD_RECORDS + 500)
          }
        },
      ),
      { numRuns: 20 },
    )
  })

  it('reads once for all routes whose skipped records are close to each other', () => {
    const routes = Array.from({ length: 50 }, (_, i) => `account ${i}`)
    const reader = new Reader(
      Array.from({ length: 20_000 }, (_, i) => routes[i % 50]!),
      40,
    )
    // All shares are full, and the rest of the lane is skipped.
    while (reader.cursor.frontier < reader.lane.length) {
      reader.now += 1000
      reader.read(2000)
    }
    assert.strictEqual(reader.reread, 0)
    // A read of 2,000 records fills the shares of all, although only one is nearly empty.
    for (const route of routes) reader.finish(route, 20)
    reader.finish('account 7', 20)
    reader.now += 1000
    reader.read(2000)
    assert.isAtMost(reader.reread, 2000)
    for (const route of routes) assert.isAtLeast(reader.waitingOf(route).length, 40, route)
  })

  it('reads first for the route that has the least left, wherever its records are', () => {
    const lane = ['a', 'b', 'c'].flatMap((route) => Array.from({ length: 10_000 }, () => route))
    const reader = new Reader(lane, 40)
    while (reader.cursor.frontier < lane.length) {
      reader.now += 1000
      reader.read(2000)
    }
    reader.finish('a', 31)
    reader.finish('b', 40)
    reader.finish('c', 35)
    const refilled: Array<string> = []
    for (let round = 0; round < 10; round++) {
      reader.now += 1000
      reader.read(2000)
      for (const route of ['a', 'b', 'c']) {
        if (reader.waitingOf(route).length === 40 && !refilled.includes(route)) refilled.push(route)
      }
    }
    assert.deepStrictEqual(refilled, ['b', 'c', 'a'])
    assert.isAtMost(reader.reread, 3 * 2000)
  })

  it('ends a reread that finds too few records, and reads new records meanwhile', () => {
    // The records of `rare` are far apart.
    const lane = Array.from({ length: 40_000 }, (_, i) => (i < 8 || i % 5000 === 0 ? 'rare' : 'other'))
    const reader = new Reader(lane)
    while (reader.cursor.frontier < lane.length) {
      reader.now += 1000
      reader.read(2000)
    }
    reader.finish('rare', SHARE)
    reader.now += 1000
    for (let batch = 0; batch < 5; batch++) reader.read(2000)
    assert.isAtMost(reader.reread, REREAD_RECORDS)
    assert.strictEqual(reader.position, reader.cursor.frontier)
    reader.lane.push('new')
    reader.read(2000)
    assert.lengthOf(reader.takenOf('new'), 1)
    reader.readAll(SHARE, 2000)
    assert.lengthOf(reader.takenOf('rare'), 8 + 7)
  })

  it('waits a moment for the first share that becomes full, and then reads on without it', () => {
    const reader = new Reader(Array.from({ length: 40 }, () => 'a'))
    reader.read(10)
    assert.isTrue(reader.cursor.isWaiting(reader.now))
    reader.finish('a', SHARE)
    assert.isFalse(reader.cursor.isWaiting(reader.now), 'there is room now')
    reader.now += 20
    reader.read(1)
    assert.deepStrictEqual(reader.takenOf('a'), [0, 1, 2, 3, 4, 5, 6, 7, 8])
    reader.read(10)
    assert.isTrue(reader.cursor.isWaiting(reader.now))
    reader.now += 1000
    assert.isFalse(reader.cursor.isWaiting(reader.now))
  })

  it('waits when it has skipped the records of too many routes', () => {
    const reader = new Reader(
      Array.from({ length: 20_000 }, (_, i) => `account ${i}`),
      0,
    )
    for (let round = 0; round < 100; round++) {
      reader.now += 1000
      reader.read(500)
    }
    assert.isTrue(reader.cursor.isWaiting(reader.now))
    assert.strictEqual(reader.cursor.frontier, 10_000)
    reader.share = SHARE
    reader.readAll(SHARE, 500)
    assert.strictEqual([...reader.taken.values()].flat().length, 20_000)
  })
})
