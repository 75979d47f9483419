/**
 * The address policy: the addresses to which webhooks may be sent, checked for each new
 * subscription and for every connection, because DNS may return another address later. Source: SUB-11 to
 * SUB-15; docs/architecture.md, Webhooks.
 */
import { refineSetting, settings } from '@hub/config'
import { Clock, type Config, Context, Data, Effect, Layer, Result } from 'effect'
import { lookup, Resolver } from 'node:dns/promises'
import { BlockList, isIP } from 'node:net'
import { isPublicAddress } from './addresses.ts'
import { isLocalhost, readAllowedHost, readWebhookUrl, urlRefused, UrlRefused } from './url.ts'

export interface ResolvedAddress {
  readonly address: string
  readonly family: 4 | 6
}

/** At least one address of the host is not public. A retry may succeed after a change of DNS. */
export class AddressNotPublic extends Data.TaggedError('AddressNotPublic')<{}> {}

/** The host has no address, or no name server answers. A retry may succeed. */
export class HostUnresolvable extends Data.TaggedError('HostUnresolvable')<{}> {}

/** All addresses of a name; empty means failure. It must have its own timeout. */
export type ResolveName = (name: string) => Effect.Effect<ReadonlyArray<ResolvedAddress>, HostUnresolvable>

export interface AddressPolicyOptions {
  /**
   * Exceptions in the form of `readAllowedHost`, for tests and local use. An allowed name may
   * resolve to any address; an allowed address counts as public for every name.
   */
  readonly allowedHosts: ReadonlySet<string>
  /** Networks to which no webhook is sent, not even by an exception. Default: none. */
  readonly deniedNetworks?: BlockList
  /** Names are refused this time after their check began, ms. Only tests change it. */
  readonly refuseNamesAfterMs?: number
  /** Resolves names without an exception. Default: the name servers of the system. */
  readonly resolveName?: ResolveName
}

/** The timeout of a query, a tenth of the delivery deadline, and the tries per server. */
const DNS_TIMEOUT_MS = 1000
const DNS_TRIES = 2
/** For all servers and tries: well below the 10 s of a delivery. */
const DNS_DEADLINE = '3 seconds'

/**
 * A name is refused this time after its check began, whatever the reason, ms. So neither the answer
 * nor its time tells whether the name exists in our network. It is below the 2.7 s of a request. A
 * name that takes longer to resolve is refused too.
 */
const REFUSE_NAMES_AFTER_MS = 2000

/**
 * Queries the name servers directly. `getaddrinfo` would block one of the four threads of this
 * process for files and look-ups, so a few names with a hung server would stop all others. It would
 * also use the search domains of our network and the hosts file, which clients must not reach.
 *
 * `servers` (`address:port`) replace the name servers of the system.
 */
export const askNameServers =
  (servers: ReadonlyArray<string> = []): ResolveName =>
  (name) =>
    Effect.gen(function* () {
      const resolver = new Resolver({ timeout: DNS_TIMEOUT_MS, tries: DNS_TRIES })
      if (servers.length > 0) resolver.setServers(servers)
      const ask = (query: () => Promise<ReadonlyArray<string>>, family: 4 | 6) =>
        Effect.tryPromise(query).pipe(
          Effect.map((addresses) => addresses.map((address) => ({ address, family }))),
          // One family may be missing or unanswered; then the other one is used.
          Effect.orElseSucceed(() => []),
        )
      const answers = yield* Effect.all(
        [ask(() => resolver.resolve4(name), 4), ask(() => resolver.resolve6(name), 6)],
        { concurrency: 2 },
      ).pipe(
        Effect.timeoutOrElse({ duration: DNS_DEADLINE, orElse: () => Effect.fail(new HostUnresolvable()) }),
        Effect.onInterrupt(() => Effect.sync(() => resolver.cancel())),
      )
      return answers.flat()
    })

/** For exceptions: these are machines of the hub's staff, and only the hosts file may know them. */
const askSystemResolver: ResolveName = (name) =>
  Effect.tryPromise({
    try: () => lookup(name, { all: true }),
    catch: () => new HostUnresolvable(),
  }).pipe(
    Effect.map((addresses) =>
      addresses.map(({ address, family }) => ({
        address,
        family: family === 6 ? (6 as const) : (4 as const),
      })),
    ),
    Effect.timeoutOrElse({ duration: DNS_DEADLINE, orElse: () => Effect.fail(new HostUnresolvable()) }),
  )

export interface AddressPolicyShape {
  /** Checks the URL of a subscription and all addresses of its host, within about 2 s. */
  readonly checkUrl: (url: string) => Effect.Effect<void, UrlRefused>
  /**
   * All addresses of a host (a name or an IP literal without brackets), all of them allowed. The
   * caller must connect to one of these and not resolve the name again.
   */
  readonly addressesOf: (
    host: string,
  ) => Effect.Effect<ReadonlyArray<ResolvedAddress>, AddressNotPublic | HostUnresolvable>
  /** The exceptions; empty in production. */
  readonly allowedHosts: ReadonlySet<string>
}

export const makeAddressPolicy = (options: AddressPolicyOptions): AddressPolicyShape => {
  const {
    allowedHosts,
    deniedNetworks = new BlockList(),
    refuseNamesAfterMs = REFUSE_NAMES_AFTER_MS,
    resolveName = askNameServers(),
  } = options
  const isDenied = ({ address, family }: ResolvedAddress): boolean =>
    deniedNetworks.check(address, family === 6 ? 'ipv6' : 'ipv4')

  const addressesOf: AddressPolicyShape['addressesOf'] = Effect.fnUntraced(function* (given) {
    const host = given.toLowerCase().replace(/\.$/u, '')
    const excepted = allowedHosts.has(host)
    const family = isIP(host) as 0 | 4 | 6
    if (family !== 0) {
      const literal = { address: host, family }
      if ((!excepted && !isPublicAddress(host)) || isDenied(literal)) return yield* new AddressNotPublic()
      return [literal]
    }
    if (isLocalhost(host) && !excepted) return yield* new AddressNotPublic()
    const addresses = yield* excepted ? askSystemResolver(host) : resolveName(host)
    if (addresses.length === 0) return yield* new HostUnresolvable()
    const allowed =
      excepted ||
      addresses.every(({ address }) => isPublicAddress(address) || allowedHosts.has(address.toLowerCase()))
    if (!allowed || addresses.some(isDenied)) return yield* new AddressNotPublic()
    return addresses
  })

  return {
    allowedHosts,
    addressesOf,
    checkUrl: Effect.fn('AddressPolicy.checkUrl')(function* (text) {
      const url = readWebhookUrl(text)
      if (url instanceof UrlRefused) return yield* url
      const check = addressesOf(url.host).pipe(
        Effect.mapError(() => urlRefused('not_public')),
        Effect.asVoid,
      )
      // An address and a name of the local machine tell nothing about our network.
      if (isIP(url.host) !== 0 || isLocalhost(url.host)) return yield* check
      const startedAt = yield* Clock.currentTimeMillis
      const rest = Effect.flatMap(Clock.currentTimeMillis, (now) =>
        Effect.sleep(Math.max(0, startedAt + refuseNamesAfterMs - now)),
      )
      yield* check.pipe(
        Effect.timeoutOrElse({
          duration: REFUSE_NAMES_AFTER_MS,
          orElse: () => Effect.fail(urlRefused('not_public')),
        }),
        Effect.tapError(() => rest),
      )
    }),
  }
}

/** Networks and addresses to which no webhook is sent. An invalid entry is an error at startup. */
export const deniedNetworksConfig: Config.Config<BlockList> = refineSetting(
  settings.webhookDeniedNetworks,
  (entries) => {
    const networks = new BlockList()
    for (const entry of entries) {
      const [, address = '', bits] = /^(?<address>[^/]+)(?:\/(?<bits>\d{1,3}))?$/u.exec(entry) ?? []
      const family = isIP(address)
      const longest = family === 6 ? 128 : 32
      const prefix = bits === undefined ? longest : Number(bits)
      if (family === 0 || prefix > longest) return Result.fail('contains an entry that is not a network')
      networks.addSubnet(address, prefix, family === 6 ? 'ipv6' : 'ipv4')
    }
    return Result.succeed(networks)
  },
)

/** Hosts that need not be public. An invalid entry is an error at startup. */
export const allowedHostsConfig: Config.Config<ReadonlySet<string>> = refineSetting(
  settings.webhookAllowedHosts,
  (entries) => {
    const hosts = new Set<string>()
    for (const entry of entries) {
      if (entry === '') continue
      const host = readAllowedHost(entry)
      if (host === null) return Result.fail('contains an entry that is neither a host name nor an address')
      hosts.add(host)
    }
    return Result.succeed(hosts)
  },
)

export class AddressPolicy extends Context.Service<AddressPolicy, AddressPolicyShape>()(
  '@hub/webhooks/AddressPolicy',
) {
  /**
   * Settings: `HUB_WEBHOOK_ALLOWED_HOSTS` and `HUB_WEBHOOK_DENIED_NETWORKS`. Logs a warning at
   * startup if there are exceptions.
   */
  static readonly layer: Layer.Layer<AddressPolicy, Config.ConfigError> = Layer.effect(
    AddressPolicy,
    Effect.gen(function* () {
      const allowedHosts = yield* allowedHostsConfig
      const deniedNetworks = yield* deniedNetworksConfig
      if (allowedHosts.size > 0) {
        yield* Effect.logWarning(
          'address policy: HUB_WEBHOOK_ALLOWED_HOSTS is set; webhooks may be sent to these hosts although they are not public',
        ).pipe(Effect.annotateLogs({ hosts: [...allowedHosts].join(', ') }))
      }
      return makeAddressPolicy({ allowedHosts, deniedNetworks })
    }),
  )
}
