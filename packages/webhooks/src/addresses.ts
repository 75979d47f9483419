/**
 * Decides which IP addresses are public. Pure. Source: SUB-13; IANA IPv4 and IPv6 Special-Purpose Address
 * Registries.
 *
 * IPv4 has a deny list, because nearly all of its space is assigned. IPv6 has an allow list of one
 * entry: everything outside of global unicast (2000::/3) is special. That excludes loopback, unique
 * local, link-local, multicast, IPv4-mapped (::ffff:0:0/96), IPv4-compatible (::/96) and both NAT64
 * prefixes (64:ff9b::/96, 64:ff9b:1::/48).
 */
import { isIPv4, isIPv6 } from 'node:net'

/** A prefix, its length in bits, and the reason for its treatment. */
type Range = readonly [prefix: string, bits: number, why: string]

const IPV4_REFUSED: ReadonlyArray<Range> = [
  [
    '0.0.0.0',
    8,
    'this network and the unspecified address (RFC 791, 1122); Linux connects 0.0.0.0 to itself',
  ],
  ['10.0.0.0', 8, 'private use (RFC 1918)'],
  [
    '100.64.0.0',
    10,
    'shared address space of carriers (RFC 6598); 100.100.100.200 in it is a metadata service',
  ],
  ['127.0.0.0', 8, 'loopback (RFC 1122)'],
  ['168.63.129.16', 32, 'public by registry, yet a metadata and control address inside every Azure network'],
  ['169.254.0.0', 16, 'link-local (RFC 3927); the usual metadata address 169.254.169.254'],
  ['172.16.0.0', 12, 'private use (RFC 1918)'],
  ['192.0.0.0', 24, 'IETF protocol assignments (RFC 6890); 192.0.0.192 in it is a metadata service'],
  ['192.0.2.0', 24, 'documentation (RFC 5737)'],
  // Four anycast ranges: the nearest machine answers, which may be inside our network.
  ['192.31.196.0', 24, 'AS112 (RFC 7535)'],
  ['192.52.193.0', 24, 'multicast tunnelling relays (RFC 7450)'],
  ['192.88.99.0', 24, '6to4 relays (RFC 3068, deprecated): a relay may forward packets to any address'],
  ['192.175.48.0', 24, 'AS112 (RFC 7534)'],
  ['192.168.0.0', 16, 'private use (RFC 1918)'],
  ['198.18.0.0', 15, 'benchmarking (RFC 2544)'],
  ['198.51.100.0', 24, 'documentation (RFC 5737)'],
  ['203.0.113.0', 24, 'documentation (RFC 5737)'],
  ['224.0.0.0', 4, 'multicast (RFC 5771)'],
  ['240.0.0.0', 4, 'reserved (RFC 1112), with the limited broadcast address'],
]

/** Global unicast. */
const IPV6_ALLOWED: Range = ['2000::', 3, 'global unicast (RFC 4291)']

/** Special ranges within global unicast. */
const IPV6_REFUSED: ReadonlyArray<Range> = [
  [
    '2001::',
    23,
    'IETF protocol assignments (RFC 2928), among them Teredo 2001::/32, which wraps an IPv4 address',
  ],
  ['2001:db8::', 32, 'documentation (RFC 3849)'],
  ['2002::', 16, '6to4 (RFC 3056): wraps an IPv4 address'],
  ['2620:4f:8000::', 48, 'AS112 (RFC 7534): anycast, as above'],
  ['3fff::', 20, 'documentation (RFC 9637)'],
]

const ipv4Value = (text: string): number =>
  text.split('.').reduce((value, octet) => value * 256 + Number(octet), 0)

/** Eight groups of 16 bits. `text` is known to be an IPv6 address without a zone. */
const ipv6Groups = (text: string): ReadonlyArray<number> => {
  const groupsOf = (part: string): Array<number> =>
    part === ''
      ? []
      : part.split(':').flatMap((group) => {
          if (!group.includes('.')) return [Number.parseInt(group, 16)]
          const embedded = ipv4Value(group)
          return [Math.floor(embedded / 65_536), embedded % 65_536]
        })
  const [head = '', tail] = text.split('::', 2)
  const before = groupsOf(head)
  if (tail === undefined) return before
  const after = groupsOf(tail)
  return [...before, ...Array.from({ length: 8 - before.length - after.length }, () => 0), ...after]
}

const ipv6Value = (text: string): bigint =>
  ipv6Groups(text).reduce((value, group) => (value << 16n) | BigInt(group), 0n)

const ipv4Within = ([prefix, bits]: Range): ((address: number) => boolean) => {
  const size = 2 ** (32 - bits)
  const block = Math.floor(ipv4Value(prefix) / size)
  return (address) => Math.floor(address / size) === block
}

const ipv6Within = ([prefix, bits]: Range): ((address: bigint) => boolean) => {
  const shift = BigInt(128 - bits)
  const block = ipv6Value(prefix) >> shift
  return (address) => address >> shift === block
}

const refusedIpv4 = IPV4_REFUSED.map(ipv4Within)
const allowedIpv6 = ipv6Within(IPV6_ALLOWED)
const refusedIpv6 = IPV6_REFUSED.map(ipv6Within)

/**
 * ISATAP (RFC 5214) embeds an IPv4 address after an interface identifier of 0000:5efe or 0200:5efe,
 * under any prefix. A random other address matches with a probability of one in two billion.
 */
const isIsatap = (address: bigint): boolean => ((address >> 32n) & 0xfdff_ffffn) === 0x5efen

/**
 * Whether a webhook may go to this address: IPv4 in dotted decimal or IPv6 (RFC 4291). Anything
 * else, such as a zone id (`fe80::1%eth0`), is not public.
 */
export const isPublicAddress = (ip: string): boolean => {
  if (isIPv4(ip)) {
    const address = ipv4Value(ip)
    return !refusedIpv4.some((within) => within(address))
  }
  // Only link-local addresses have a zone.
  if (!isIPv6(ip) || ip.includes('%')) return false
  const address = ipv6Value(ip)
  return allowedIpv6(address) && !isIsatap(address) && !refusedIpv6.some((within) => within(address))
}
