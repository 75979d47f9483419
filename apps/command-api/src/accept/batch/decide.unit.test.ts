import { assert, describe, it } from '@effect/vitest'
import { checkedSend, otp, otpSend, owner, service, templateOf } from '../../testing/doubles.ts'
import { type Decision, decideSends, type EarlierMessage, type Knowledge, refKey } from './decide.ts'
import type { CheckedSend } from '../check/checked-send.ts'

const nothingKnown: Knowledge = {
  known: new Map(),
  recorded: new Map(),
  optedOut: new Set(),
  acknowledged: () => false,
  inProgress: () => false,
}

const knownMessage = (of: CheckedSend, over: Partial<EarlierMessage> = {}): EarlierMessage => ({
  recipient: of.recipient,
  published: false,
  unpublished: false,
  view: {
    id: 'msg_earlier',
    mode: 'live',
    class: of.class,
    toMasked: '+7900***4567',
    status: 'accepted',
    reason: null,
    createdAt: 0,
    updatedAt: 0,
    clientRef: of.clientRef,
    batch: null,
    template: 'otp_code',
    sender: 'HUB',
    attempts: 0,
    parts: 1,
    price: { amount: '2.50', currency: 'RUB' },
    variables: [],
    history: [],
  },
  ...over,
})

const used = (of: CheckedSend, message: EarlierMessage | null): Knowledge => ({
  ...nothingKnown,
  known: new Map([[refKey(of.owner, of.clientRef ?? ''), message]]),
})

/** The type of a decision, or the error code and parameter of a refusal. */
const summaryOf = (decision: Decision | undefined): string =>
  decision?.type === 'refuse'
    ? `${decision.error.code} ${decision.error.param ?? ''}`.trim()
    : (decision?.type ?? 'nothing')
const decide = (knowledge: Knowledge, ...checkedSends: ReadonlyArray<CheckedSend>) =>
  decideSends(checkedSends, knowledge).map(summaryOf)

describe('a new send', () => {
  it('is accepted', () => {
    assert.deepStrictEqual(decide(nothingKnown, otp(), service('a')), ['accept', 'accept'])
  })
  it('is refused if its check failed', () => {
    assert.deepStrictEqual(decide(nothingKnown, service('a', { variables: {} })), [
      'template_variable_missing variables.order',
    ])
  })
  // Rules: MSG-7
  it('of class service is refused for an opted-out recipient, a code is not', () => {
    const knowledge = { ...nothingKnown, optedOut: new Set([service().recipient]) }
    assert.deepStrictEqual(decide(knowledge, service(), otp()), ['recipient_opted_out to', 'accept'])
  })
  // Rules: SBX-12
  it('in test mode uses the opt-outs of the sandbox, not those of real recipients', () => {
    const test = { ...owner, mode: 'test' as const }
    const template = templateOf({ class: 'service' })
    const ordinary = checkedSend(otpSend({ class: 'service' }), template, test)
    const optedOut = checkedSend(otpSend({ class: 'service', to: '+79000000013' }), template, test)
    const knowledge = { ...nothingKnown, optedOut: new Set([ordinary.recipient]) }
    assert.deepStrictEqual(decide(knowledge, ordinary, optedOut), ['accept', 'recipient_opted_out to'])
  })
})

describe('several sends with one new client_ref', () => {
  // Rules: BAT-5
  it('follow the first', () => {
    assert.deepStrictEqual(decide(nothingKnown, otp('a'), otp('a'), service('a'), otp('b')), [
      'accept',
      'follow',
      'follow',
      'accept',
    ])
  })
  it('do not follow one that is refused', () => {
    assert.deepStrictEqual(decide(nothingKnown, otp('a', { variables: {} }), otp('a')), [
      'template_variable_missing variables.code',
      'accept',
    ])
  })
  it('of two accounts are independent', () => {
    const elsewhere = checkedSend(otpSend({ clientRef: 'a' }), templateOf(), {
      ...owner,
      account: 'acc_other',
    })
    assert.deepStrictEqual(decide(nothingKnown, otp('a'), elsewhere), ['accept', 'accept'])
  })
})

describe('a repeat', () => {
  // Rules: MSG-10
  it('of a service message is a duplicate, whatever its body contains', () => {
    const known = knownMessage(service('a'))
    for (const repeat of [
      service('a'),
      service('a', { variables: {} }),
      service('a', { to: '+79007654321' }),
      checkedSend(otpSend({ class: 'service', clientRef: 'a' }), null),
      otp('a'),
    ]) {
      assert.deepStrictEqual(decide(used(repeat, known), repeat), ['duplicate'])
    }
  })
  it('of a proven code is a duplicate', () => {
    const repeat = otp('a', { variables: {} })
    assert.deepStrictEqual(decide(used(repeat, knownMessage(repeat, { published: true })), repeat), [
      'duplicate',
    ])
    const acknowledged = { ...used(repeat, knownMessage(repeat)), acknowledged: () => true }
    assert.deepStrictEqual(decide(acknowledged, repeat), ['duplicate'])
  })
  it('of an unproven code is published again', () => {
    const repeat = otp('a')
    assert.deepStrictEqual(decide(used(repeat, knownMessage(repeat)), repeat, repeat), [
      'republish',
      'follow',
    ])
  })
  it('of a code in progress joins it', () => {
    const repeat = otp('a')
    const knowledge = { ...used(repeat, knownMessage(repeat)), inProgress: () => true }
    assert.deepStrictEqual(decide(knowledge, repeat, repeat), ['join', 'join'])
  })
  // Rules: MSG-14
  it('of an unproven code for another recipient is refused: both could get a message', () => {
    const repeat = otp('a', { to: '+79007654321' })
    assert.deepStrictEqual(decide(used(repeat, knownMessage(otp('a'))), repeat), [
      'invalid_parameter client_ref',
    ])
    const otherClass = service('a')
    assert.deepStrictEqual(decide(used(otherClass, knownMessage(otp('a'))), otherClass), [
      'invalid_parameter client_ref',
    ])
  })
  it('of an unproven code is refused if its check fails now', () => {
    const repeat = otp('a', { variables: {} })
    assert.deepStrictEqual(decide(used(repeat, knownMessage(repeat)), repeat), [
      'template_variable_missing variables.code',
    ])
  })
  it('of a message that does not exist is an internal error', () => {
    const repeat = otp('a')
    assert.deepStrictEqual(decide(used(repeat, null), repeat), ['internal_error'])
  })
})
