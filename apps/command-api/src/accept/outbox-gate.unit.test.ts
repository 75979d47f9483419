import { assert, describe, it } from '@effect/vitest'
import { Effect } from 'effect'
import { OutboxGate } from './outbox-gate.ts'

const test = (name: string, body: (gate: OutboxGate['Service']) => void) =>
  it.effect(name, () => Effect.map(OutboxGate, body).pipe(Effect.provide(OutboxGate.layer)))

describe('the gate of the outbox', () => {
  test('holds until it is known what an earlier process left', (gate) => {
    assert.isTrue(gate.isHolding())
    assert.isFalse(gate.release(0))
    gate.limit(7)
    assert.strictEqual(gate.held().highest, 7)
    assert.isTrue(gate.release(0))
    assert.isFalse(gate.isHolding())
  })
  test('holds from the first row that was left behind', (gate) => {
    gate.limit(0)
    gate.release(0)
    let woken = 0
    gate.onHold(() => woken++)
    gate.hold(12)
    gate.hold(11)
    assert.deepStrictEqual([gate.isHolding(), gate.held().highest, woken], [true, 12, 2])
  })
  test('does not open for a relay that looked before the last row came', (gate) => {
    gate.limit(0)
    const { count } = gate.held()
    gate.hold(3)
    assert.isFalse(gate.release(count))
    assert.isTrue(gate.release(gate.held().count))
  })
})
