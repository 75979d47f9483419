/**
 * The address policy: where a webhook may be sent. Checked when a subscription is created and again on every
 * connection, because a name may answer differently the second time. Source: specification, Webhook subscription
 * endpoints (address rules); architecture, Webhooks.
 */
import { refineSetting, settings } from '@hub/config'
import { type Config, Context, Data, Effect, Layer, Result } from 'effect'
import { lookup, Resolver } from 'node:dns/promises'
import { isIP } from 'node:net'
import { isPublicAddress } from './addresses.ts'
import { isLocalhost, readAllowedHost, readWebhookUrl, urlRefused, UrlRefused } from './url.ts'

/** An address of a host, as a socket wants it. */
export interface ResolvedAddress {
  readonly address: string
  readonly family: 4 | 6
}

/** At least one address of the host is not public. */
export class AddressNotPublic extends Data.TaggedError('AddressNotPublic')<{}> {}

/** The host has no address, or nobody says which. */
export class HostUnresolvable extends Data.TaggedError('HostUnresolvable')<{}> {}

/** All addresses of a name; a failure and an empty answer mean the same. Must end by itself. */
export type ResolveName = (name: string) => Effect.Effect<ReadonlyArray<ResolvedAddress>, HostUnresolvable>

export interface AddressPolicyOptions {
  /**
   * Exceptions, in the form of `readAllowedHost`. A name may lead anywhere; an address counts as public whichever
   * name leads to it. For tests and local use on the loopback.
   */
  readonly allowedHosts: ReadonlySet<string>
  /** How names are resolved that are no exception. Default: the servers of the system's configuration. */
  readonly resolveName?: ResolveName
}

/**
 * One try at each name server, ms, and how many. A name that takes longer than a second to find takes a tenth of
 * what a receiver has for everything.
 */
const DNS_TIMEOUT_MS = 1000
const DNS_TRIES = 2
/** For all servers and tries together: a creation is answered within the 20 s of a request, with room for the rest. */
const DNS_DEADLINE = '3 seconds'

/**
 * Asks the name servers directly. Not `getaddrinfo`: that blocks one of the four threads that this process has for
 * files and for its own look-ups, so a few names with a hanging server would stop everybody. It also tries neither the
 * search domains of our network nor the machine's own hosts file, which a customer has no business to reach.
 *
 * `servers` (`address:port`) in place of those of the system's configuration.
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
          // One family may be missing or unanswered: what is used is what was answered, and that is checked.
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

/** Exceptions are machines of whoever runs the hub, and may be known to this machine only. */
const askTheSystem: ResolveName = (name) =>
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
  /**
   * Whether a subscription may be created with this URL. Resolves the host, and refuses when any of its addresses is
   * not public. Ends within 3 s or so; never fails for a reason of ours.
   */
  readonly checkUrl: (url: string) => Effect.Effect<void, UrlRefused>
  /**
   * All addresses of a host (a name or an IP literal without brackets), every one of them allowed. Whoever
   * connects must connect to one of these and not resolve again.
   */
  readonly addressesOf: (
    host: string,
  ) => Effect.Effect<ReadonlyArray<ResolvedAddress>, AddressNotPublic | HostUnresolvable>
  /** The exceptions in force; empty in production. */
  readonly allowedHosts: ReadonlySet<string>
}

/** The policy with given exceptions. */
export const makeAddressPolicy = (options: AddressPolicyOptions): AddressPolicyShape => {
  const { allowedHosts, resolveName = askNameServers() } = options

  const addressesOf: AddressPolicyShape['addressesOf'] = Effect.fnUntraced(function* (given) {
    const host = given.toLowerCase().replace(/\.$/u, '')
    const excepted = allowedHosts.has(host)
    const family = isIP(host) as 0 | 4 | 6
    if (family !== 0) {
      if (!excepted && !isPublicAddress(host)) return yield* new AddressNotPublic()
      return [{ address: host, family }]
    }
    if (isLocalhost(host) && !excepted) return yield* new AddressNotPublic()
    const addresses = yield* excepted ? askTheSystem(host) : resolveName(host)
    if (addresses.length === 0) return yield* new HostUnresolvable()
    const allowed =
      excepted ||
      addresses.every(({ address }) => isPublicAddress(address) || allowedHosts.has(address.toLowerCase()))
    if (!allowed) return yield* new AddressNotPublic()
    return addresses
  })

  return {
    allowedHosts,
    addressesOf,
    checkUrl: Effect.fn('AddressPolicy.checkUrl')(function* (text) {
      const url = readWebhookUrl(text)
      if (url instanceof UrlRefused) return yield* url
      yield* addressesOf(url.host).pipe(
        Effect.catchTags({
          AddressNotPublic: () => Effect.fail(urlRefused('not_public')),
          HostUnresolvable: () => Effect.fail(urlRefused('not_resolvable')),
        }),
      )
    }),
  }
}

/**
 * Hosts that need not be public, in the form of `readAllowedHost`. An entry that is none is a fault at start-up, not an exception that
 * silently does nothing.
 */
export const allowedHostsConfig: Config.Config<ReadonlySet<string>> = refineSetting(
  settings.webhookAllowedHosts,
  (entries) => {
    const hosts = new Set<string>()
    for (const entry of entries) {
      if (entry === '') continue
      const host = readAllowedHost(entry)
      if (host === null) return Result.fail('holds something that is neither a host name nor an address')
      hosts.add(host)
    }
    return Result.succeed(hosts)
  },
)

export class AddressPolicy extends Context.Service<AddressPolicy, AddressPolicyShape>()(
  '@hub/webhooks/AddressPolicy',
) {
  /** Configuration: `HUB_WEBHOOK_ALLOWED_HOSTS`. Warns at start-up when there are exceptions. */
  static readonly layer: Layer.Layer<AddressPolicy, Config.ConfigError> = Layer.effect(
    AddressPolicy,
    Effect.gen(function* () {
      const allowedHosts = yield* allowedHostsConfig
      if (allowedHosts.size > 0) {
        yield* Effect.logWarning(
          'HUB_WEBHOOK_ALLOWED_HOSTS is set: webhooks may be sent to hosts that are not public',
        ).pipe(Effect.annotateLogs({ hosts: [...allowedHosts].join(', ') }))
      }
      return makeAddressPolicy({ allowedHosts })
    }),
  )
}
