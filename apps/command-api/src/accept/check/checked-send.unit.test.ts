/** Checks and rendering of one send, before it waits for an acceptance batch. */
import { assert, describe, it } from '@effect/vitest'
import { DEFAULT_SETTINGS } from '@hub/domain'
import { Result } from 'effect'
import type { TemplateInUse } from '../../accounts/account.ts'
import { checkedSend, otp, otpSend, owner, templateOf } from '../../testing/doubles.ts'
import type { CheckedSend } from './checked-send.ts'

const test = { ...owner, mode: 'test' as const }
const resultOf = ({ draft }: CheckedSend): string =>
  Result.isSuccess(draft) ? draft.success.rendered.text : `${draft.failure.code} ${draft.failure.param}`

describe('a checked send', () => {
  it('is rendered, counted, priced and masked', () => {
    const { draft, recipient } = otp()
    const { rendered, toMasked, values, ...others } = Result.getOrThrow(draft)
    assert.deepInclude(rendered, { text: 'Code 1234', parts: 1, variables: ['code'] })
    assert.strictEqual(toMasked, '+7900***4567')
    assert.deepEqual({ ...values }, { code: '1234' })
    assert.deepInclude(others, {
      recipient,
      sender: 'HUB',
      scenario: null,
      pricePerPart: { amount: '2.50', currency: 'RUB' },
    })
    assert.match(recipient, /^[0-9a-f]{64}$/u)
  })

  const pending = { status: 'pending_moderation' as const }
  const cases: ReadonlyArray<readonly [string, TemplateInUse | null, live: string, sandbox: string]> = [
    ['no template', null, 'template_not_found template', 'template_not_found template'],
    [
      'a declined one',
      templateOf({ status: 'declined' }),
      'template_declined template',
      'template_declined template',
    ],
    ['one in moderation', templateOf(pending), 'template_not_approved template', 'Code 1234'],
    [
      'one of the other class',
      templateOf({ class: 'service' }),
      'template_class_mismatch class',
      'template_class_mismatch class',
    ],
    [
      'a pending sender',
      templateOf({ senderStatus: 'pending' }),
      'sender_not_registered template',
      'Code 1234',
    ],
    [
      'a declined sender',
      templateOf({ senderStatus: 'declined' }),
      'sender_not_registered template',
      'sender_not_registered template',
    ],
    // The first failed check decides: moderation, class, sender, variables.
    [
      'everything wrong',
      templateOf({ ...pending, class: 'service', senderStatus: 'pending' }),
      'template_not_approved template',
      'template_class_mismatch class',
    ],
    [
      'too long a text',
      templateOf({ body: `${'я'.repeat(671)}{{code}}` }),
      'template_text_too_long template',
      'template_text_too_long template',
    ],
  ]
  for (const [name, template, live, sandbox] of cases) {
    // Rules: TPL-15, TPL-16, TPL-17, TPL-22, SND-10, HTTP-30
    it(`with ${name}`, () => {
      assert.strictEqual(resultOf(checkedSend(otpSend(), template)), live)
      assert.strictEqual(resultOf(checkedSend(otpSend(), template, test)), sandbox)
    })
  }

  // Rules: MSG-42
  it('to a blocked range is refused in live mode, after the checks of the template', () => {
    const settings = { ...DEFAULT_SETTINGS, blockedRanges: ['900', '977'] }
    const checked = (to: string, as = owner, over: object = {}) =>
      resultOf(checkedSend(otpSend({ to }), templateOf(over), as, { settings }))
    assert.strictEqual(checked('+79001234567'), 'recipient_range_blocked to')
    assert.strictEqual(checked('+79011234567'), 'Code 1234')
    assert.strictEqual(checked('+79001234567', test), 'Code 1234')
    assert.strictEqual(checked('+79001234567', owner, pending), 'template_not_approved template')
    const inBatch = checkedSend(otpSend(), templateOf(), owner, { settings, path: 'messages[3]' })
    assert.strictEqual(resultOf(inBatch), 'recipient_range_blocked messages[3].to')
  })

  // Rules: ERR-8, TPL-19, TPL-20
  it('names the variable at fault, but not its value', () => {
    const variants = [{}, { code: '1', more: '2' }, { code: true }, { code: '\t' }] as const
    assert.deepStrictEqual(
      variants.map((variables) => resultOf(checkedSend(otpSend({ variables }), templateOf()))),
      [
        'template_variable_missing variables.code',
        'template_variable_unknown variables.more',
        'template_variable_invalid variables.code',
        'template_variable_invalid variables.code',
      ],
    )
  })
})
