import { describe, expect, it } from 'vitest'
import { judge, type ReadMessage } from './judge.ts'
import type { Answer, Sent } from './load.ts'

const answer = (status: number, code = '', isForeign = false): Answer => ({ at: 0, status, code, isForeign })

const sent = (ref: string, more: Partial<Sent> = {}): Sent => ({
  ref,
  class: 'otp',
  at: 1000,
  answers: [answer(202)],
  accepted: { id: `msg_${ref}`, at: 1020 },
  ...more,
})

const message = (ref: string, more: Partial<ReadMessage> = {}): ReadMessage => ({
  id: `msg_${ref}`,
  clientRef: ref,
  status: 'delivered',
  attempts: 1,
  submitMs: 30,
  ...more,
})

const GOOD = {
  sent: [sent('a'), sent('b')],
  messages: [message('a'), message('b')],
  operator: { received: 2, repeated: 0 },
}

describe('the judge of a trial', () => {
  it('finds no fault if each message is accepted, delivered and submitted once', () => {
    const { faults, figures } = judge(GOOD)
    expect(faults).toEqual([])
    expect(figures).toEqual({
      messages: 2,
      accepted: 2,
      delivered: 2,
      refusals: {},
      ingressErrors: 0,
      codesRefusedMs: 0,
      submitMs: { p99: 30, max: 30 },
    })
  })

  it.each([
    [
      'a message that no client was told of',
      { sent: [sent('a'), sent('b', { accepted: null })] },
      /never told/u,
    ],
    ['an accepted message that cannot be read', { messages: [message('a')] }, /cannot be read: msg_b/u],
    [
      'a send that made two messages',
      { messages: [...GOOD.messages, message('b', { id: 'msg_c' })] },
      /several/u,
    ],
    [
      'a message that is not delivered',
      { messages: [message('a'), message('b', { status: 'expired' })] },
      /msg_b/u,
    ],
    ['a repeated submit', { operator: { received: 2, repeated: 1 } }, /more than once/u],
    [
      'a message that the operator did not receive',
      { operator: { received: 1, repeated: 0 } },
      /1 messages of 2/u,
    ],
    [
      'an answer of the ingress',
      { sent: [sent('a'), sent('b', { answers: [answer(502, '', true), answer(202)] })] },
      /no answer/u,
    ],
    [
      'a code that was refused for long',
      {
        sent: [
          sent('a'),
          sent('b', { answers: [answer(503), answer(202)], accepted: { id: 'msg_b', at: 4001 } }),
        ],
      },
      /3001 ms/u,
    ],
  ])('finds %s', (_, change, expected) => {
    const { faults } = judge({ ...GOOD, ...change })
    expect(faults.join('\n')).toMatch(expected)
  })

  it('permits as many unknown outcomes as the trial does', () => {
    const observed = {
      ...GOOD,
      messages: [message('a'), message('b', { status: 'expired' })],
      operator: { received: 1, repeated: 0 },
    }
    expect(judge(observed, { unknown: 1 }).faults).toEqual([])
    expect(judge(observed, { unknown: 0 }).faults.length).toBe(2)
  })
})
