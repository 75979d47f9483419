import { assert, describe, it } from '@effect/vitest'
import { Effect } from 'effect'
import { OutboxMode } from './outbox-mode.ts'

const test = (name: string, body: (outboxMode: OutboxMode['Service']) => void) =>
  it.effect(name, () => Effect.map(OutboxMode, body).pipe(Effect.provide(OutboxMode.layer)))

describe('the outbox mode', () => {
  test('is relaying until the rows of earlier processes are known and appended', (outboxMode) => {
    assert.isTrue(outboxMode.isRelaying())
    assert.isFalse(outboxMode.switchToDirect(0))
    outboxMode.relayExistingRows(7)
    assert.strictEqual(outboxMode.relayBacklog().highest, 7)
    assert.isTrue(outboxMode.switchToDirect(0))
    assert.isFalse(outboxMode.isRelaying())
  })
  test('changes to relaying with the first row that is left to the relay, and wakes the relay', (outboxMode) => {
    outboxMode.relayExistingRows(0)
    outboxMode.switchToDirect(0)
    let woken = 0
    outboxMode.onLeftToRelay(() => woken++)
    outboxMode.leaveToRelay(12)
    outboxMode.leaveToRelay(11)
    assert.deepStrictEqual([outboxMode.isRelaying(), outboxMode.relayBacklog().highest, woken], [true, 12, 2])
  })
  test('does not change to direct for a relay that read the backlog before the last row', (outboxMode) => {
    outboxMode.relayExistingRows(0)
    const { count } = outboxMode.relayBacklog()
    outboxMode.leaveToRelay(3)
    assert.isFalse(outboxMode.switchToDirect(count))
    assert.isTrue(outboxMode.switchToDirect(outboxMode.relayBacklog().count))
  })
})
