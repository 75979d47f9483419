import { assert, describe, it } from '@effect/vitest'
import { Result } from 'effect'
import { NetAddress } from 'effect/net'
import * as fc from 'fast-check'
import {
  type ClientAddress,
  clientAddress,
  wideNetworks,
  isWithin,
  networkFrom,
  type Networks,
} from './client-address.ts'

const networks = (...texts: ReadonlyArray<string>): Networks =>
  texts.map((text) => Result.getOrThrow(networkFrom(text)))
const shown = (address: ClientAddress): string | null =>
  address === null ? null : NetAddress.formatIp(address)

const proxies = networks('10.0.0.0/8', '2001:db8:aaaa::/48')

describe('a trusted network', () => {
  it('is wide if it could contain clients beside proxies', () => {
    const wide = ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7', '192.168.7.0/24', '192.0.2.1']
    assert.deepStrictEqual(wideNetworks(networks(...wide)).map(String), wide.slice(0, 4))
  })
})

describe('the client address', () => {
  const of = (socket: string | undefined, forwarded?: string, trusted = proxies) =>
    shown(clientAddress(socket, forwarded, trusted))

  // Rules: HTTP-9
  it('is the peer address of the socket', () => {
    assert.strictEqual(of('192.0.2.1'), '192.0.2.1')
    assert.strictEqual(of('2001:db8::1'), '2001:db8::1')
    assert.strictEqual(of('::ffff:192.0.2.1'), '192.0.2.1')
    assert.strictEqual(of('fe80::1%eth0'), 'fe80::1')
    assert.strictEqual(of(undefined), null)
  })
  // Rules: HTTP-9
  it('ignores the header of an untrusted peer', () => {
    assert.strictEqual(of('192.0.2.1', '198.51.100.7'), '192.0.2.1')
    assert.strictEqual(of('10.0.0.1', '198.51.100.7', []), '10.0.0.1')
    assert.strictEqual(of(undefined, '198.51.100.7'), null)
  })
  // Rules: HTTP-9
  it('is the last untrusted hop behind trusted proxies', () => {
    assert.strictEqual(of('10.0.0.1', '198.51.100.7'), '198.51.100.7')
    assert.strictEqual(of('::ffff:10.0.0.1', '198.51.100.7'), '198.51.100.7')
    assert.strictEqual(of('10.0.0.1', '198.51.100.7, 10.0.0.2,10.0.0.3'), '198.51.100.7')
    assert.strictEqual(of('10.0.0.1', '2001:db8::9, 2001:db8:aaaa::1'), '2001:db8::9')
    assert.strictEqual(of('10.0.0.1', '203.0.113.1:4711'), '203.0.113.1')
    assert.strictEqual(of('10.0.0.1', '[2001:db8::9]:4711'), '2001:db8::9')
  })
  it('ignores the hops that the client itself wrote', () => {
    assert.strictEqual(of('10.0.0.1', '127.0.0.1, 10.9.9.9, 198.51.100.7'), '198.51.100.7')
    assert.strictEqual(of('10.0.0.1', 'nonsense, 198.51.100.7'), '198.51.100.7')
  })
  it('is the outermost proxy if all hops are trusted', () => {
    assert.strictEqual(of('10.0.0.1', '10.0.0.3, 10.0.0.2'), '10.0.0.3')
    assert.strictEqual(of('10.0.0.1'), '10.0.0.1')
  })
  it('is the proxy that reported an invalid hop', () => {
    for (const forwarded of ['', ' ', ',', 'unknown', '_hidden', '1.2.3', '198.51.100.7, ', 'x, 10.0.0.2']) {
      const last = forwarded === 'x, 10.0.0.2' ? '10.0.0.2' : '10.0.0.1'
      assert.strictEqual(of('10.0.0.1', forwarded), last, forwarded)
    }
  })
  // Rules: HTTP-9
  it('never depends on the part that the client wrote', () => {
    fc.assert(
      fc.property(fc.string(), (written) => {
        assert.strictEqual(of('10.0.0.1', `${written},198.51.100.7, 10.0.0.2`), '198.51.100.7')
      }),
    )
  })
})

describe('networks', () => {
  const parse = (text: string) => shown(clientAddress(text, undefined, []))
  const contains = (network: string, address: string) =>
    isWithin(networks(network), clientAddress(address, undefined, []))

  it('contain exactly their addresses', () => {
    assert.isTrue(contains('192.0.2.0/24', '192.0.2.255'))
    assert.isFalse(contains('192.0.2.0/24', '192.0.3.0'))
    assert.isTrue(contains('192.0.2.1', '192.0.2.1'))
    assert.isTrue(contains('2001:db8::/33', '2001:db8:7fff::1'))
    assert.isFalse(contains('2001:db8::/33', '2001:db8:8000::1'))
    assert.isTrue(contains('192.0.2.0/24', '::ffff:192.0.2.9'))
  })
  it('contain no address of the other family', () => {
    assert.isFalse(contains('0.0.0.0/0', '2001:db8::1'))
    assert.isFalse(contains('::/0', '192.0.2.1'))
    assert.isFalse(isWithin(networks('0.0.0.0/0', '::/0'), null))
  })
  it('are refused if they are malformed or have host bits', () => {
    for (const text of ['', 'example.com', '10.1.2.3/8', '10.0.0.0/33', '010.0.0.1', '1.2.3.4/', '::/129']) {
      assert.deepStrictEqual(networkFrom(text), Result.fail(text), text)
    }
    assert.strictEqual(parse('example.com'), null)
  })
})
