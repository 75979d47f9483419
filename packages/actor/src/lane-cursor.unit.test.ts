/** A lane that is read through `LaneCursor` for routes of very different speeds. */
import { assert, describe, it } from '@effect/vitest'
import fc from 'fast-check'
import { LaneCursor } from './lane-cursor.ts'

const ROUTES = ['a', 'b', 'c']
const SHARE = 4

class Reader {
  readonly lane: Array<string>
  readonly waiting = new Map<string, Array<number>>(ROUTES.map((route) => [route, []]))
  readonly taken = new Map<string, Array<number>>(ROUTES.map((route) => [route, []]))
  position = 0
  reads = 0
  now = 0
  readonly cursor = new LaneCursor({
    isFull: (route) => this.waiting.get(route)!.length >= SHARE,
    hasRoom: (route) => this.waiting.get(route)!.length <= SHARE / 2,
  })

  constructor(lane: ReadonlyArray<string>) {
    this.lane = [...lane]
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

  read(count: number): void {
    this.seek()
    if (this.cursor.isWaiting(this.now)) return
    for (let i = 0; i < count && this.position < this.lane.length; i++) {
      const offset = this.position++
      this.reads++
      const route = this.lane[offset]!
      if (route === 'unreadable') this.cursor.pass(offset)
      else if (this.cursor.accepts(offset, route)) {
        this.waiting.get(route)!.push(offset)
        this.taken.get(route)!.push(offset)
      }
      this.check()
    }
    this.seek()
  }

  check(): void {
    const lowest = this.cursor.lowestSkipped()
    for (const route of ROUTES) {
      assert.isAtMost(this.waiting.get(route)!.length, SHARE)
      const read = this.lane.flatMap((one, offset) =>
        one === route && offset < this.cursor.frontier ? [offset] : [],
      )
      const taken = this.taken.get(route)!
      assert.deepStrictEqual(taken, read.slice(0, taken.length), 'each record once, in lane order')
      const missing = read[taken.length]
      if (missing !== undefined) {
        assert.isNotNull(lowest)
        assert.isAtMost(lowest!, missing, 'recovery still needs a skipped record')
      }
    }
  }

  finish(route: string, count: number): void {
    this.waiting.get(route)!.splice(0, count)
  }
}

const step = fc.oneof(
  fc.record({ do: fc.constant('read' as const), count: fc.nat(12) }),
  fc.record({ do: fc.constant('finish' as const), route: fc.constantFrom(...ROUTES), count: fc.nat(5) }),
  fc.record({
    do: fc.constant('append' as const),
    routes: fc.array(fc.constantFrom(...ROUTES, 'unreadable')),
  }),
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
          else reader.now += next.ms
        }
        // From now on every route makes progress.
        for (let round = 0; round < 2 * reader.lane.length + 10; round++) {
          reader.now += 1000
          reader.read(5)
          for (const route of ROUTES) reader.finish(route, SHARE)
        }
        reader.check()
        assert.strictEqual(reader.position, reader.lane.length)
        assert.isNull(reader.cursor.lowestSkipped())
        for (const route of ROUTES) {
          assert.lengthOf(reader.taken.get(route)!, reader.lane.filter((one) => one === route).length)
        }
      }),
      { numRuns: 300 },
    )
  })

  it('does not delay other routes behind a stuck one, and rereads little', () => {
    const reader = new Reader(Array.from({ length: 50_000 }, (_, i) => (i % 100 === 99 ? 'b' : 'a')))
    // A check after each record would take a minute.
    reader.check = () => {}
    while (reader.position < reader.lane.length || reader.cursor.isWaiting(reader.now)) {
      reader.now += 100
      reader.read(500)
      reader.finish('b', SHARE)
      if (reader.cursor.frontier === reader.lane.length) break
    }
    assert.lengthOf(reader.waiting.get('a')!, SHARE)
    assert.strictEqual(reader.cursor.lowestSkipped(), 4)
    for (let round = 0; round < 500_000 && reader.cursor.lowestSkipped() !== null; round++) {
      reader.now += 100
      reader.read(500)
      for (const route of ROUTES) reader.finish(route, SHARE)
    }
    assert.lengthOf(reader.taken.get('a')!, 49_500)
    assert.lengthOf(reader.taken.get('b')!, 500)
  })

  it('waits a moment for a share that has just become full, and then reads on without it', () => {
    const reader = new Reader(Array.from({ length: 20 }, () => 'a'))
    reader.read(6)
    assert.isTrue(reader.cursor.isWaiting(reader.now))
    reader.finish('a', SHARE)
    assert.isFalse(reader.cursor.isWaiting(reader.now), 'there is room now')
    reader.read(1)
    assert.deepStrictEqual(reader.taken.get('a'), [0, 1, 2, 3, 4])
    reader.read(10)
    assert.isTrue(reader.cursor.isWaiting(reader.now))
    reader.now += 1000
    assert.isFalse(reader.cursor.isWaiting(reader.now))
  })
})
