import { assert, describe, it } from '@effect/vitest'
import { Effect, Logger, References } from 'effect'
import { guardOperator, guardSink } from './boundary.ts'
import { submissionOf } from './port.contract.ts'
import type { InboundMessage, Operator, OperatorReport, SubmitOutcome } from './port.ts'

const operatorOf = (submit: Operator['submit']): Operator => ({
  name: 'http',
  capabilities: { dedupesByReference: true, window: 1 },
  submit,
  resume: () => Effect.die(new Error('+79001234567')),
})

/** Runs an effect and returns its result with the log lines. */
const logged = <A>(effect: Effect.Effect<A>) => {
  const lines: Array<string> = []
  const logger = Logger.make(({ cause, fiber, message }) => {
    lines.push(JSON.stringify([message, String(cause), fiber.getRef(References.CurrentLogAnnotations)]))
  })
  return Effect.map(effect.pipe(Effect.provide(Logger.layer([logger]))), (result) => ({ lines, result }))
}

const report = (operatorId: string): OperatorReport => ({
  operator: 'http',
  operatorId,
  reference: null,
  recipient: null,
  to: '+79001234567',
  outcome: 'delivered',
  reason: null,
  at: 0,
  raw: null,
})

const inbound = (more: Partial<InboundMessage>): InboundMessage => ({
  operator: 'http',
  operatorId: 'in-1',
  from: '+79001234567',
  serviceAddress: '2442',
  text: 'STOP',
  at: 0,
  raw: null,
  ...more,
})

describe('the boundary of the operator port', () => {
  it.effect.each([
    [
      'throws',
      () => {
        throw new SyntaxError('Unexpected token in "+79001234567"')
      },
    ],
    ['dies', () => Effect.die(new RangeError('+79001234567'))],
    ['dies with something else', () => Effect.die('+79001234567')],
    ['returns too few outcomes', () => Effect.succeed([])],
  ] as ReadonlyArray<readonly [string, () => Effect.Effect<ReadonlyArray<SubmitOutcome>>]>)(
    'makes the outcome of a batch unknown if the adapter %s',
    ([, submit]) =>
      Effect.gen(function* () {
        const { lines, result } = yield* logged(
          Effect.flatMap(guardOperator(operatorOf(submit)), (operator) =>
            operator.submit([submissionOf('msg_a'), submissionOf('msg_b')], () => true),
          ),
        )
        assert.deepStrictEqual(result, [{ type: 'unknown' }, { type: 'unknown' }])
        assert.notInclude(lines.join(), '9001234567')
      }),
  )

  it.effect('survives an adapter that dies when it resumes', () =>
    Effect.gen(function* () {
      const { lines } = yield* logged(
        Effect.flatMap(guardOperator(operatorOf(() => Effect.succeed([]))), ({ resume }) => resume([])),
      )
      assert.lengthOf(lines, 1)
      assert.notInclude(lines[0], '9001234567')
    }),
  )

  it.effect('stores the usable reports and inbound messages, and logs nothing of the others', () =>
    Effect.gen(function* () {
      const stored: Array<OperatorReport | InboundMessage> = []
      const store = (values: ReadonlyArray<OperatorReport | InboundMessage>) =>
        Effect.sync(() => void stored.push(...values))
      const { lines } = yield* logged(
        Effect.gen(function* () {
          const sink = yield* guardSink({ store, storeInbound: store, keepAnswers: () => {} })
          yield* sink.store([report('79001234567\0'), report('op-1')]).pipe(Effect.orDie)
          yield* sink.store([{ ...report('op-2'), reference: 'x'.repeat(300_000) }]).pipe(Effect.orDie)
          yield* sink
            .storeInbound([
              inbound({ operatorId: '' }),
              inbound({ operatorId: 'in-2', serviceAddress: '24\u000042\u202e', text: 'STOP\ud800' }),
            ])
            .pipe(Effect.orDie)
        }),
      )
      assert.deepStrictEqual(stored, [
        report('op-1'),
        // An opt-out counts, however the address is written.
        inbound({ operatorId: 'in-2', text: 'STOP\ufffd' }),
      ])
      assert.lengthOf(lines, 3)
      assert.notInclude(lines.join(), '9001234567')
    }),
  )
})
