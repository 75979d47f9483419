/**
 * The contract suite of an outbox table. An adapter provides `OutboxStore` and `TestOutbox`. Suites of the
 * tables in PostgreSQL: `postgres-store.int.test.ts`; of the double: `testing/memory-outbox.unit.test.ts`.
 */
import { assert, describe, it } from '@effect/vitest'
import type { OutgoingRecord } from '@hub/kafka'
import { Context, Effect, type Layer } from 'effect'
import { OutboxStore } from './store.port.ts'

/** What the suite needs beside the port. The table may have rows of other tests. */
export class TestOutbox extends Context.Service<
  TestOutbox,
  {
    /** Inserts a row in a transaction of its own, and returns its id. */
    readonly insert: (records: ReadonlyArray<OutgoingRecord>) => Effect.Effect<number>
  }
>()('@hub/outbox/testing/TestOutbox') {}

const recordOf = (id: string): OutgoingRecord => ({
  topic: 'topic',
  key: 'key',
  type: 'Type',
  id,
  occurredAt: 1_764_000_000_000,
  value: Buffer.from(`value of ${id}`),
})
const contentOf = (records: ReadonlyArray<OutgoingRecord>) =>
  records.map(({ id, value }) => `${id}: ${Buffer.from(value).toString()}`)

const AN_HOUR_MS = 3_600_000
/** By their ids: if the clock of the machine is set back, the newest rows are not old enough for a moment. */
const ALL = { upTo: Number.MAX_SAFE_INTEGER, olderThanMs: 0 }

export const outboxStoreContract = (name: string, layer: Layer.Layer<OutboxStore | TestOutbox>): void => {
  const test = (title: string, body: Effect.Effect<void, unknown, OutboxStore | TestOutbox>) =>
    it.live(title, () => body.pipe(Effect.provide(layer)))
  const empty = Effect.flatMap(OutboxStore, ({ relay }) =>
    Effect.repeat(
      relay(ALL, () => Effect.void),
      { until: (rows) => rows === 0 },
    ),
  )
  const insert = (...ids: ReadonlyArray<string>) =>
    Effect.flatMap(TestOutbox, (outbox) => outbox.insert(ids.map(recordOf)))

  describe(`the outbox in ${name}`, () => {
    test(
      'relays rows in their order, and deletes them after their publication',
      Effect.gen(function* () {
        const store = yield* OutboxStore
        yield* empty
        yield* insert('a', 'b')
        yield* insert('c')
        yield* insert('d')
        const published: Array<OutgoingRecord> = []
        const relayed = yield* store.relay(ALL, (records) =>
          Effect.map(store.status(0), ({ rows }) => {
            assert.strictEqual(rows, 3, 'they are in the table during their publication')
            published.push(...records)
          }),
        )
        assert.strictEqual(relayed, 3)
        assert.deepStrictEqual(contentOf(published), [
          'a: value of a',
          'b: value of b',
          'c: value of c',
          'd: value of d',
        ])
        assert.strictEqual((yield* store.status(0)).rows, 0)
      }),
    )

    test(
      'keeps the rows of a failed publication',
      Effect.gen(function* () {
        const store = yield* OutboxStore
        yield* empty
        const row = yield* insert('a')
        const failure = yield* Effect.flip(store.relay(ALL, () => Effect.fail('no broker' as const)))
        assert.strictEqual(failure, 'no broker')
        assert.deepInclude(yield* store.status(row), { rows: 1, rowsUpTo: 1, highest: row })
      }),
    )

    test(
      'relays the rows up to an id, and of others only those of the age',
      Effect.gen(function* () {
        const store = yield* OutboxStore
        yield* empty
        const first = yield* insert('a')
        const second = yield* insert('b')
        const third = yield* insert('c')
        assert.deepInclude(yield* store.status(second), { rows: 3, rowsUpTo: 2, highest: third })
        const young = yield* store.relay({ upTo: 0, olderThanMs: AN_HOUR_MS }, () =>
          Effect.die('there is no old row'),
        )
        assert.strictEqual(young, 0)
        const published: Array<string> = []
        const relay = (upTo: number) =>
          store.relay({ upTo, olderThanMs: AN_HOUR_MS }, (records) =>
            Effect.sync(() => void published.push(...records.map(({ id }) => id))),
          )
        yield* relay(first)
        assert.deepStrictEqual(published, ['a'])
        yield* relay(second)
        assert.deepStrictEqual(published, ['a', 'b'])
        yield* Effect.sleep('20 millis')
        const status = yield* store.status(third)
        assert.deepInclude(status, { rows: 1, rowsUpTo: 1, highest: third })
        assert.isAtLeast(status.ageSeconds, 0.01)
        assert.strictEqual(yield* store.relay({ upTo: 0, olderThanMs: 10 }, () => Effect.void), 1)
      }),
    )

    test(
      'relays in one process at a time',
      Effect.gen(function* () {
        const store = yield* OutboxStore
        yield* empty
        yield* insert('a')
        const nested: Array<number> = []
        const relayed = yield* store.relay(ALL, () =>
          Effect.map(
            Effect.orDie(store.relay(ALL, () => Effect.die('another process has the rows'))),
            (rows) => void nested.push(rows),
          ),
        )
        assert.deepStrictEqual([relayed, nested], [1, [0]])
      }),
    )

    test(
      'deletes rows by their ids',
      Effect.gen(function* () {
        const store = yield* OutboxStore
        yield* empty
        const [first, second] = [yield* insert('a'), yield* insert('b')]
        yield* store.remove([first])
        assert.deepInclude(yield* store.status(second), { rows: 1, rowsUpTo: 1, highest: second })
        yield* store.remove([second])
        assert.deepInclude(yield* store.status(second), { rows: 0, rowsUpTo: 0, ageSeconds: 0 })
      }),
    )
  })
}
