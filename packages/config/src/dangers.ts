/**
 * Settings that work but endanger data: a production process does not start with them, and `hubctl
 * config` refuses them in every deployment (docs/decisions/deployment.md#dangerous-settings).
 */
import * as Redacted from 'effect/Redacted'
import { settings } from './catalogue/index.ts'
import type { SERVERS } from './catalogue/hub.ts'
import { isLoopback } from './loopback.ts'
import type { Rule } from './rules.ts'
import { InvalidSetting, type Setting } from './setting.ts'

/** A port at the end of a host. */
const PORT = /:\d+$/u

interface ServerUrl {
  readonly hosts: ReadonlyArray<string>
  readonly query: URLSearchParams
}

/** The hosts and the query of a URL. PostgreSQL URLs may name several hosts, so `URL` is no help. */
const partsOf = (url: string): ServerUrl => {
  const [beforeQuery = '', query = ''] = url.split(/\?(?<query>.*)/su)
  const authority = beforeQuery.replace(/^[a-z]+:\/\//u, '').split('/')[0] ?? ''
  const hosts = authority.slice(authority.lastIndexOf('@') + 1)
  return {
    hosts: hosts.split(',').map((host) => decodeURIComponent(host.replace(PORT, ''))),
    query: new URLSearchParams(query),
  }
}

/** The driver reads the last value of a parameter that occurs twice. */
const last = (query: URLSearchParams, name: string): string | undefined => query.getAll(name).at(-1)

/** Whether the driver encrypts the connection, and verifies the certificate with the host name. */
const isVerified = ({ query }: ServerUrl): boolean =>
  last(query, 'sslrootcert') === 'system' || (last(query, 'sslmode') ?? last(query, 'ssl')) === 'verify-full'

const danger = (
  about: Setting<unknown>,
  others: ReadonlyArray<Setting<unknown>>,
  sentence: string,
  find: (
    valueOf: <A>(setting: Setting<A>) => A | undefined,
    isSet: (setting: Setting<unknown>) => boolean,
  ) => { readonly problem: string; readonly expected: string } | null,
): Rule => ({
  about: [about, ...others],
  sentence,
  mistakes: (isSet, valueOf) => {
    const found = isSet(about) ? find(valueOf, isSet) : null
    return found === null ? [] : [new InvalidSetting({ variable: about.name, ...found })]
  },
})

/** Whether all elements are equal: a placeholder, not a random secret. */
const repeatsOne = (elements: ArrayLike<unknown>): boolean =>
  elements.length > 0 && Array.from(elements).every((element) => element === elements[0])

const repeated = (setting: Setting<Redacted.Redacted<ArrayLike<unknown>> | null>, how: string): Rule =>
  danger(setting, [], `\`${setting.name}\` that repeats one ${how}: anyone can guess it.`, (valueOf) => {
    const value = valueOf(setting)
    return value !== undefined && value !== null && repeatsOne(Redacted.value(value))
      ? { problem: `repeats one ${how}`, expected: `a random value: ${setting.kind.expected}` }
      : null
  })

/** A server outside of loopback needs TLS, unless `HUB_PLAINTEXT_SERVERS` names it. */
const withoutTls = (
  server: (typeof SERVERS)[number],
  setting: Setting<unknown>,
  others: ReadonlyArray<Setting<unknown>>,
  sentence: string,
  expected: string,
  isExposed: (valueOf: <A>(setting: Setting<A>) => A | undefined) => boolean,
): Rule =>
  danger(
    setting,
    [settings.plaintextServers, ...others],
    `${sentence}, unless \`${settings.plaintextServers.name}\` contains \`${server}\`.`,
    (valueOf) =>
      isExposed(valueOf) && valueOf(settings.plaintextServers)?.includes(server) !== true
        ? {
            problem: 'allows connections over a network without verified TLS',
            expected: `${expected}, or ${server} in ${settings.plaintextServers.name}`,
          }
        : null,
  )

/** What mechanisms of SASL send as it is. */
const UNENCRYPTED_BY: Readonly<Record<string, string>> = { plain: 'password', oauthbearer: 'token' }

/** An address that must use TLS outside of loopback. */
const unencrypted = (setting: Setting<string | null>, why: string, problem: string): Rule =>
  danger(
    setting,
    [],
    `\`${setting.name}\` that begins with \`http://\` and has a host outside of loopback: ${why}.`,
    (valueOf) => {
      const url = URL.parse(valueOf(setting) ?? '')
      return url !== null && url.protocol === 'http:' && !isLoopback(url.hostname)
        ? { problem, expected: 'a URL that begins with https://' }
        : null
    },
  )

/**
 * The previous master keys may repeat one byte: data under such a key must stay readable until it
 * has another one.
 */
export const dangers: ReadonlyArray<Rule> = [
  danger(
    settings.crashPoints,
    [],
    `\`${settings.crashPoints.name}\`: whoever can write to the folder can end the process.`,
    () => ({ problem: 'makes the process crash on request', expected: 'no value' }),
  ),
  repeated(settings.masterKey, 'byte'),
  repeated(settings.numberHashSecret, 'character'),
  withoutTls(
    'postgresql',
    settings.databaseUrl,
    [],
    `\`${settings.databaseUrl.name}\` without \`sslmode=verify-full\` and with a host outside of loopback`,
    'sslmode=verify-full in the URL',
    (valueOf) => {
      const url = valueOf(settings.databaseUrl)
      if (url === undefined) return false
      const parts = partsOf(Redacted.value(url))
      return !isVerified(parts) && !parts.hosts.every(isLoopback)
    },
  ),
  withoutTls(
    'redis',
    settings.redisUrl,
    [],
    `\`${settings.redisUrl.name}\` that begins with \`redis:\` and has a host outside of loopback, or that begins with \`redis+\``,
    'a URL that begins with rediss',
    (valueOf) => {
      const url = valueOf(settings.redisUrl)
      if (url === undefined) return false
      const text = Redacted.value(url)
      // Sentinels and nodes of a cluster name other hosts, whatever their own are.
      return (
        text.startsWith('redis+') || (text.startsWith('redis:') && !partsOf(text).hosts.every(isLoopback))
      )
    },
  ),
  withoutTls(
    'kafka',
    settings.kafkaBrokers,
    [settings.kafkaTls],
    `\`${settings.kafkaBrokers.name}\` with a host outside of loopback while \`${settings.kafkaTls.name}\` is not \`on\``,
    `${settings.kafkaTls.name}=on`,
    (valueOf) =>
      valueOf(settings.kafkaTls) === 'off' &&
      (valueOf(settings.kafkaBrokers) ?? []).some((broker) => !isLoopback(broker.replace(PORT, ''))),
  ),
  danger(
    settings.kafkaMechanism,
    [settings.kafkaTls],
    `\`${settings.kafkaMechanism.name}=plain\` or \`oauthbearer\` while \`${settings.kafkaTls.name}\` is not \`on\`: it sends the password or the token unencrypted.`,
    (valueOf) => {
      const sent = UNENCRYPTED_BY[valueOf(settings.kafkaMechanism) ?? '']
      return sent !== undefined && valueOf(settings.kafkaTls) === 'off'
        ? {
            problem: `sends the ${sent} unencrypted without TLS`,
            expected: `${settings.kafkaTls.name}=on, or a scram mechanism`,
          }
        : null
    },
  ),
  unencrypted(
    settings.kafkaTokenUrl,
    'others could read the secret of the hub',
    'sends the secret of the hub unencrypted',
  ),
  unencrypted(
    settings.baseUrl,
    'clients would send API keys unencrypted',
    'makes clients send their API keys unencrypted',
  ),
  unencrypted(
    settings.operationsUrl,
    'hub staff would send their sessions unencrypted',
    'makes hub staff send their sessions unencrypted',
  ),
  unencrypted(
    settings.oidcIssuer,
    'others could sign in as anyone',
    'lets others answer in the name of the identity provider',
  ),
  unencrypted(
    settings.transitUrl,
    'others could read the token and the keys',
    'sends the token and the keys unencrypted',
  ),
  danger(
    settings.localLoginSecret,
    [],
    `\`${settings.localLoginSecret.name}\`: whoever knows it can sign in with any role.`,
    () => ({ problem: 'permits sign-ins without the identity provider', expected: 'no value' }),
  ),
]
