import { assert, describe, it } from '@effect/vitest'
import { declaredBody } from '@hub/http-server'
import { BODY_RULES } from './body.ts'

const kindOf = (headers: Readonly<Record<string, string>>): string => {
  const declared = declaredBody(headers, BODY_RULES)
  return declared.kind === 'refused' ? declared.code : declared.kind
}

describe('a declared body', () => {
  it('is absent without a length, whatever its type', () => {
    assert.strictEqual(kindOf({}), 'none')
    assert.strictEqual(kindOf({ 'content-length': '0', 'content-type': 'text/plain' }), 'none')
  })
  // Rules: HTTP-12
  it('is accepted as JSON in UTF-8 or without a type', () => {
    for (const type of [
      'application/json',
      'Application/JSON; charset=UTF-8',
      'application/json;charset="utf-8"',
      'application/problem+json',
      'application/json; profile=x',
    ]) {
      assert.strictEqual(kindOf({ 'content-length': '2', 'content-type': type }), 'body', type)
    }
    assert.strictEqual(kindOf({ 'content-length': '2' }), 'body')
    assert.strictEqual(kindOf({ 'transfer-encoding': 'chunked', 'content-encoding': 'identity' }), 'body')
  })
  // Rules: HTTP-12
  it('is refused with another type, charset or encoding', () => {
    for (const headers of [
      { 'content-type': 'text/plain' },
      { 'content-type': 'multipart/form-data; boundary=x' },
      { 'content-type': '' },
      { 'content-type': 'application/json; charset=utf-16' },
      { 'content-type': 'application/jsonp' },
      { 'content-encoding': 'gzip' },
      { 'content-encoding': 'identity, gzip' },
    ]) {
      assert.strictEqual(kindOf({ 'content-length': '2', ...headers }), 'unsupported_media_type')
    }
  })
  // Rules: HTTP-11, HTTP-25
  it('is refused for its size before its type', () => {
    const size = 4 * 1024 * 1024
    assert.strictEqual(kindOf({ 'content-length': String(size) }), 'body')
    assert.strictEqual(
      kindOf({ 'content-length': String(size + 1), 'content-type': 'text/plain' }),
      'payload_too_large',
    )
    assert.strictEqual(kindOf({ 'content-length': '99999999999999999999' }), 'payload_too_large')
  })
})
