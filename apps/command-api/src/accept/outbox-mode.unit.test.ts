import { assert, describe, it } from '@effect/vitest'
import { Effect } from 'effect'
import { OutboxMode } from './outbox-mode.ts'

const test = (name: string, body: (outboxMode: OutboxMode['Service']) => void) =>
  it.effect(name, () => Effect.map(OutboxMode, body).pipe(Effect.provide(OutboxMode.layer)))

describe('the outboxMode of the outbox', () => {
  test('holds until it is known what an earlier process left', (outboxMode) => {
    assert.isTrue(outboxMode.isRelaying())
    assert.isFalse(outboxMode.switchToDirect(0))
    outboxMode.relayExistingRows(7)
    assert.strictEqual(outboxMode.relayBacklog().highest, 7)
    assert.isTrue(outboxMode.switchToDirect(0))
    assert.isFalse(outboxMode.isRelaying())
  })
  test('holds from the first row that was left behind', (outboxMode) => {
    outboxMode.relayExistingRows(0)
    outboxMode.switchToDirect(0)
    let woken = 0
    outboxMode.onLeftToRelay(() => woken++)
    outboxMode.leaveToRelay(12)
    outboxMode.leaveToRelay(11)
    assert.deepStrictEqual([outboxMode.isRelaying(), outboxMode.relayBacklog().highest, woken], [true, 12, 2])
  })
  test('does not open for a relay that looked before the last row came', (outboxMode) => {
    outboxMode.relayExistingRows(0)
    const { count } = outboxMode.relayBacklog()
    outboxMode.leaveToRelay(3)
    assert.isFalse(outboxMode.switchToDirect(count))
    assert.isTrue(outboxMode.switchToDirect(outboxMode.relayBacklog().count))
  })
})
