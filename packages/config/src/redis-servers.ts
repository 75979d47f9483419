/** The forms of `HUB_REDIS_URL`: one server, Sentinels that know the primary, or a cluster. */
import * as Result from 'effect/Result'

export type RedisServers =
  | {
      readonly form: 'single'
      /** Of the server, as the driver reads it. */
      readonly url: string
    }
  | {
      readonly form: 'sentinel'
      /** The URL of each Sentinel, with its own user and password. */
      readonly sentinels: ReadonlyArray<string>
      /** The name under which the Sentinels watch the primary. */
      readonly primary: string
      /** The URL of a server that they name, with the user and password of Redis. */
      readonly urlOf: (host: string, port: number) => string
      /** The host name in the certificates of servers that are named by an IP address; `null`: that address. */
      readonly tlsName: string | null
    }
  | {
      readonly form: 'cluster'
      /** The URLs of the nodes that the hub asks for the others. */
      readonly nodes: ReadonlyArray<string>
      /** The URL of another node. */
      readonly urlOf: (host: string, port: number) => string
      /** As with Sentinels. */
      readonly tlsName: string | null
    }

const DEFAULT_PORTS = { sentinel: 26_379, cluster: 6379 } as const

const SCHEME = /^(?<scheme>rediss?)(?:\+(?<form>sentinel|cluster))?:\/\/(?<rest>.*)$/su
/** User and password, hosts, path and query. */
const REST = /^(?:(?<user>[^/?#]*)@)?(?<hosts>[^/?#]*)(?:\/(?<path>[^?#]*))?(?:\?(?<query>[^#]*))?$/su
/** A host name, an IPv4 address or an IPv6 address in brackets, and perhaps a port. */
const HOST = /^(?<host>\[[0-9a-fA-F:.]+\]|[^\s:/@[\]]+)(?::(?<port>\d{1,5}))?$/u
/** Source: Redis, sentinel.conf: "The valid charset is A-z 0-9 and the three characters .-_". */
const PRIMARY = /^[\w.-]+$/u

/** The parameters of each form. */
const PARAMETERS = {
  sentinel: ['sentinel_username', 'sentinel_password', 'tls_name'],
  cluster: ['tls_name'],
} as const
type Parameter = (typeof PARAMETERS)[keyof typeof PARAMETERS][number]

/** Reads the parameters, whose values are percent-encoded. The error is the end of a sentence. */
const readParameters = (
  query: string,
  permitted: ReadonlyArray<Parameter>,
): Result.Result<ReadonlyMap<Parameter, string>, string> =>
  Result.all(
    query
      .split('&')
      .filter((parameter) => parameter !== '')
      .map((parameter) => {
        const [, given = '', value = ''] = /^([^=]*)=?(.*)$/su.exec(parameter) ?? []
        const name = permitted.find((one) => one === given)
        return name === undefined
          ? Result.fail(`has a parameter other than ${permitted.join(', ')}`)
          : Result.try({
              try: () => [name, decodeURIComponent(value)] as const,
              catch: () => 'has a % that does not begin a percent-encoded octet',
            })
      }),
  ).pipe(Result.map((pairs) => new Map(pairs)))

const bracketed = (host: string): string => (host.includes(':') && !host.startsWith('[') ? `[${host}]` : host)

/** The URL of one server. `user`: what is before the `@`, or nothing. */
const urlOf =
  (scheme: string, user: string) =>
  (host: string, port: number): string =>
    `${scheme}://${user === '' ? '' : `${user}@`}${bracketed(host)}:${port}`

const readHosts = (
  hosts: string,
  defaultPort: number,
): Result.Result<ReadonlyArray<{ readonly host: string; readonly port: number }>, string> =>
  Result.all(
    hosts.split(',').map((text) => {
      const { host, port } = HOST.exec(text)?.groups ?? {}
      const number = Number(port ?? defaultPort)
      return host !== undefined && number >= 1 && number <= 65_535
        ? Result.succeed({ host, port: number })
        : Result.fail('has something else than host:port between its commas')
    }),
  )

/** Reads the setting. The error is the end of a sentence about it: it has no part of the value. */
export const readRedisServers = (text: string): Result.Result<RedisServers, string> =>
  Result.gen(function* () {
    const { form, rest = '', scheme = '' } = SCHEME.exec(text)?.groups ?? {}
    if (scheme === '') return yield* Result.fail('is something else')
    const { hosts = '', path = '', query = '', user = '' } = REST.exec(rest)?.groups ?? {}
    if (form === undefined) {
      return hosts.includes(',')
        ? yield* Result.fail('has several hosts, but does not say whether they are Sentinels or a cluster')
        : { form: 'single' as const, url: text }
    }
    const named = form === 'cluster' ? 'cluster' : 'sentinel'
    const addresses = yield* readHosts(hosts, DEFAULT_PORTS[named])
    const ofServer = urlOf(scheme, user)
    if (URL.parse(ofServer('host', 1)) === null) return yield* Result.fail('is something else')
    const parameters = yield* readParameters(query, PARAMETERS[named])
    const common = { urlOf: ofServer, tlsName: parameters.get('tls_name') ?? null }
    if (named === 'cluster') {
      if (path !== '')
        return yield* Result.fail('has something after the hosts, which a cluster does not have')
      const nodes = addresses.map(({ host, port }) => ofServer(host, port))
      return { form: named, nodes, ...common }
    }
    if (!PRIMARY.test(path))
      return yield* Result.fail('does not end with the name of the primary after the hosts')
    const own = [parameters.get('sentinel_username') ?? '', parameters.get('sentinel_password') ?? '']
    const ofSentinel = urlOf(
      scheme,
      own.some((part) => part !== '') ? own.map(encodeURIComponent).join(':') : '',
    )
    const sentinels = addresses.map(({ host, port }) => ofSentinel(host, port))
    return { form: named, sentinels, primary: path, ...common }
  })

/** As `readRedisServers`, for a setting that was checked. */
export const redisServers = (text: string): RedisServers =>
  Result.getOrThrowWith(readRedisServers(text), (problem) => new Error(`the address of Redis ${problem}`))
