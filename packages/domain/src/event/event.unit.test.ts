import { describe, expect, it } from 'vitest'
import { envelopeOf, EVENT_TYPES, eventIdOf, isEventType } from './event.ts'

describe('event types', () => {
  // Rules: EVT-2
  it('are those of the API contract', () => {
    expect([...EVENT_TYPES].toSorted()).toEqual([
      'account.spend_threshold',
      'batch.completed',
      'message.accepted',
      'message.delivered',
      'message.expired',
      'message.rejected',
      'message.seen',
      'message.sent',
      'message.undelivered',
      'recipient.opted_in',
      'recipient.opted_out',
      'sender.declined',
      'sender.registered',
      'template.approved',
      'template.declined',
      'webhook.endpoint_disabled',
      'webhook.endpoint_enabled',
      'webhook.test',
    ])
  })

  it.each([
    ['message.sent', true],
    ['message.unknown', false],
    ['', false],
    ['constructor', false],
  ])('%j is an event type: %s', (text, expected) => {
    expect(isEventType(text)).toBe(expected)
  })
})

describe('an event', () => {
  // Rules: EVT-1
  it('is wrapped in its envelope', () => {
    const event = {
      id: eventIdOf('bat_1', 'batch.completed'),
      type: 'batch.completed',
      object: { id: 'bat_1' },
    } as const
    const envelope = envelopeOf(event, { recordedAt: 1_800_000_000_123, mode: 'test' })
    expect(JSON.stringify(envelope)).toBe(
      `{"id":"${event.id}","object":"event","type":"batch.completed","created_at":"2027-01-15T08:00:00.123Z",` +
        '"mode":"test","data":{"object":{"id":"bat_1"}}}',
    )
  })

  // Rules: GEN-3, EVT-3
  it('has an id that depends on its subject and type', () => {
    expect(eventIdOf('bat_1', 'batch.completed')).toBe(eventIdOf('bat_1', 'batch.completed'))
    expect(eventIdOf('bat_1', 'batch.completed')).not.toBe(eventIdOf('bat_2', 'batch.completed'))
    expect(eventIdOf('msg_1', 'message.sent')).not.toBe(eventIdOf('msg_1', 'message.seen'))
  })
})
