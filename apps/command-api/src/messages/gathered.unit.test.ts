import { assert, describe, it } from '@effect/vitest'
import { Deferred, Effect, Exit, Fiber } from 'effect'
import { gather } from './gathered.ts'

/** Loads that are answered when the test says so. */
const makeLoads = () => {
  const loads: Array<{
    readonly keys: ReadonlyArray<string>
    readonly end: Deferred.Deferred<ReadonlyMap<string, string>, string>
  }> = []
  return {
    loads,
    load: (keys: ReadonlyArray<string>) =>
      Effect.suspend(() => {
        const end = Deferred.makeUnsafe<ReadonlyMap<string, string>, string>()
        loads.push({ keys, end })
        return Deferred.await(end)
      }),
    answer: (index: number) =>
      Effect.suspend(() => {
        const { end, keys } = loads[index]!
        return Deferred.succeed(
          end,
          new Map(keys.filter((key) => key !== 'none').map((key) => [key, `<${key}>`])),
        )
      }),
  }
}

/** Until everything that can run has run. */
const settled = Effect.gen(function* () {
  for (let turn = 0; turn < 10; turn++) yield* Effect.yieldNow
})

describe('gathered reads', () => {
  it.effect('of one turn go in one load, each key once', () =>
    Effect.gen(function* () {
      const { answer, load, loads } = makeLoads()
      const read = yield* gather({ load, atOnce: 2, most: 10 })
      const readers = yield* Effect.forEach(['a', 'b', 'a', 'none'], (key) => Effect.forkChild(read(key)))
      yield* settled
      assert.deepStrictEqual(
        loads.map(({ keys }) => keys),
        [['a', 'b', 'none']],
      )
      yield* answer(0)
      const found = yield* Effect.forEach(readers, (reader) => Fiber.join(reader))
      assert.deepStrictEqual(found, ['<a>', '<b>', '<a>', null])
    }).pipe(Effect.scoped),
  )

  it.effect(
    'wait for each other behind the loads that may be under way, and go on with so many at most',
    () =>
      Effect.gen(function* () {
        const { answer, load, loads } = makeLoads()
        const read = yield* gather({ load, atOnce: 2, most: 3 })
        const readers: Array<Fiber.Fiber<string | null, string>> = []
        for (const key of ['a', 'b', 'c', 'd', 'e', 'f']) {
          readers.push(yield* Effect.forkChild(read(key)))
          yield* settled
        }
        assert.deepStrictEqual(
          loads.map(({ keys }) => keys),
          [['a'], ['b']],
        )
        yield* answer(1)
        yield* settled
        assert.deepStrictEqual(loads[2]?.keys, ['c', 'd', 'e'])
        yield* answer(0)
        yield* settled
        assert.deepStrictEqual(loads[3]?.keys, ['f'])
        yield* answer(2)
        yield* answer(3)
        const found = yield* Effect.forEach(readers, (reader) => Fiber.join(reader))
        assert.deepStrictEqual(found, ['<a>', '<b>', '<c>', '<d>', '<e>', '<f>'])
        // Nothing is under way any more: the next one goes at once.
        const last = yield* Effect.forkChild(read('g'))
        yield* settled
        assert.deepStrictEqual(loads[4]?.keys, ['g'])
        yield* Fiber.interrupt(last)
      }).pipe(Effect.scoped),
  )

  it.effect('begin another load only when it is not a small one beside those under way', () =>
    Effect.gen(function* () {
      const { answer, load, loads } = makeLoads()
      const read = yield* gather({ load, atOnce: 2, most: 10 })
      const keysOf = () => loads.map(({ keys }) => keys.join(''))
      const readers = yield* Effect.forEach(['a', 'b', 'c', 'd'], (key) => Effect.forkChild(read(key)))
      yield* settled
      readers.push(yield* Effect.forkChild(read('e')))
      yield* settled
      assert.deepStrictEqual(keysOf(), ['abcd'])
      readers.push(yield* Effect.forkChild(read('f')))
      yield* settled
      assert.deepStrictEqual(keysOf(), ['abcd', 'ef'])
      readers.push(yield* Effect.forkChild(read('g')))
      yield* settled
      yield* answer(0)
      yield* settled
      assert.deepStrictEqual(keysOf(), ['abcd', 'ef', 'g'])
      yield* answer(1)
      yield* answer(2)
      const found = yield* Effect.forEach(readers, (reader) => Fiber.join(reader))
      assert.deepStrictEqual(found.join(''), '<a><b><c><d><e><f><g>')
    }).pipe(Effect.scoped),
  )

  it.effect('fail together, and the next ones are loaded all the same', () =>
    Effect.gen(function* () {
      const { answer, load, loads } = makeLoads()
      const read = yield* gather({ load, atOnce: 1, most: 10 })
      const failing = [yield* Effect.forkChild(read('a')), yield* Effect.forkChild(read('b'))]
      yield* settled
      const later = yield* Effect.forkChild(read('c'))
      yield* settled
      yield* Deferred.fail(loads[0]!.end, 'away')
      for (const reader of failing) {
        assert.deepStrictEqual(yield* Fiber.await(reader), Exit.fail('away'))
      }
      yield* settled
      yield* answer(1)
      assert.strictEqual(yield* Fiber.join(later), '<c>')
    }).pipe(Effect.scoped),
  )

  it.effect('of a reader that has given up are loaded for the others', () =>
    Effect.gen(function* () {
      const { answer, load } = makeLoads()
      const read = yield* gather({ load, atOnce: 1, most: 10 })
      const gone = yield* Effect.forkChild(read('a'))
      const stays = yield* Effect.forkChild(read('a'))
      yield* settled
      yield* Fiber.interrupt(gone)
      yield* answer(0)
      assert.strictEqual(yield* Fiber.join(stays), '<a>')
    }).pipe(Effect.scoped),
  )
})
