import { assert, describe, it } from '@effect/vitest'
import { allowOf, splitUrl } from './paths.ts'

describe('the value of Allow', () => {
  // Source: RFC 9110, 9.3.2: HEAD is identical to GET. 10.2.1: a list of methods, separated by commas.
  it('lists the methods, and HEAD with GET', () => {
    assert.strictEqual(allowOf(['GET', 'POST']), 'GET, HEAD, POST')
    assert.strictEqual(allowOf(['DELETE']), 'DELETE')
  })
})

describe('a request target', () => {
  // Source: RFC 3986, 3.4: the query begins at the first question mark, and may contain others.
  it('is split at its first question mark', () => {
    assert.deepStrictEqual(splitUrl('/v1/events?after=a?b'), { path: '/v1/events', query: 'after=a?b' })
    assert.deepStrictEqual(splitUrl('/v1/events?'), { path: '/v1/events', query: '' })
    assert.deepStrictEqual(splitUrl('/v1/events'), { path: '/v1/events', query: '' })
  })
})
