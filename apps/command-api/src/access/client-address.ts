/**
 * The trusted client address of a request. Pure, except for a cache. Source: HTTP-9.
 */
import { Result } from 'effect'
import { IpNetwork, NetAddress } from 'effect/net'

/** The address of a client; `null` if it is unknown. An unknown address is in no network. */
export type ClientAddress = NetAddress.IpAddress | null

/** IPv4 and IPv6 networks. */
export type Networks = ReadonlyArray<IpNetwork.IpNetwork>

/** Parsed texts, because parsing an address costs as much as checking a key. */
const cache = new Map<string, ClientAddress>()
/** The cache is cleared at this size. An entry has some hundred bytes. */
const CACHE_CAPACITY = 1000
/** The longest address with a zone is shorter. */
const CACHED_CHARACTERS = 64

const parse = (text: string): ClientAddress => {
  const cached = cache.get(text)
  if (cached !== undefined) return cached
  const address = parseUncached(text)
  if (text.length > CACHED_CHARACTERS) return address
  if (cache.size >= CACHE_CAPACITY) cache.clear()
  cache.set(text, address)
  return address
}

/** An IPv4 address on an IPv6 socket (`::ffff:192.0.2.1`) becomes that IPv4 address. */
const parseUncached = (text: string): ClientAddress => {
  // The zone identifies an interface of this host, not the client.
  const zone = text.indexOf('%')
  const parsed = NetAddress.ipFromString(zone < 0 ? text : text.slice(0, zone))
  return Result.isSuccess(parsed) ? NetAddress.toCanonical(parsed.success) : null
}

/**
 * One hop of `X-Forwarded-For`: an address, with a port from some proxies (then IPv6 in brackets).
 */
const parseHop = (hop: string): ClientAddress => {
  const bracketed = /^\[([^\]]+)\](?::\d+)?$/.exec(hop)?.[1]
  if (bracketed !== undefined) return parse(bracketed)
  return parse(/^([\d.]+):\d+$/.exec(hop)?.[1] ?? hop)
}

/** The prefixes of 192.168.0.0/16 and of a usual site with IPv6. */
const WIDE_PREFIX = { 4: 16, 6: 48 }

/** The networks that are as wide as a private range: they may contain clients beside proxies. */
export const wideNetworks = (networks: Networks): Networks =>
  networks.filter(
    ({ address, prefixLength }) =>
      prefixLength <= (NetAddress.width(address) === 32 ? WIDE_PREFIX[4] : WIDE_PREFIX[6]),
  )

/** Whether one of the networks contains the address. */
export const isWithin = (networks: Networks, address: ClientAddress): boolean =>
  address !== null &&
  networks.some(
    (network) =>
      NetAddress.familyOf(network.address) === NetAddress.familyOf(address) &&
      IpNetwork.contains(network, address),
  )

/**
 * The client address: the peer of the socket or, if that is a trusted proxy, the last hop of
 * `X-Forwarded-For` that is not one. Earlier hops come from the client itself and are ignored. If a
 * hop is not an address, the result is the proxy that reported it.
 */
export const clientAddress = (
  socketAddress: string | undefined,
  forwardedFor: string | undefined,
  trustedProxies: Networks,
): ClientAddress => {
  let client = socketAddress === undefined ? null : parse(socketAddress)
  if (forwardedFor === undefined || trustedProxies.length === 0) return client
  // Parsed from the end, and only as far as necessary: the client can make the header long.
  let end = forwardedFor.length
  while (end >= 0 && isWithin(trustedProxies, client)) {
    const comma = end === 0 ? -1 : forwardedFor.lastIndexOf(',', end - 1)
    const hop = parseHop(forwardedFor.slice(comma + 1, end).trim())
    if (hop === null) return client
    client = hop
    end = comma
  }
  return client
}

/**
 * Parses a network in CIDR notation, or one address. Fails with the text, which is no personal
 * data. Host bits must be zero: `10.1.2.3/8` is probably a mistake.
 */
export const networkFrom = (text: string): Result.Result<IpNetwork.IpNetwork, string> => {
  const trimmed = text.trim()
  const network = trimmed.includes('/')
    ? IpNetwork.fromString(trimmed)
    : Result.flatMap(NetAddress.ipFromString(trimmed), (address) =>
        IpNetwork.make(address, NetAddress.width(address)),
      )
  return Result.mapError(network, () => trimmed)
}

/** Parses a comma-separated list of networks. Fails with the first text that is not a network. */
export const networksFrom = (text: string): Result.Result<Networks, string> => {
  const networks: Array<IpNetwork.IpNetwork> = []
  for (const part of text.split(',')) {
    if (part.trim() === '') continue
    const network = networkFrom(part)
    if (Result.isFailure(network)) return Result.fail(network.failure)
    networks.push(network.success)
  }
  return Result.succeed(networks)
}
