/**
 * The state machine of a send. The expected states come from the diagram and the comments of `send.ts`,
 * the expected errors from docs/decisions/repeats.md#unknown-outcomes.
 */
import { apiError } from '@hub/contract'
import { Result } from 'effect'
import fc from 'fast-check'
import { assert, describe, it } from 'vitest'
import { otp, service } from '../testing/doubles.ts'
import { refusalAtDeadline, Send, type SendOutcome } from './send.ts'

const REFUSED: SendOutcome = Result.fail(apiError('overloaded'))
const LATER: SendOutcome = Result.fail(apiError('internal_error'))
const RECORD = { messageId: 'msg_1', at: 1000 }
const RECORD_AGAIN = { messageId: 'msg_1', at: 2000 }

const observed = (checked = service()) => {
  const seen = { answered: [] as Array<number | null>, settled: 0 }
  const send = new Send(checked, null, {
    onAnswered: (begunAt) => void seen.answered.push(begunAt),
    onSettled: () => void seen.settled++,
  })
  return { send, seen }
}

/** A send whose commit begins. */
const recording = (checked = service()) => {
  const one = observed(checked)
  one.send.begin({ begunAt: 5 })
  one.send.record()
  return one
}

describe('a send', () => {
  it('keeps its first outcome', () => {
    const { seen, send } = observed()
    send.answer(REFUSED)
    send.finish(LATER)
    assert.strictEqual(send.outcome, REFUSED)
    assert.deepStrictEqual(seen, { answered: [null], settled: 1 })
  })

  it('is settled at its deadline only if its commit is not in progress', () => {
    const waiting = observed()
    waiting.send.answer(REFUSED)
    assert.strictEqual(waiting.seen.settled, 1)

    const { seen, send } = recording()
    send.answer(REFUSED)
    assert.deepStrictEqual(seen, { answered: [null], settled: 0 })
    send.lose(RECORD)
    assert.strictEqual(seen.settled, 0)
    send.resolve('withdrawn')
    assert.strictEqual(seen.settled, 1)
  })

  it('keeps until it is dropped that a commit with an unknown result has recorded it', () => {
    const { seen, send } = recording()
    send.lose(RECORD)
    send.resolve('committed')
    assert.deepStrictEqual(send.recordedBefore, RECORD)
    // The result of another commit is unknown too, and it was withdrawn.
    send.begin({ begunAt: 6 })
    send.record()
    send.lose(RECORD_AGAIN)
    send.resolve('withdrawn')
    assert.deepStrictEqual(send.recordedBefore, RECORD)
    send.answer(REFUSED)
    assert.strictEqual(seen.settled, 0)
    send.drop()
    assert.strictEqual(seen.settled, 1)
  })

  it('forgets a commit that was withdrawn', () => {
    const { send } = recording()
    send.lose(RECORD)
    send.resolve('withdrawn')
    assert.deepStrictEqual([send.state.tag, send.recordedBefore], ['Waiting', null])
  })

  it('keeps the id of its first acceptance batch', () => {
    const { send } = observed()
    send.identify('msg_1')
    send.identify('msg_2')
    assert.strictEqual(send.messageId, 'msg_1')
  })

  it('tells the start of its acceptance batch only if it is a new message', () => {
    const view = { id: 'msg_1' } as never
    for (const duplicate of [false, true]) {
      const { seen, send } = recording()
      send.finish(Result.succeed({ view, duplicate }))
      assert.deepStrictEqual(seen.answered, [duplicate ? null : 5])
    }
  })

  it('has an unknown outcome at its deadline if the ledger or Kafka may contain it', () => {
    const errorOf = (send: Send<null>) => {
      const { code, outcome } = refusalAtDeadline(send)
      return [code, outcome ?? null]
    }
    assert.deepStrictEqual(errorOf(observed().send), ['internal_error', null])
    assert.deepStrictEqual(errorOf(observed(otp()).send), ['provider_unavailable', null])
    assert.deepStrictEqual(errorOf(recording().send), ['internal_error', 'unknown'])
    // A code is published only after its commit has succeeded, and not after its refusal.
    assert.deepStrictEqual(errorOf(recording(otp()).send), ['provider_unavailable', null])
    const { send } = recording(otp())
    send.recorded()
    assert.deepStrictEqual(errorOf(send), ['provider_unavailable', null])
    send.append()
    assert.deepStrictEqual(errorOf(send), ['provider_unavailable', 'unknown'])
    const joined = observed(otp()).send
    joined.begin({ begunAt: 5 })
    joined.join()
    assert.deepStrictEqual(errorOf(joined), ['provider_unavailable', 'unknown'])
  })

  const TRANSITIONS: ReadonlyArray<readonly [name: string, (send: Send<null>) => void]> = [
    ['begin', (send) => send.begin({ begunAt: 5 })],
    ['reserve', (send) => send.reserve({} as never)],
    ['join', (send) => send.join()],
    ['record', (send) => send.record()],
    ['retry', (send) => send.retry()],
    ['again', (send) => send.again()],
    ['lose', (send) => send.lose(RECORD)],
    ['committed', (send) => send.resolve('committed')],
    ['withdrawn', (send) => send.resolve('withdrawn')],
    ['recorded', (send) => send.recorded()],
    ['append', (send) => send.append()],
    ['answer', (send) => send.answer(REFUSED)],
    ['drop', (send) => send.drop()],
  ]

  it('is answered once and settled once after any transitions, and an impossible one changes nothing', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...TRANSITIONS), { maxLength: 30 }), (transitions) => {
        const { seen, send } = observed()
        for (const [, transition] of transitions) {
          const before = send.state
          try {
            transition(send)
          } catch {
            assert.strictEqual(send.state, before)
          }
          assert.strictEqual(seen.answered.length, send.outcome === null ? 0 : 1)
          if (send.left === null) assert.strictEqual(seen.settled, 1)
          if (send.outcome === null) assert.strictEqual(seen.settled, 0)
        }
        send.finish(LATER)
        assert.strictEqual(seen.answered.length, 1)
        assert.strictEqual(seen.settled, 1)
      }),
      { numRuns: 2000 },
    )
  })
})
