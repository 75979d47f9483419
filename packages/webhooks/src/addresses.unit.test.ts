import { describe, expect, it } from 'vitest'
import { isPublicAddress } from './addresses.ts'

const PUBLIC = [
  '1.1.1.1',
  '8.8.8.8',
  '9.255.255.255',
  '11.0.0.0',
  '100.63.255.255',
  '100.128.0.0',
  '126.255.255.255',
  '128.0.0.0',
  '168.63.129.15',
  '168.63.129.17',
  '169.253.255.255',
  '169.255.0.0',
  '172.15.255.255',
  '172.32.0.0',
  '191.255.255.255',
  '192.0.1.0',
  '192.0.3.0',
  '192.88.98.255',
  '192.88.100.0',
  '192.167.255.255',
  '192.169.0.0',
  '198.17.255.255',
  '198.20.0.0',
  '198.51.99.255',
  '198.51.101.0',
  '203.0.112.255',
  '203.0.114.0',
  '223.255.255.255',
  '2001:200::1',
  '2001:db7:ffff:ffff:ffff:ffff:ffff:ffff',
  '2001:db9::',
  '2003::1',
  '2606:4700:4700::1111',
  '2a00:1450:4001:81b::200e',
  '2a02:6b8::2:242',
  '3ffe:ffff::1',
  '3fff:1000::',
]

const NOT_PUBLIC: Record<string, ReadonlyArray<string>> = {
  'this network': ['0.0.0.0', '0.0.0.1', '0.255.255.255'],
  'private use': [
    '10.0.0.0',
    '10.255.255.255',
    '172.16.0.0',
    '172.31.255.255',
    '192.168.0.0',
    '192.168.255.255',
  ],
  'shared by carriers': ['100.64.0.0', '100.127.255.255'],
  loopback: ['127.0.0.0', '127.0.0.1', '127.255.255.255'],
  'link-local': ['169.254.0.0', '169.254.255.255'],
  'cloud metadata': ['169.254.169.254', '168.63.129.16', '100.100.100.200', '192.0.0.192', '169.254.170.2'],
  'protocol assignments': ['192.0.0.0', '192.0.0.8', '192.0.0.255'],
  documentation: ['192.0.2.1', '198.51.100.255', '203.0.113.0'],
  'anycast services': ['192.31.196.1', '192.52.193.1', '192.88.99.1', '192.175.48.6'],
  benchmarking: ['198.18.0.0', '198.19.255.255'],
  multicast: ['224.0.0.0', '239.255.255.255'],
  reserved: ['240.0.0.0', '255.255.255.254'],
  broadcast: ['255.255.255.255'],
  'IPv6 unspecified and loopback': ['::', '::1', '0:0:0:0:0:0:0:1'],
  'IPv6 private and link-local': [
    'fc00::1',
    'fd00:ec2::254',
    'fd20:ce::254',
    'fe80::1',
    'febf::1',
    'fec0::1',
  ],
  'IPv6 multicast': ['ff02::1', 'ff0e::1'],
  'IPv6 discard only and others outside global unicast': [
    '100::1',
    '5f00::1',
    '4000::1',
    '1fff:ffff::',
    '8000::',
  ],
  'IPv6 documentation': ['2001:db8::', '2001:db8:ffff::1', '3fff::1', '3fff:fff:ffff::1'],
  'IPv6 protocol assignments': ['2001::1', '2001:1::1', '2001:2::1', '2001:20::1', '2001:1ff:ffff::1'],
  'IPv6 anycast service': ['2620:4f:8000::1'],
  'IPv4 mapped': [
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '::ffff:8.8.8.8',
    '::FFFF:10.0.0.1',
    '::ffff:0:127.0.0.1',
  ],
  'IPv4 compatible': ['::127.0.0.1', '::7f00:1', '::8.8.8.8'],
  NAT64: [
    '64:ff9b::7f00:1',
    '64:ff9b::10.0.0.1',
    '64:ff9b::8.8.8.8',
    '64:ff9b:1::a00:1',
    '64:ff9b:1:ffff::1',
  ],
  '6to4': ['2002:7f00:1::', '2002:a00:1::1', '2002:808:808::1'],
  Teredo: ['2001:0:4136:e378:8000:63bf:3fff:fdd2', '2001::7f00:1'],
  ISATAP: ['2a00:1450::5efe:10.0.0.1', '2a00:1450:1:2:0:5efe:7f00:1', '2a00:1450:1:2:200:5efe:808:808'],
  'a zone id': ['fe80::1%eth0', '2606:4700::1%1'],
  'no address': [
    '',
    'localhost',
    '1.2.3',
    '010.0.0.1',
    '0x7f.0.0.1',
    '2130706433',
    '1.2.3.4.',
    '[::1]',
    '1.1.1.1 ',
  ],
}

describe('isPublicAddress', () => {
  // Rules: SUB-13
  it.each(PUBLIC)('%s is public', (address) => {
    expect(isPublicAddress(address)).toBe(true)
  })

  for (const [why, addresses] of Object.entries(NOT_PUBLIC)) {
    // Rules: SUB-13
    it.each(addresses)(`%s is not public: ${why}`, (address) => {
      expect(isPublicAddress(address)).toBe(false)
    })
  }

  // Rules: SUB-13
  it('treats all spellings of an IPv6 address alike', () => {
    for (const spelling of [
      '2606:4700:4700:0000:0000:0000:0000:1111',
      '2606:4700:4700:0:0:0:0:1111',
      '2606:4700:4700::0.0.17.17',
    ]) {
      expect(isPublicAddress(spelling)).toBe(true)
    }
    for (const spelling of [
      '0000:0000:0000:0000:0000:ffff:7f00:0001',
      '::ffff:7f00:0001',
      '::FfFf:127.0.0.1',
    ]) {
      expect(isPublicAddress(spelling)).toBe(false)
    }
  })
})
