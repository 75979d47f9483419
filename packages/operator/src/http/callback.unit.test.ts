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
    assert.deepStrictEqual(Result.isSuccess(result) ? result.success.usable : [], [
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

  // The answer of a parser that keeps no recursion limit is a stack overflow: a fault of the hub, and
  // an endless repetition by the operator.
  it.each([
    ['100,000 nested arrays', `${'['.repeat(100_000)}${']'.repeat(100_000)}`],
    ['100,000 nested arrays without their end', '['.repeat(100_000)],
    [
      'a report with a deeply nested field',
      `[{"operator_id":"1","status":"delivered","at":"2026-11-21T09:30:00Z","more":${'[{"a":'.repeat(5000)}1${'}]'.repeat(5000)}}]`,
    ],
    ['no JSON', '\ud800'],
  ])('rejects %s', (_, body) => {
    assert.strictEqual(refusal(read(body)), 400)
  })

  // PostgreSQL stores no NUL (PostgreSQL documentation, 8.3), and an entry of its B-tree index has at
  // most 2,704 octets (64.1). Avro and UTF-8 have no lone surrogates (Unicode, D92).
  it.each([
    ['with a NUL', 'a\0b'],
    ['of 300 kB', 'x'.repeat(300_000)],
    ['with a lone surrogate', '\ud83d'],
    ['with a line break', 'a\nb'],
    ['that is empty', ''],
    ['that is a number', 5],
  ])('skips a report whose id is one %s, and reads the others', (_, operator_id) => {
    const result = read([{ ...report, operator_id }, report, { ...report, reference: operator_id }, null])
    const { skipped, usable } = Result.getOrThrow(result)
    assert.deepStrictEqual([skipped, usable.map(({ operatorId }) => operatorId)], [3, ['sim-1-1']])
  })

  it('reads brackets and quotes in texts, and a field named __proto__', () => {
    const odd = `[{"operator_id":"1","status":"delivered","at":"${report.at}","reason":"${'[{'.repeat(100)}\\"[","__proto__":{"status":"seen"}}]`
    const { usable } = Result.getOrThrow(read(odd))
    assert.deepStrictEqual([usable[0]?.outcome, usable[0]?.reason], ['delivered', null])
  })

  it('omits an unknown reason', () => {
    const result = read([{ ...report, reason: 'a reason of next year' }])
    assert.strictEqual(Result.isSuccess(result) ? result.success.usable[0]?.reason : 'refused', null)
  })
})
