import { assert, describe, it } from '@effect/vitest'
import { signatureHeader } from '@hub/domain'
import { Redacted, Result } from 'effect'
import { readHttpReports } from './callback.ts'

const SECRET = 'a secret shared with the operator'
const NOW = 1_800_000_000_000

const report = {
  operator_id: 'sim-1-1',
  reference: 'msg_a',
  status: 'undelivered',
  reason: 'recipient_blocked',
  at: '2026-11-21T09:30:00.123Z',
}

const read = (content: unknown, more: { at?: number; secret?: string; header?: string } = {}) => {
  const body = Buffer.from(typeof content === 'string' ? content : JSON.stringify(content))
  const header =
    more.header ?? signatureHeader([more.secret ?? SECRET], Math.floor((more.at ?? NOW) / 1000), body)
  return readHttpReports(Redacted.make(SECRET), header, body, NOW)
}

const refusal = (result: ReturnType<typeof read>) =>
  Result.isFailure(result) ? result.failure.status : 'read'

describe('callbacks of the operator', () => {
  it('reads signed reports', () => {
    const second = { operator_id: 'sim-1-2', status: 'delivered', at: report.at, more: 1 }
    const result = read([report, second])
    assert.deepStrictEqual(Result.isSuccess(result) ? result.success : [], [
      {
        operator: 'http',
        operatorId: 'sim-1-1',
        reference: 'msg_a',
        recipient: null,
        to: null,
        outcome: 'undelivered',
        reason: 'recipient_blocked',
        at: Date.parse(report.at),
        raw: Buffer.from(JSON.stringify(report)),
      },
      {
        operator: 'http',
        operatorId: 'sim-1-2',
        reference: null,
        recipient: null,
        to: null,
        outcome: 'delivered',
        reason: null,
        at: Date.parse(report.at),
        raw: Buffer.from(JSON.stringify(second)),
      },
    ])
  })

  it('rejects a wrong or late signature', () => {
    assert.strictEqual(refusal(read([report], { secret: 'another' })), 401)
    assert.strictEqual(refusal(read([report], { header: '' })), 401)
    assert.strictEqual(refusal(read([report], { at: NOW - 301_000 })), 401)
    assert.strictEqual(refusal(read([report], { at: NOW + 301_000 })), 401)
    assert.strictEqual(refusal(read([report], { at: NOW - 299_000 })), 'read')
  })

  it('rejects a malformed body', () => {
    for (const content of [
      'not json',
      '{}',
      [],
      [{ ...report, status: 'lost' }],
      [{ ...report, operator_id: '' }],
      [{ ...report, operator_id: 'x'.repeat(256) }],
      [{ ...report, at: 'yesterday' }],
      [{ ...report, at: 5 }],
      Array.from({ length: 101 }, () => report),
    ]) {
      assert.strictEqual(refusal(read(content)), 400)
    }
  })

  it('omits an unknown reason', () => {
    const result = read([{ ...report, reason: 'a reason of next year' }])
    assert.strictEqual(Result.isSuccess(result) ? result.success[0]?.reason : 'refused', null)
  })
})
