/**
 * The contract suite of the shared texts. `memory.unit.test.ts` and `redis.int.test.ts` run it. An
 * adapter provides `SharedTexts` and `TestSharedTexts`.
 */
import { assert, describe, it } from '@effect/vitest'
import { Context, Effect, Exit, type Layer, Schedule, type Scope } from 'effect'
import { CountersUnavailable } from '../port.ts'
import { SharedTexts, type SharedTextsShape } from './port.ts'

/** What the suite needs beside the port. A store is empty at first. */
export class TestSharedTexts extends Context.Service<
  TestSharedTexts,
  {
    readonly setUnreachable: (isUnreachable: boolean) => Effect.Effect<void>
    /** A second process with the same store. */
    readonly other: SharedTextsShape
  }
>()('@hub/counters/TestSharedTexts') {}

const MINUTE = 60_000

export const sharedTextsContract = (
  name: string,
  adapter: Layer.Layer<SharedTexts | TestSharedTexts>,
): void => {
  const test = (
    title: string,
    body: (
      texts: SharedTextsShape,
      store: TestSharedTexts['Service'],
    ) => Effect.Effect<void, unknown, Scope.Scope>,
  ) =>
    it.live(title, () =>
      Effect.gen(function* () {
        yield* body(yield* SharedTexts, yield* TestSharedTexts)
      }).pipe(Effect.scoped, Effect.provide(adapter)),
    )

  const append = (texts: SharedTextsShape, key: string, more: string) =>
    texts.change(key, MINUTE, (text) => ({ text: `${text ?? ''}${more}`, result: text }))

  describe(`shared texts: ${name}`, () => {
    test('returns the result of a change, and keeps its text under its name', (texts, { other }) =>
      Effect.gen(function* () {
        assert.isNull(yield* append(texts, 'a', 'ä"1'))
        assert.strictEqual(yield* append(other, 'a', '2'), 'ä"1')
        assert.strictEqual(yield* append(texts, 'a', ''), 'ä"12')
        assert.isNull(yield* append(texts, 'b', 'x'))
      }))

    test('distinguishes an empty text from none', (texts) =>
      Effect.gen(function* () {
        assert.isNull(yield* append(texts, 'a', ''))
        assert.strictEqual(yield* append(texts, 'a', 'x'), '')
      }))

    test('reads a text, and changes nothing', (texts, { other }) =>
      Effect.gen(function* () {
        assert.isNull((yield* texts.read('a')).text)
        yield* append(texts, 'a', 'x')
        const { now, text } = yield* other.read('a')
        assert.strictEqual(text, 'x')
        assert.isAbove(now, 1_600_000_000_000)
        assert.strictEqual(yield* append(texts, 'a', ''), 'x')
      }))

    test('applies concurrent changes of several processes one after the other', (texts, { other }) =>
      Effect.gen(function* () {
        const increment = (process: SharedTextsShape) =>
          process.change('n', MINUTE, (text) => ({ text: String(Number(text ?? 0) + 1), result: null }))
        yield* Effect.all(
          [texts, other].map((process) =>
            Effect.forEach(Array.from({ length: 50 }), () => increment(process), { concurrency: 3 }),
          ),
          { concurrency: 'unbounded' },
        )
        assert.strictEqual(yield* append(texts, 'n', ''), '100')
      }))

    test('passes a time that does not go back', (texts, { other }) =>
      Effect.gen(function* () {
        const time = (process: SharedTextsShape) =>
          process.change('a', MINUTE, (_text, now) => ({ text: '', result: now }))
        const times = [yield* time(texts), yield* time(other), yield* time(texts)]
        assert.deepStrictEqual(
          times,
          times.toSorted((a, b) => a - b),
        )
        assert.isAbove(times[0]!, 1_600_000_000_000)
      }))

    test('fails while the store is unreachable, and has kept the text afterwards', (texts, store) =>
      Effect.gen(function* () {
        yield* append(texts, 'a', 'x')
        yield* store.setUnreachable(true)
        const failed = yield* Effect.exit(append(texts, 'a', 'y'))
        assert.isTrue(Exit.isFailure(failed))
        const error = yield* Effect.flip(append(texts, 'a', 'y'))
        assert.instanceOf(error, CountersUnavailable)
        yield* store.setUnreachable(false)
        const text = yield* append(texts, 'a', '').pipe(
          Effect.retry(Schedule.spaced('20 millis')),
          Effect.timeout('20 seconds'),
        )
        assert.strictEqual(text, 'x')
      }))
  })
}
