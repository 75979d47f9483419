import { assert, describe, it } from 'vitest'
import { API_KEY_PATTERN, apiKeyDigest, apiKeyEnding, apiKeyFrom, scopedKeyDigest } from './api-key.ts'

describe('API keys', () => {
  // Rules: AUTH-2
  it('encode any 32 bytes in 43 base62 digits', () => {
    for (const fill of [0, 1, 127, 255]) {
      const key = apiKeyFrom('test', new Uint8Array(32).fill(fill))
      assert.match(key, API_KEY_PATTERN)
      assert.lengthOf(key, 'hub_test_'.length + 43)
    }
    assert.strictEqual(apiKeyFrom('live', new Uint8Array(32)), `hub_live_${'0'.repeat(43)}`)
    const one = new Uint8Array(32)
    one[31] = 62
    assert.strictEqual(apiKeyFrom('live', one), `hub_live_${'0'.repeat(41)}10`)
  })

  // Rules: AUTH-3
  it('have a SHA-256 digest for storage and an ending for display', () => {
    // The result of `printf hub_test_abcd | sha256sum`.
    assert.strictEqual(
      apiKeyDigest('hub_test_abcd'),
      '9c43a0327a8e0804a5f25b24ff0cd8d692178a6234758e140ab54c63e15ecb90',
    )
    assert.strictEqual(apiKeyEnding('hub_test_abcd'), 'abcd')
  })

  // Rules: AUTH-3
  it('have another digest for storage if they have scopes', () => {
    // The result of `printf 'scoped <the digest above>' | sha256sum`.
    assert.strictEqual(
      scopedKeyDigest('9c43a0327a8e0804a5f25b24ff0cd8d692178a6234758e140ab54c63e15ecb90'),
      '7d8c03ce27b32d3f61e89323fd007aa13ac37ab0137d8403b550bb59535b41f5',
    )
    // Nobody can present the hashed text as a key.
    assert.notMatch(
      'scoped 9c43a0327a8e0804a5f25b24ff0cd8d692178a6234758e140ab54c63e15ecb90',
      API_KEY_PATTERN,
    )
  })
})
