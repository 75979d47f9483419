/**
 * Where a request comes from, as far as that can be trusted. Pure. Source: contract, General (client address); specification,
 * Authentication, 3 and 4.
 */
import { Result } from 'effect'
import { IpNetwork, NetAddress } from 'effect/net'

/** An address of a client; `null` where the connection has gone or a header is no help. It belongs to no network. */
export type ClientAddress = NetAddress.IpAddress | null

/** Networks of addresses, IPv4 and IPv6. */
export type Networks = ReadonlyArray<IpNetwork.IpNetwork>

/** Texts read before: a client sends its requests one after the other, and reading its address costs as much as checking its key. */
const known = new Map<string, ClientAddress>()
/** Forgotten all at once beyond this; some hundred bytes each, since what is longer than an address with its zone is not kept. */
const MOST_KNOWN = 1000
const MOST_CHARACTERS = 64

const parse = (text: string): ClientAddress => {
  const before = known.get(text)
  if (before !== undefined) return before
  const address = read(text)
  if (text.length > MOST_CHARACTERS) return address
  if (known.size >= MOST_KNOWN) known.clear()
  known.set(text, address)
  return address
}

/** An IPv4 address that arrives on an IPv6 socket (`::ffff:192.0.2.1`) is that IPv4 address. */
const read = (text: string): ClientAddress => {
  // A zone tells which of our own interfaces it was, not who it was.
  const zone = text.indexOf('%')
  const parsed = NetAddress.ipFromString(zone < 0 ? text : text.slice(0, zone))
  return Result.isSuccess(parsed) ? NetAddress.toCanonical(parsed.success) : null
}

/** One hop of `X-Forwarded-For`: an address, which some proxies write with its port, and IPv6 then in brackets. */
const parseHop = (hop: string): ClientAddress => {
  const bracketed = /^\[([^\]]+)\](?::\d+)?$/.exec(hop)?.[1]
  if (bracketed !== undefined) return parse(bracketed)
  return parse(/^([\d.]+):\d+$/.exec(hop)?.[1] ?? hop)
}

/** Whether one of the networks holds the address. */
export const isWithin = (networks: Networks, address: ClientAddress): boolean =>
  address !== null &&
  networks.some(
    (network) =>
      NetAddress.familyOf(network.address) === NetAddress.familyOf(address) &&
      IpNetwork.contains(network, address),
  )

/**
 * The client: who opened the socket, or, where that is a trusted proxy, the last hop of `X-Forwarded-For` that is none. What lies
 * before that hop was written by the client itself and counts for nothing. A hop that is no address ends the search
 * at the proxy that reported it.
 */
export const clientAddress = (
  socketAddress: string | undefined,
  forwardedFor: string | undefined,
  trustedProxies: Networks,
): ClientAddress => {
  let client = socketAddress === undefined ? null : parse(socketAddress)
  if (forwardedFor === undefined || trustedProxies.length === 0) return client
  // Read from its end, no further than needed: its beginning may be of any length.
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
 * A network in CIDR notation, or one address. Fails with what was given: networks are configuration and hold nothing private. Host bits
 * must be zero: `10.1.2.3/8` is more likely a slip than a way to write `10.0.0.0/8`.
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

/** A list of networks as configuration writes it: comma separated. Fails with the first that is none. */
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
