import { encodeId, envelopeOf, type MessageAccepted, seenEvent, statusEvent } from '@hub/domain'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { storedBody, textOf } from './event-bodies.ts'

const AT = Date.UTC(2026, 10, 30, 14, 20, 59, 123)
const EVENT = '019ad5a1-6f2b-7c3d-8e4f-5a6b7c8d9e0f'
const row = (type: string, body: string): string => [EVENT, type, AT, body].join('\t')

const statuses = fc.constantFrom(
  'accepted',
  'sent',
  'delivered',
  'undelivered',
  'rejected',
  'expired',
  'seen',
)
const acceptance = fc.record({
  messageId: fc.uuid().map((uuid) => encodeId('msg', uuid)),
  at: fc.integer({ min: AT - 1e10, max: AT + 1000 }),
  class: fc.constantFrom('otp', 'service'),
  clientRef: fc.option(fc.string({ unit: 'binary', maxLength: 80 })),
  batch: fc.option(fc.uuid().map((uuid) => encodeId('bat', uuid))),
  template: fc.stringMatching(/^[a-z0-9_]{1,40}$/u),
  parts: fc.integer({ min: 1, max: 10 }),
  price: fc.record({ amount: fc.constantFrom('0.00', '1.50', '1234.05'), currency: fc.constant('RUB') }),
})

describe('a stored event', () => {
  // Recorded events must read the same for ever: never change these texts.
  it.each([
    [
      'message.sent',
      '01kbat2vsbfgyrwkttddy8v7gf\tservice\t\t"order-1"\t\torder_ready\t1023\t1\t1.50\tRUB',
      '{"id":"evt_01kbat2vsbfgyrwkttddy8v7gf","object":"event","type":"message.sent","created_at":"2026-11-30T14:20:59.123Z",' +
        '"mode":"live","data":{"object":{"id":"msg_01kbat2vsbfgyrwkttddy8v7gf","object":"message","status":"sent","final":false,' +
        '"class":"service","reason_code":null,"client_ref":"order-1","batch":null,"template":"order_ready",' +
        '"created_at":"2026-11-30T14:20:58.100Z","parts":1,"price":{"amount":"1.50","currency":"RUB"}}}}',
    ],
    [
      'message.seen',
      '01kbat2vsbfgyrwkttddy8v7gf\tservice\tflood\t\t01kbat2vsbfgyrwkttddy8v7gf\tcode\t-1\t2\t3.00\tRUB',
      '{"id":"evt_01kbat2vsbfgyrwkttddy8v7gf","object":"event","type":"message.seen","created_at":"2026-11-30T14:20:59.123Z",' +
        '"mode":"live","data":{"object":{"id":"msg_01kbat2vsbfgyrwkttddy8v7gf","object":"message","status":"delivered","final":true,' +
        '"class":"service","reason_code":"flood","client_ref":null,"batch":"bat_01kbat2vsbfgyrwkttddy8v7gf","template":"code",' +
        '"created_at":"2026-11-30T14:20:59.124Z","parts":2,"price":{"amount":"3.00","currency":"RUB"}}}}',
    ],
    ['message.sent', '{"id":"evt_01"}', '{"id":"evt_01"}'],
  ])('%s reads as it was recorded', (type, stored, text) => {
    expect(textOf('live', row(type, stored))).toBe(text)
  })

  it.each([
    ['another order', '{"type":"message.sent","id":"evt_01"}'],
    ['an object of another kind', '{"id":"evt_01","object":"event","data":{"object":{"id":"tpl_1"}}}'],
  ])('with %s is stored as it is', (_, body) => {
    const event = { id: EVENT, type: 'message.sent', mode: 'live', createdAt: AT, body } as const
    expect(storedBody(event)).toBe(body)
  })

  it('of a message is stored without what its row has, and reads the same', () => {
    fc.assert(
      fc.property(acceptance, statuses, fc.constantFrom('live', 'test'), (message, status, mode) => {
        const accepted = message as unknown as MessageAccepted
        const event =
          status === 'seen'
            ? seenEvent(accepted)
            : statusEvent(accepted, { status, reason: status === 'rejected' ? 'flood' : null } as never)
        const body = JSON.stringify(
          envelopeOf({ ...event, id: encodeId('evt', EVENT) }, { recordedAt: AT, mode }),
        )
        const stored = storedBody({ id: EVENT, type: event.type, mode, createdAt: AT, body })
        expect(stored.startsWith('{')).toBe(false)
        expect(Buffer.byteLength(stored)).toBeLessThan(Buffer.byteLength(body) - 250)
        expect(textOf(mode, row(event.type, stored))).toBe(body)
      }),
    )
  })

  it.each(['id', 'type', 'created_at', 'mode'])(
    'whose text has another %s than its row is stored as it is',
    (name) => {
      const body = JSON.stringify({
        ...envelopeOf(
          statusEvent(
            {
              messageId: encodeId('msg', EVENT),
              at: AT,
              class: 'otp',
              clientRef: null,
              batch: null,
              template: 'code',
              parts: 1,
              price: { amount: '1.50', currency: 'RUB' },
            },
            { status: 'sent', reason: null },
          ),
          { recordedAt: AT, mode: 'live' },
        ),
        id: encodeId('evt', EVENT),
      })
      const event = { id: EVENT, type: 'message.sent', mode: 'live', createdAt: AT, body } as const
      expect(storedBody(event)).not.toBe(body)
      const another = {
        id: EVENT.replace('0', '1'),
        type: 'message.delivered',
        created_at: AT + 1,
        mode: 'test',
      }
      const key = name === 'created_at' ? 'createdAt' : name
      const differing = { ...event, [key]: another[name as keyof typeof another] }
      expect(storedBody(differing)).toBe(body)
    },
  )
})
