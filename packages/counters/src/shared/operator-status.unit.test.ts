import { assert, it } from '@effect/vitest'
import { Effect, Layer } from 'effect'
import { MemorySharedTexts, memorySharedTexts } from './memory.ts'
import {
  OPERATOR_STATUS_MS,
  type OperatorStatus,
  readOperatorStatus,
  recordOperatorStatus,
} from './operator-status.ts'
import { SharedTexts } from './port.ts'

const status = (passed: number): OperatorStatus => ({
  operator: 'smpp',
  binds: [{ role: 'transceiver', established: 1, wanted: 2, since: 5 }],
  rate: 40,
  configured: null,
  passed,
  throttled: 0,
})

const test = (name: string, body: Effect.Effect<void, unknown, SharedTexts | MemorySharedTexts>) =>
  it.effect(name, () => body.pipe(Effect.provide(Layer.fresh(memorySharedTexts))))

test(
  'the operator status has the last report of each dispatcher',
  Effect.gen(function* () {
    const shared = yield* SharedTexts
    assert.deepStrictEqual(yield* readOperatorStatus(shared), [])
    yield* recordOperatorStatus(shared, { member: 'a', host: 'one' }, [status(1)])
    yield* recordOperatorStatus(shared, { member: 'b', host: 'two' }, [status(2)])
    yield* recordOperatorStatus(shared, { member: 'a', host: 'one' }, [status(3)])
    assert.deepStrictEqual(
      (yield* readOperatorStatus(shared)).map(({ host, operators }) => [host, operators]),
      [
        ['one', [status(3)]],
        ['two', [status(2)]],
      ],
    )
  }),
)

test(
  'the operator status forgets a dispatcher that has stopped, although others report',
  Effect.gen(function* () {
    const shared = yield* SharedTexts
    const { advance } = yield* MemorySharedTexts
    yield* recordOperatorStatus(shared, { member: 'stopped', host: 'one' }, [status(1)])
    for (let report = 0; report < 4; report++) {
      yield* recordOperatorStatus(shared, { member: 'runs', host: 'two' }, [status(2)])
      yield* advance(OPERATOR_STATUS_MS)
    }
    assert.deepStrictEqual(
      (yield* readOperatorStatus(shared)).map(({ host }) => host),
      ['two'],
    )
  }),
)

test(
  'the operator status survives a text that it cannot read',
  Effect.gen(function* () {
    const shared = yield* SharedTexts
    yield* shared.change('operator-status:1', 60_000, () => ({ text: '{"a":1}', result: null }))
    assert.deepStrictEqual(yield* readOperatorStatus(shared), [])
    yield* recordOperatorStatus(shared, { member: 'a', host: 'one' }, [])
    assert.lengthOf(yield* readOperatorStatus(shared), 1)
  }),
)
