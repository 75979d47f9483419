/** What every operator adapter must do, whatever is behind it. */
import { assert, describe, it } from '@effect/vitest'
import { Effect, type Scope } from 'effect'
import type { Operator, OperatorReport, Submission } from './port.ts'

/** An adapter at work, and what it has reported. */
export interface OperatorUnderTest {
  readonly operator: Operator
  /** Waits until a report satisfies the predicate, with a bound. */
  readonly reported: (wanted: (report: OperatorReport) => boolean) => Effect.Effect<OperatorReport>
  readonly reports: () => ReadonlyArray<OperatorReport>
}

const yes = () => true

/** A submission with this reference; the number is delivered by every adapter under test. */
export const submissionOf = (reference: string, more: Partial<Submission> = {}): Submission => ({
  reference,
  recipient: 'ab'.repeat(32),
  to: '+79001234567',
  text: 'Code 1234',
  sender: 'HUB',
  parts: 1,
  encoding: 'gsm7',
  validitySeconds: 300,
  ...more,
})

/** Runs the suite against an adapter; `make` gives a fresh one. */
export const operatorContract = (
  name: string,
  make: Effect.Effect<OperatorUnderTest, never, Scope.Scope>,
): void => {
  describe(`operator port: ${name}`, () => {
    it.live('answers for each submission, in order, with an id for each part', () =>
      Effect.gen(function* () {
        const { operator } = yield* make
        const batch = [
          submissionOf('msg_a'),
          submissionOf('msg_b', { text: 'x'.repeat(400), parts: 3 }),
          submissionOf('msg_c'),
        ]
        const outcomes = yield* operator.submit(batch, yes)
        assert.deepStrictEqual(
          outcomes.map((outcome) =>
            outcome.type === 'accepted' ? outcome.operatorIds.length : outcome.type,
          ),
          [1, 3, 1],
        )
        const ids = outcomes.flatMap((outcome) => (outcome.type === 'accepted' ? outcome.operatorIds : []))
        assert.strictEqual(new Set(ids).size, 5)
      }).pipe(Effect.scoped),
    )

    it.live('reports under the ids it gave, with our reference or the recipient', () =>
      Effect.gen(function* () {
        const { operator, reported } = yield* make
        const [outcome] = yield* operator.submit([submissionOf('msg_a')], yes)
        if (outcome?.type !== 'accepted') return assert.fail('it was accepted')
        const report = yield* reported(({ operatorId }) => operatorId === outcome.operatorIds[0])
        assert.strictEqual(report.operator, operator.name)
        // By one of them the report finds its shard.
        assert.include([report.reference, report.to], report.reference === null ? '+79001234567' : 'msg_a')
        assert.strictEqual(report.outcome, 'delivered')
      }).pipe(Effect.scoped),
    )

    it.live('writes nothing when the lease does not hold', () =>
      Effect.gen(function* () {
        const { operator, reports } = yield* make
        const refused = yield* operator.submit([submissionOf('msg_a'), submissionOf('msg_b')], () => false)
        assert.deepStrictEqual(refused, [{ type: 'notWritten' }, { type: 'notWritten' }])
        // Whatever comes after it comes without them.
        yield* operator.submit([submissionOf('msg_c')], yes)
        assert.notInclude(
          reports().map(({ reference }) => reference),
          'msg_a',
        )
      }).pipe(Effect.scoped),
    )

    it.live('gives a reference that comes twice the same ids, where it says that it dedupes', () =>
      Effect.gen(function* () {
        const { operator } = yield* make
        if (!operator.capabilities.dedupesByReference) return
        const first = yield* operator.submit(
          [submissionOf('msg_a', { text: 'x'.repeat(200), parts: 2 })],
          yes,
        )
        const second = yield* operator.submit(
          [submissionOf('msg_a', { text: 'x'.repeat(200), parts: 2 })],
          yes,
        )
        assert.deepStrictEqual(first, second)
      }).pipe(Effect.scoped),
    )

    it.live('takes an empty batch and open messages of before without complaint', () =>
      Effect.gen(function* () {
        const { operator } = yield* make
        assert.deepStrictEqual(yield* operator.submit([], yes), [])
        yield* operator.resume([])
      }).pipe(Effect.scoped),
    )
  })
}
