import { assert, describe, it } from '@effect/vitest'
import { announcedBody } from './body.ts'

const kindOf = (headers: Readonly<Record<string, string>>): string => {
  const announced = announcedBody(headers)
  return announced.kind === 'refused' ? announced.error.code : announced.kind
}

describe('what the headers say of a body', () => {
  it('nothing is no body, whatever its type would be', () => {
    assert.strictEqual(kindOf({}), 'none')
    assert.strictEqual(kindOf({ 'content-length': '0', 'content-type': 'text/plain' }), 'none')
  })
  it('is JSON where it says nothing else', () => {
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
  it('is refused otherwise', () => {
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
  it('is too large before it is of the wrong kind', () => {
    const size = 4 * 1024 * 1024
    assert.strictEqual(kindOf({ 'content-length': String(size) }), 'body')
    assert.strictEqual(
      kindOf({ 'content-length': String(size + 1), 'content-type': 'text/plain' }),
      'payload_too_large',
    )
    assert.strictEqual(kindOf({ 'content-length': '99999999999999999999' }), 'payload_too_large')
  })
})
