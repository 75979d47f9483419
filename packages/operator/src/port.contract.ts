/** The contract suite of the operator port. Every adapter passes it. */
import { assert, describe, it } from '@effect/vitest'
import { Effect, type Scope } from 'effect'
import type { Operator, OperatorReport, Submission } from './port.ts'

/** A running adapter and its reports. */
export interface OperatorUnderTest {
  readonly operator: Operator
  /** Waits for a report that satisfies the predicate, with a time limit. */
  readonly reported: (wanted: (report: OperatorReport) => boolean) => Effect.Effect<OperatorReport>
  readonly reports: () => ReadonlyArray<OperatorReport>
  /** The operator returns one id for a message of several parts, and reports once. */
  readonly hasOneIdPerMessage?: boolean
}

const mayWrite = () => true

/** Makes a submission. Every adapter under test delivers to its number. */
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

/** Runs the suite. `make` makes a new adapter for each test. */
export const operatorContract = (
  name: string,
  make: Effect.Effect<OperatorUnderTest, never, Scope.Scope>,
): void => {
  describe(`operator port: ${name}`, () => {
    it.live('returns an outcome for each submission in order, with ids for its parts', () =>
      Effect.gen(function* () {
        const { hasOneIdPerMessage = false, operator } = yield* make
        const batch = [
          submissionOf('msg_a'),
          submissionOf('msg_b', { text: 'x'.repeat(400), parts: 3 }),
          submissionOf('msg_c'),
        ]
        const outcomes = yield* operator.submit(batch, mayWrite)
        assert.deepStrictEqual(
          outcomes.map((outcome) =>
            outcome.type === 'accepted' ? outcome.operatorIds.length : outcome.type,
          ),
          [1, hasOneIdPerMessage ? 1 : 3, 1],
        )
        const ids = outcomes.flatMap((outcome) => (outcome.type === 'accepted' ? outcome.operatorIds : []))
        assert.strictEqual(new Set(ids).size, ids.length)
      }).pipe(Effect.scoped),
    )

    it.live('reports with the ids of its outcomes, and with the reference or the recipient', () =>
      Effect.gen(function* () {
        const { operator, reported } = yield* make
        const [outcome] = yield* operator.submit([submissionOf('msg_a')], mayWrite)
        if (outcome?.type !== 'accepted') return assert.fail('it was accepted')
        const report = yield* reported(({ operatorId }) => operatorId === outcome.operatorIds[0])
        assert.strictEqual(report.operator, operator.name)
        // The sink needs one of them to find the shard.
        assert.include([report.reference, report.to], report.reference === null ? '+79001234567' : 'msg_a')
        assert.strictEqual(report.outcome, 'delivered')
      }).pipe(Effect.scoped),
    )

    it.live('writes nothing without a lease', () =>
      Effect.gen(function* () {
        const { operator, reports } = yield* make
        const refused = yield* operator.submit([submissionOf('msg_a'), submissionOf('msg_b')], () => false)
        assert.deepStrictEqual(refused, [{ type: 'notWritten' }, { type: 'notWritten' }])
        // A later report proves that the refused messages were not written.
        yield* operator.submit([submissionOf('msg_c')], mayWrite)
        assert.notInclude(
          reports().map(({ reference }) => reference),
          'msg_a',
        )
      }).pipe(Effect.scoped),
    )

    it.live('writes nothing more of a batch, and asks no more, after the lease has ended', () =>
      Effect.gen(function* () {
        const { operator, reported, reports } = yield* make
        const answers: Array<boolean> = []
        // More messages than any adapter writes at once. Only the second answer is `false`.
        const batch = Array.from({ length: 450 }, (_, i) => submissionOf(`msg_${i}`))
        const outcomes = yield* operator.submit(batch, () => {
          answers.push(answers.length !== 1)
          return answers.at(-1) === true
        })
        assert.isAtMost(answers.length, 2)
        assert.strictEqual(
          outcomes.some(({ type }) => type === 'notWritten'),
          answers.includes(false),
        )
        const [last] = yield* operator.submit([submissionOf('msg_last')], mayWrite)
        const ids = [...outcomes, last].flatMap((outcome) => {
          if (outcome?.type === 'accepted') return outcome.operatorIds
          assert.strictEqual(outcome?.type, 'notWritten')
          return []
        })
        // A later report proves that the other messages were not written.
        yield* reported(({ operatorId }) => operatorId === ids.at(-1))
        assert.includeMembers(
          ids,
          reports().map(({ operatorId }) => operatorId),
        )
      }).pipe(Effect.scoped),
    )

    it.live('returns the same ids for a repeated reference, if it deduplicates', () =>
      Effect.gen(function* () {
        const { operator } = yield* make
        if (!operator.capabilities.dedupesByReference) return
        const first = yield* operator.submit(
          [submissionOf('msg_a', { text: 'x'.repeat(200), parts: 2 })],
          mayWrite,
        )
        const second = yield* operator.submit(
          [submissionOf('msg_a', { text: 'x'.repeat(200), parts: 2 })],
          mayWrite,
        )
        assert.deepStrictEqual(first, second)
      }).pipe(Effect.scoped),
    )

    it.live('accepts an empty batch and an empty resume', () =>
      Effect.gen(function* () {
        const { operator } = yield* make
        assert.deepStrictEqual(yield* operator.submit([], mayWrite), [])
        yield* operator.resume([])
      }).pipe(Effect.scoped),
    )
  })
}
