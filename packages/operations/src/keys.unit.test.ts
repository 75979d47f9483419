import { assert, describe, it } from 'vitest'
import { isNetwork } from './keys.ts'

describe('the networks of a key', () => {
  it('are addresses and networks', () => {
    for (const text of ['192.0.2.7', '192.0.2.0/24', '0.0.0.0/0', '2001:db8::1', '2001:db8::/32']) {
      assert.isTrue(isNetwork(text), text)
    }
    for (const text of [
      '',
      'example.com',
      '192.0.2',
      '192.0.2.0/33',
      '192.0.2.0/',
      '::/129',
      'fe80::1%eth0',
      '1.2.3.4/8/8',
    ]) {
      assert.isFalse(isNetwork(text), text)
    }
  })
})
