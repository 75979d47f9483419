import { assert, describe, it } from 'vitest'
import {
  moderateTemplate,
  newSenderStatus,
  newTemplateStatus,
  moderateSender,
  senderDecided,
  templateDecided,
} from './moderation.ts'

const AT = Date.UTC(2026, 10, 21, 12)

describe('moderation', () => {
  // Rules: TPL-8, SND-4
  it('is not awaited in test mode', () => {
    assert.deepStrictEqual([newTemplateStatus('test'), newSenderStatus('test')], ['approved', 'registered'])
    assert.deepStrictEqual(
      [newTemplateStatus('live'), newSenderStatus('live')],
      ['pending_moderation', 'pending'],
    )
  })

  it('approves, declines, replaces earlier decisions, and ignores repeated ones', () => {
    const approved = moderateTemplate({ status: 'pending_moderation', reason: null }, { approved: true })
    assert.deepStrictEqual(approved, { status: 'approved', reason: null })
    assert.isNull(moderateTemplate({ status: 'approved', reason: null }, { approved: true }))
    const declined = moderateTemplate(
      { status: 'approved', reason: null },
      { approved: false, reason: 'No sender in it' },
    )
    assert.deepStrictEqual(declined, { status: 'declined', reason: 'No sender in it' })
    assert.isNull(moderateTemplate(declined!, { approved: false, reason: 'No sender in it' }))
    assert.deepStrictEqual(moderateTemplate(declined!, { approved: false, reason: 'Another one' }), {
      status: 'declined',
      reason: 'Another one',
    })
    assert.deepStrictEqual(moderateTemplate(declined!, { approved: true }), {
      status: 'approved',
      reason: null,
    })
    assert.deepStrictEqual(moderateSender({ status: 'pending', reason: null }, { approved: true }), {
      status: 'registered',
      reason: null,
    })
  })

  // Rules: EVT-7
  it('produces one event for each decision, without texts', () => {
    const template = {
      id: 'tpl_1',
      name: 'order_ready',
      class: 'service',
      sender: 'HUB',
      mode: 'live',
      status: 'declined',
      reason: 'No sender in it',
      createdAt: AT,
    } as const
    const event = templateDecided(template, AT)
    assert.strictEqual(event.type, 'template.declined')
    assert.deepStrictEqual(event.object, {
      id: 'tpl_1',
      object: 'template',
      name: 'order_ready',
      class: 'service',
      sender: 'HUB',
      status: 'declined',
      reason: 'No sender in it',
      created_at: '2026-11-21T12:00:00.000Z',
      mode: 'live',
    })
    assert.strictEqual(templateDecided(template, AT).id, event.id)
    assert.notStrictEqual(templateDecided(template, AT + 1).id, event.id)
    const sender = {
      id: 'snd_1',
      name: 'HUB',
      mode: 'live',
      status: 'registered',
      reason: null,
      createdAt: AT,
    } as const
    assert.strictEqual(senderDecided(sender, AT).type, 'sender.registered')
  })
})
