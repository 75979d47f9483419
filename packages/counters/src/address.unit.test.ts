import { assert, describe, it } from '@effect/vitest'
import fc from 'fast-check'
import { gateAddress } from './address.ts'

describe('gateAddress', () => {
  const cases: ReadonlyArray<readonly [address: string, counted: string]> = [
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::FFFF:c000:0201', '192.0.2.1'],
    ['0:0:0:0:0:ffff:192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0DB8:0001:0002::', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::ffff', '2001:db8:1:2::/64'],
    ['2001:db8:1:3::ffff', '2001:db8:1:3::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    // The old "compatible" form and translated addresses are not mapped, but plain IPv6.
    ['::192.0.2.1', '0:0:0:0::/64'],
    ['64:ff9b::192.0.2.1', '64:ff9b:0:0::/64'],
    ['1::2:3:4:5:6:192.0.2.1', 'none'],
    ['', 'none'],
    ['unknown', 'none'],
    ['192.0.2.1:443', 'none'],
    ['010.0.0.1', 'none'],
    ['[::1]', 'none'],
    ['%', 'none'],
  ]
  for (const [address, counted] of cases) {
    it(`counts ${address === '' ? 'nothing' : address} as ${counted}`, () => {
      assert.strictEqual(gateAddress(address), counted)
    })
  }

  const group = fc.integer({ min: 0, max: 0xffff })
  it('counts a /64 as one client, and another /64 as another client', () => {
    fc.assert(
      fc.property(
        fc.tuple(group, group, group, group).filter((net) => net.some((one) => one !== 0)),
        fc.tuple(group, group, group, group),
        fc.tuple(group, group, group, group),
        fc.integer({ min: 0, max: 3 }),
        (net, host, otherHost, changed) => {
          const text = (groups: ReadonlyArray<number>) => groups.map((one) => one.toString(16)).join(':')
          const counted = gateAddress(text([...net, ...host]))
          assert.strictEqual(gateAddress(text([...net, ...otherHost])), counted)
          const elsewhere = net.map((one, i) => (i === changed ? one ^ 1 : one))
          assert.notStrictEqual(gateAddress(text([...elsewhere, ...host])), counted)
        },
      ),
    )
  })

  it('counts all spellings of an address as one client', () => {
    fc.assert(
      fc.property(fc.ipV6(), (address) => {
        // The URL parser is an independent implementation: it writes each address in its only short
        // form.
        const short = new URL(`http://[${address}]/`).hostname.slice(1, -1)
        assert.strictEqual(gateAddress(address), gateAddress(short))
      }),
    )
  })

  it('accepts any text', () => {
    fc.assert(fc.property(fc.string(), (text) => gateAddress(text).length > 0))
  })
})
