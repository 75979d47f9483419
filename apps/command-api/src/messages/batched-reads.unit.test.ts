/** The batched reader: concurrent reads share a load. */
import { assert, describe, it } from '@effect/vitest'
import { Deferred, Effect, Exit, Fiber } from 'effect'
import { makeBatchedReader } from './batched-reads.ts'

/** A `load` whose calls the test completes one by one. */
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

/** Waits until all fibers that can run have run. */
const settled = Effect.gen(function* () {
  for (let turn = 0; turn < 10; turn++) yield* Effect.yieldNow
})

describe('batched reads', () => {
  it.effect('of one turn share one load, with each key once', () =>
    Effect.gen(function* () {
      const { answer, load, loads } = makeLoads()
      const read = yield* makeBatchedReader({ load, maxConcurrent: 2, maxKeys: 10 })
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

  it.effect('wait when the maximum of loads is in progress, and then load at most the maximum of keys', () =>
    Effect.gen(function* () {
      const { answer, load, loads } = makeLoads()
      const read = yield* makeBatchedReader({ load, maxConcurrent: 2, maxKeys: 3 })
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
      // No load is in progress any more, so the next read loads at once.
      const last = yield* Effect.forkChild(read('g'))
      yield* settled
      assert.deepStrictEqual(loads[4]?.keys, ['g'])
      yield* Fiber.interrupt(last)
    }).pipe(Effect.scoped),
  )

  it.effect('start a concurrent load only for at least half as many keys as are in progress', () =>
    Effect.gen(function* () {
      const { answer, load, loads } = makeLoads()
      const read = yield* makeBatchedReader({ load, maxConcurrent: 2, maxKeys: 10 })
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

  it.effect('of a failed load all fail, and later reads are loaded', () =>
    Effect.gen(function* () {
      const { answer, load, loads } = makeLoads()
      const read = yield* makeBatchedReader({ load, maxConcurrent: 1, maxKeys: 10 })
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

  it.effect('of an interrupted reader are still loaded for other readers of the key', () =>
    Effect.gen(function* () {
      const { answer, load } = makeLoads()
      const read = yield* makeBatchedReader({ load, maxConcurrent: 1, maxKeys: 10 })
      const gone = yield* Effect.forkChild(read('a'))
      const stays = yield* Effect.forkChild(read('a'))
      yield* settled
      yield* Fiber.interrupt(gone)
      yield* answer(0)
      assert.strictEqual(yield* Fiber.join(stays), '<a>')
    }).pipe(Effect.scoped),
  )
})
