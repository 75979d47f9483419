import { assert, describe, it } from '@effect/vitest'
import { maskNumbers } from './mask.ts'

describe('maskNumbers', () => {
  it('masks a phone number in any usual notation', () => {
    assert.strictEqual(maskNumbers('to +79001234567 failed'), 'to +*** failed')
    assert.strictEqual(maskNumbers('{"detail":"value 79001234567"}'), '{"detail":"value ***"}')
    assert.strictEqual(maskNumbers('key (to)=(+79001234567)'), 'key (to)=(+***)')
  })

  it('does not change ids, timestamps and ports', () => {
    for (const text of [
      'msg_01kzy3v9qjf5vbxg3n7e1k2m4p',
      '2026-11-21T09:30:00.123Z',
      'at 1795253400123 ms',
      '127.0.0.1:29092',
      'offset 123456',
    ]) {
      assert.strictEqual(maskNumbers(text), text)
    }
  })
})
