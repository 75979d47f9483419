/**
 * Static headers of a subscription. The judge of names and values is Node's own validation of the headers that it
 * sends (`validateHeaderName`, `validateHeaderValue`), and the names of RFC 9110 and RFC 9113.
 */
import { Result } from 'effect'
import fc from 'fast-check'
import { validateHeaderName, validateHeaderValue } from 'node:http'
import { describe, expect, it } from 'vitest'
import type { ApiError } from '../errors.ts'
import type { Json } from '../json.ts'
import { decodeWebhookHeaders } from './webhook-headers.ts'

const outcome = (given: Json | undefined) => {
  const result = decodeWebhookHeaders(given)
  return Result.isSuccess(result) ? result.success : `${result.failure.code} ${result.failure.param}`
}

const refusalOf = (given: Json): ApiError => {
  const result = decodeWebhookHeaders(given)
  if (Result.isSuccess(result)) throw new Error('accepted')
  return result.failure
}

const holds = (check: () => void): boolean => {
  try {
    check()
    return true
  } catch {
    return false
  }
}

describe('static headers', () => {
  // Rules: SUB-32
  it('are kept as sent, in their order', () => {
    const headers = { Authorization: 'Bearer a.b-c=', 'x-tenant': 'Shop \t 7', 'X_1~': '!' }
    expect(outcome(headers)).toEqual([
      ['Authorization', 'Bearer a.b-c='],
      ['x-tenant', 'Shop \t 7'],
      ['X_1~', '!'],
    ])
    for (const none of [undefined, null, {}]) expect(outcome(none)).toEqual([])
  })

  // Rules: SUB-32
  it('are at most ten, with 4096 characters together', () => {
    const many = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, n) => [`X-${n}`, 'a']))
    expect(outcome(many(10))).toHaveLength(10)
    expect(outcome(many(11))).toBe('invalid_parameter headers')
    expect(outcome({ A: 'a'.repeat(4095) })).toHaveLength(1)
    expect(outcome({ A: 'a'.repeat(4096) })).toBe('invalid_parameter headers')
    expect(outcome({ A: 'a'.repeat(2048), B: 'b'.repeat(2047) })).toBe('invalid_parameter headers')
  })

  it.each<Json>([[], ['A: b'], 'A: b', 7, true])('are no object: %j', (given) => {
    expect(outcome(given)).toBe('invalid_parameter headers')
  })

  // Rules: SUB-33
  it.each([
    'Host',
    'Content-Length',
    'Content-Type',
    'Content-Encoding',
    'User-Agent',
    'Expect',
    'Traceparent',
    // RFC 9110, 7.6.1, and RFC 9113, 8.2.2: fields of one connection.
    'Connection',
    'Keep-Alive',
    'Proxy-Connection',
    'TE',
    'Trailer',
    'Transfer-Encoding',
    'Upgrade',
    'HTTP2-Settings',
    'Proxy-Authorization',
    'Proxy-Authenticate',
    'Hub-Signature',
    'Hub-Event-Id',
    'Hub-Anything',
    'webhook-id',
    'webhook-timestamp',
    'webhook-signature',
    'webhook-anything',
  ])('cannot be %s, in any case', (name) => {
    for (const spelled of [name, name.toLowerCase(), name.toUpperCase()]) {
      expect(outcome({ [spelled]: 'a' })).toBe(`invalid_parameter headers.${spelled}`)
    }
  })

  // Rules: SUB-33
  it('have names that differ not only in case', () => {
    expect(outcome({ 'X-Shop': '1', 'x-shop': '2' })).toBe('invalid_parameter headers.x-shop')
  })

  // Rules: SUB-33
  it('have names that are tokens; a refusal does not repeat another text', () => {
    for (const name of ['', 'A B', 'A:', 'Ключ', 'A\r\nB', 'a'.repeat(65), 'Bearer s3cret']) {
      const refused = refusalOf({ [name]: 'a' })
      expect([refused.code, refused.param]).toEqual(['invalid_parameter', 'headers'])
      expect(refused.message).not.toContain('s3cret')
    }
    expect(outcome({ ['a'.repeat(64)]: 'a' })).toHaveLength(1)
    expect(outcome(JSON.parse('{"__proto__": "a"}') as Json)).toEqual([['__proto__', 'a']])
  })

  // Rules: SUB-34
  it.each<Json>([
    7,
    null,
    ['a'],
    '',
    ' ',
    ' a',
    'a\t',
    'a\r\nX-Other: b',
    'a\0b',
    'a\u007fb',
    'ä',
    'ключ',
    '\ud800',
  ])('have no value %j; a refusal does not contain it', (value) => {
    const refused = refusalOf({ 'X-Key': value })
    expect([refused.code, refused.param]).toEqual(['invalid_parameter', 'headers.X-Key'])
    expect(refused.message).toMatch(/^The value of a header is/u)
  })

  // Rules: SUB-33
  it('have the names that Node sends, apart from reserved and long ones', () => {
    const printable = fc.string({ unit: 'binary-ascii', minLength: 0, maxLength: 8 })
    const any = fc.oneof(printable, fc.string({ unit: 'binary', maxLength: 8 }))
    fc.assert(
      fc.property(any, (name) => {
        // The prefix keeps reserved names away.
        const full = `x${name}`
        expect(Array.isArray(outcome({ [full]: 'a' }))).toBe(holds(() => validateHeaderName(full)))
        if (Array.isArray(outcome({ [name]: 'a' }))) validateHeaderName(name)
      }),
      { numRuns: 2000 },
    )
  })

  // Rules: SUB-34
  it('have only values that Node sends, and all of ASCII that it sends within a text', () => {
    const ascii = fc.string({ unit: 'binary-ascii', maxLength: 12 })
    const any = fc.oneof(ascii, fc.string({ unit: 'binary', maxLength: 12 }))
    fc.assert(
      fc.property(any, (value) => {
        if (Array.isArray(outcome({ 'X-Key': value }))) validateHeaderValue('X-Key', value)
      }),
      { numRuns: 2000 },
    )
    fc.assert(
      fc.property(ascii, (value) => {
        const full = `x${value}x`
        expect(Array.isArray(outcome({ 'X-Key': full }))).toBe(
          holds(() => validateHeaderValue('X-Key', full)),
        )
      }),
      { numRuns: 2000 },
    )
  })

  it('get an answer, whatever they are', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (given) => {
        const result = decodeWebhookHeaders(given as Json)
        if (Result.isFailure(result)) expect(result.failure.code).toBe('invalid_parameter')
      }),
    )
  })
})
