import { assert, describe, it } from '@effect/vitest'
import { encodeId } from '@hub/domain'
import { messageAccepted } from '@hub/domain/testing'
import { type BatchSealed, encodeRecord, type HubRecord } from '@hub/kafka'
import { incomingRecord } from '../testing/incoming-record.ts'
import { decodeAndValidate } from './decode.ts'

const uuid = '0193a1b2-0000-7000-8000-000000000001'
const messageId = encodeId('msg', uuid)
const accepted = messageAccepted({
  messageId,
  class: 'otp',
  account: encodeId('acc', uuid),
  recipient: 'ab'.repeat(32),
  ciphertext: Buffer.from([1, 2, 3]),
  request: null,
  apiKey: null,
})
const recordOf = (value: Uint8Array) => incomingRecord({ value })
const decode = (content: HubRecord) => decodeAndValidate(recordOf(encodeRecord(content)))

const seal: BatchSealed = {
  type: 'BatchSealed',
  batch: encodeId('bat', uuid),
  account: accepted.account,
  mode: 'live',
  total: 4,
  accepted: 1,
  duplicate: 1,
  rejected: 2,
  createdAt: 1,
  at: 2,
}

describe('decodeAndValidate', () => {
  it('returns facts, fences and seals of batches', () => {
    assert.deepStrictEqual(decode(accepted), { kind: 'fact', fact: accepted })
    assert.deepStrictEqual(decode({ type: 'ShardOpened', shard: 1, epoch: 7, member: 'm', at: 1 }), {
      kind: 'fence',
      epoch: 7,
    })
    assert.deepStrictEqual(decode(seal), { kind: 'seal', seal })
  })

  it('recognizes records that only repeat the log', () => {
    const carried = { type: 'OpenMessagesCarried' as const, shard: 1, at: 1, messages: [] }
    assert.deepStrictEqual(decode(carried), { kind: 'repetition' })
  })

  it('returns the reason why a record cannot be decoded', () => {
    const invalid = (reason: string) => ({ kind: 'invalid', reason }) as const
    assert.deepStrictEqual(decodeAndValidate(recordOf(new Uint8Array())), invalid('truncated'))
    assert.deepStrictEqual(
      decodeAndValidate(recordOf(Buffer.from('{"text":"x"}'))),
      invalid('not_wire_format'),
    )
    assert.deepStrictEqual(
      decodeAndValidate(recordOf(Buffer.from([0, 0, 0, 9, 9, 1]))),
      invalid('unknown_schema'),
    )
    const change = {
      account: accepted.account,
      mode: 'live',
      subscription: 'we_x',
      change: 'created',
      at: 1,
    } as const
    assert.deepStrictEqual(decode({ type: 'SubscriptionChanged', ...change }), invalid('unexpected_type'))
  })

  it('names the field with an impossible value', () => {
    for (const [fields, reason] of [
      [{ messageId: 'msg_1' }, 'invalid_message_id'],
      [{ messageId: encodeId('acc', uuid) }, 'invalid_message_id'],
      [{ at: -1 }, 'invalid_at'],
      [{ at: 8_640_000_000_000_001 }, 'invalid_at'],
      [{ account: 'acc_' }, 'invalid_account'],
      [{ batch: '' }, 'invalid_batch'],
      [{ recipient: '+79001234567' }, 'invalid_recipient'],
      [{ price: { amount: '-2.50', currency: 'RUB' } }, 'invalid_price'],
      [{ price: { amount: '2,50', currency: 'RUB' } }, 'invalid_price'],
      [{ price: { amount: '2.50', currency: 'roubles' } }, 'invalid_price'],
      [{ parts: 40_000 }, 'invalid_parts'],
    ] as const) {
      assert.deepStrictEqual(decode({ ...accepted, ...fields }), { kind: 'invalid', reason })
    }
    const claim = { type: 'HandoverStarted', messageId, at: 1, epoch: 1, operator: 'http' } as const
    assert.deepStrictEqual(decode({ ...claim, attempt: 40_000 }), {
      kind: 'invalid',
      reason: 'invalid_attempt',
    })
    for (const [fields, reason] of [
      [{ batch: 'bat_1' }, 'invalid_batch'],
      [{ account: encodeId('bat', uuid) }, 'invalid_account'],
      [{ at: -1 }, 'invalid_at'],
      [{ createdAt: 8_640_000_000_000_001 }, 'invalid_created_at'],
      [{ total: -1 }, 'invalid_total'],
      [{ rejected: -4 }, 'invalid_rejected'],
    ] as const) {
      assert.deepStrictEqual(decode({ ...seal, ...fields }), { kind: 'invalid', reason })
    }
  })
})
