/** Normalizes client addresses for the failed-login gate. */
import { isIPv4, isIPv6 } from 'node:net'

/** All invalid addresses count as one client, so that none of them bypasses the gate. */
const NO_ADDRESS = 'none'

const dotted = (high: number, low: number): string => [high >> 8, high & 0xff, low >> 8, low & 0xff].join('.')

/** The eight groups of a valid IPv6 address without a zone. */
const groupsOf = (address: string): ReadonlyArray<number> => {
  const read = (part: string): Array<number> =>
    part === ''
      ? []
      : part.split(':').flatMap((group) => {
          if (!group.includes('.')) return [Number.parseInt(group, 16)]
          const [a = 0, b = 0, c = 0, d = 0] = group.split('.').map(Number)
          return [a * 256 + b, c * 256 + d]
        })
  const [head = '', tail] = address.split('::')
  const before = read(head)
  if (tail === undefined) return before
  const after = read(tail)
  return [...before, ...Array.from({ length: 8 - before.length - after.length }, () => 0), ...after]
}

/**
 * The identity of a client for the gate: the IPv4 address, or the /64 of an IPv6 address, because
 * one client gets a whole /64 and can use any address in it. An IPv4-mapped address counts as IPv4.
 */
export const gateAddress = (address: string): string => {
  if (isIPv4(address)) return address
  const bare = address.split('%', 1)[0] ?? ''
  if (!isIPv6(bare)) return NO_ADDRESS
  const groups = groupsOf(bare)
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) {
    return dotted(groups[6] ?? 0, groups[7] ?? 0)
  }
  return `${groups
    .slice(0, 4)
    .map((group) => group.toString(16))
    .join(':')}::/64`
}
