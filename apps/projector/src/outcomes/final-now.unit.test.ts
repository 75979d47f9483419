import { assert, describe, it } from '@effect/vitest'
import type { MessageFact } from '@hub/domain'
import { fold } from '../messages/fold.ts'
import type { MessageRow } from '../messages/row.ts'
import { acceptedOf, idOf, T } from '../testing/model.ts'
import { finalNow } from './final-now.ts'

const messageId = idOf(1)
const accepted = acceptedOf(messageId)
const sent: MessageFact = {
  type: 'MessageSent',
  messageId,
  at: T + 1,
  operator: 'http',
  operatorIds: ['7'],
  reportDeadline: T + 1000,
}
const expired: MessageFact = { type: 'MessageExpired', messageId, at: T + 2, reason: 'dlr_timeout_local' }
const delivered: MessageFact = { type: 'MessageDelivered', messageId, at: T + 3 }
const seen: MessageFact = { type: 'MessageSeen', messageId, at: T + 4 }

/** Applies batches, and returns how often each of them decided the outcome. */
const decided = (...batches: ReadonlyArray<ReadonlyArray<MessageFact>>): ReadonlyArray<number> => {
  const rows = new Map<string, MessageRow>()
  return batches.map((facts) => {
    const changes = fold(rows, facts)
    const { length } = finalNow(rows, changes)
    for (const row of [...changes.accepted.map((one) => one.row), ...changes.updated, ...changes.unaccepted])
      rows.set(row.messageId, row)
    return length
  })
}

describe('finalNow', () => {
  it('names a message when it gets its final status, and not for other changes', () => {
    assert.deepStrictEqual(decided([accepted], [sent], [delivered], [seen]), [0, 0, 1, 0])
    assert.deepStrictEqual(decided([accepted, sent, delivered, seen]), [1])
  })

  it('names it again when a late report replaces the outcome', () => {
    assert.deepStrictEqual(decided([accepted, sent, expired], [delivered]), [1, 1])
  })

  it('waits for the acceptance', () => {
    assert.deepStrictEqual(decided([sent, delivered], [accepted]), [0, 1])
  })

  it('names nothing for a repetition', () => {
    assert.deepStrictEqual(decided([accepted, sent, delivered], [accepted, sent, delivered]), [1, 0])
  })
})
