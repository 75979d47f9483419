/** The network of a client address, for limits. */

/** Groups of an IPv6 address in its network: a /64, of which a client can use every address. */
const NETWORK_GROUPS = 4
const ALL_GROUPS = 8

/** An IPv4 address, or the /64 of an IPv6 address. `address`: as the operating system writes it. */
export const networkOf = (address: string): string => {
  if (!address.includes(':')) return address
  const mapped = /^::ffff:(?<v4>\d+\.\d+\.\d+\.\d+)$/iu.exec(address)?.groups?.['v4']
  if (mapped !== undefined) return mapped
  const [text = ''] = address.split('%', 1)
  const [left = [], right = []] = text.split('::').map((half) => (half === '' ? [] : half.split(':')))
  const missing = Math.max(0, ALL_GROUPS - left.length - right.length)
  return [...left, ...Array.from({ length: missing }, () => '0'), ...right].slice(0, NETWORK_GROUPS).join(':')
}
