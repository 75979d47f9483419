import { assert, describe, it } from '@effect/vitest'
import { checkedSend, otp, otpSend, owner, service, templateOf } from '../testing/doubles.ts'
import { type Decision, decideSends, type KnownMessage, type Knowledge, refKey } from './decide.ts'
import type { CheckedSend } from './checked-send.ts'

const nothing: Knowledge = {
  known: new Map(),
  recorded: new Map(),
  optedOut: new Set(),
  acknowledged: () => false,
  inProgress: () => false,
}

const knownMessage = (of: CheckedSend, over: Partial<KnownMessage> = {}): KnownMessage => ({
  recipient: of.recipient,
  published: false,
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

const used = (of: CheckedSend, message: KnownMessage | null): Knowledge => ({
  ...nothing,
  known: new Map([[refKey(of.owner, of.clientRef ?? ''), message]]),
})

/** A decision as a word: its type, or the code of its refusal with the parameter. */
const word = (decision: Decision | undefined): string =>
  decision?.type === 'refuse'
    ? `${decision.error.code} ${decision.error.param ?? ''}`.trim()
    : (decision?.type ?? 'nothing')
const decide = (knowledge: Knowledge, ...checkedSends: ReadonlyArray<CheckedSend>) =>
  decideSends(checkedSends, knowledge).map(word)

describe('a new send', () => {
  it('is accepted', () => {
    assert.deepStrictEqual(decide(nothing, otp(), service('a')), ['accept', 'accept'])
  })
  it('is refused for what it says', () => {
    assert.deepStrictEqual(decide(nothing, service('a', { variables: {} })), [
      'template_variable_missing variables.order',
    ])
  })
  it('of class service is refused to an opted-out recipient, a code is not', () => {
    const knowledge = { ...nothing, optedOut: new Set([service().recipient]) }
    assert.deepStrictEqual(decide(knowledge, service(), otp()), ['recipient_opted_out to', 'accept'])
  })
  it('of a test key asks the sandbox table, not the opt-outs of real people', () => {
    const test = { ...owner, mode: 'test' as const }
    const template = templateOf({ class: 'service' })
    const ordinary = checkedSend(otpSend({ class: 'service' }), template, test)
    const optedOut = checkedSend(otpSend({ class: 'service', to: '+79000000013' }), template, test)
    const knowledge = { ...nothing, optedOut: new Set([ordinary.recipient]) }
    assert.deepStrictEqual(decide(knowledge, ordinary, optedOut), ['accept', 'recipient_opted_out to'])
  })
})

describe('several sends with one new reference', () => {
  it('wait for the first', () => {
    assert.deepStrictEqual(decide(nothing, otp('a'), otp('a'), service('a'), otp('b')), [
      'accept',
      'follow',
      'follow',
      'accept',
    ])
  })
  it('do not wait for one that was refused', () => {
    assert.deepStrictEqual(decide(nothing, otp('a', { variables: {} }), otp('a')), [
      'template_variable_missing variables.code',
      'accept',
    ])
  })
  it('of two accounts have nothing to do with each other', () => {
    const elsewhere = checkedSend(otpSend({ clientRef: 'a' }), templateOf(), {
      ...owner,
      account: 'acc_other',
    })
    assert.deepStrictEqual(decide(nothing, otp('a'), elsewhere), ['accept', 'accept'])
  })
})

describe('a repeat', () => {
  it('of a service message is a duplicate, whatever else it says', () => {
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
  it('of an unproven code that is on its way waits with it', () => {
    const repeat = otp('a')
    const knowledge = { ...used(repeat, knownMessage(repeat)), inProgress: () => true }
    assert.deepStrictEqual(decide(knowledge, repeat, repeat), ['join', 'join'])
  })
  it('of an unproven code for another recipient is refused: each might get a message', () => {
    const repeat = otp('a', { to: '+79007654321' })
    assert.deepStrictEqual(decide(used(repeat, knownMessage(otp('a'))), repeat), [
      'invalid_parameter client_ref',
    ])
    const otherClass = service('a')
    assert.deepStrictEqual(decide(used(otherClass, knownMessage(otp('a'))), otherClass), [
      'invalid_parameter client_ref',
    ])
  })
  it('of an unproven code that could not be sent now is refused for that', () => {
    const repeat = otp('a', { variables: {} })
    assert.deepStrictEqual(decide(used(repeat, knownMessage(repeat)), repeat), [
      'template_variable_missing variables.code',
    ])
  })
  it('of a message that is nowhere to be found is our failure', () => {
    const repeat = otp('a')
    assert.deepStrictEqual(decide(used(repeat, null), repeat), ['internal_error'])
  })
})
