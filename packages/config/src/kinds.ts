/**
 * The kinds of values: parsing and a description for people. An error never contains the given
 * text, because even an invalid value may be a secret.
 */
import * as LogLevel from 'effect/LogLevel'
import * as Redacted from 'effect/Redacted'
import * as Result from 'effect/Result'
import { readRedisServers } from './redis-servers.ts'

type TypeName =
  | 'string'
  | 'port'
  | 'url'
  | 'integer'
  | 'number'
  | 'choice'
  | 'words'
  | 'hosts'
  | 'path'
  | 'json'
  | 'secret'

export interface Kind<out A> {
  readonly type: TypeName
  /** The expected value as a noun phrase: `a port, 1 to 65535`. */
  readonly expected: string
  /** True if the value must never be shown, logged or stored. */
  readonly secret: boolean
  /** The schemes of a URL, or the texts of a choice. Absent: of other kinds. */
  readonly permitted?: ReadonlyArray<string>
  /** Parses the text. The error is the end of a sentence about the variable: `is too short`. */
  readonly read: (text: string) => Result.Result<A, string>
}

/** The error of a text that does not match `expected`. */
export const INVALID = 'is something else'

const kind = <A>(type: TypeName, expected: string, read: Kind<A>['read']): Kind<A> => ({
  type,
  expected,
  secret: false,
  read: (text) => read(text.trim()),
})

const onlyIf = <A>(isRight: boolean, value: A): Result.Result<A, string> =>
  isRight ? Result.succeed(value) : Result.fail(INVALID)

/** Any text. Surrounding spaces are removed. */
export const string = (expected = 'any text'): Kind<string> => kind('string', expected, Result.succeed)

export const form = (pattern: RegExp, expected: string): Kind<string> =>
  kind('string', expected, (text) => onlyIf(pattern.test(text), text))

/** The path of a file or folder, relative to the working directory. */
export const path = (expected = 'a path'): Kind<string> => kind('path', expected, Result.succeed)

/** JSON. The component that reads the setting validates its content. */
export const json = (expected: string): Kind<string> => kind('json', expected, Result.succeed)

export const integer = (least: number, most: number): Kind<number> =>
  kind('integer', `a whole number from ${least} to ${most}`, (text) =>
    onlyIf(/^-?\d{1,15}$/u.test(text) && Number(text) >= least && Number(text) <= most, Number(text)),
  )

/** A number with at most three decimals. */
export const number = (least: number, most: number): Kind<number> =>
  kind('number', `a number from ${least} to ${most}`, (text) =>
    onlyIf(
      /^\d{1,15}(?:\.\d{1,3})?$/u.test(text) && Number(text) >= least && Number(text) <= most,
      Number(text),
    ),
  )

export const share: Kind<number> = kind('number', 'a number from 0 to 1', (text) =>
  onlyIf(/^[01](?:\.\d{1,9})?$/u.test(text) && Number(text) <= 1, Number(text)),
)

export const port: Kind<number> = {
  ...integer(1, 65_535),
  type: 'port',
  expected: 'a port, 1 to 65535',
}

export const choice = <const A extends string>(values: ReadonlyArray<A>): Kind<A> => ({
  ...kind('choice', values.length > 2 ? `one of ${values.join(', ')}` : values.join(' or '), (text) => {
    const found = values.find((value) => value === text)
    return found === undefined ? Result.fail(INVALID) : Result.succeed(found)
  }),
  permitted: values,
})

const LEVELS = ['Trace', 'Debug', 'Info', 'Warn', 'Error', 'Fatal', 'None'] as const
/** In any case: `debug` is what most programs call it, and what the logs contain. */
export const logLevel: Kind<LogLevel.LogLevel> = kind('choice', `one of ${LEVELS.join(', ')}`, (text) => {
  const found = LEVELS.find((level) => level.toLowerCase() === text.toLowerCase())
  return found === undefined ? Result.fail(INVALID) : Result.succeed(found)
})

/** In any case, as the specification of OpenTelemetry says. */
export const boolean: Kind<boolean> = kind('choice', 'true or false', (text) =>
  onlyIf(/^(?:true|false)$/iu.test(text), text.toLowerCase() === 'true'),
)

/** Any number of the given words, separated by commas. */
export const choices = <const A extends string>(values: ReadonlyArray<A>): Kind<ReadonlyArray<A>> =>
  kind('words', `any of ${values.join(', ')}, separated by commas`, (text) => {
    const given = text.split(',').flatMap((word) => (word.trim() === '' ? [] : [word.trim()]))
    const known = values.filter((value) => given.includes(value))
    return onlyIf(
      given.every((word) => values.some((value) => value === word)),
      known,
    )
  })

/** Words separated by commas. The component decides whether empty words are valid. */
export const words = (expected: string): Kind<ReadonlyArray<string>> =>
  kind('words', expected, (text) =>
    Result.succeed(text === '' ? [] : text.split(',').map((word) => word.trim())),
  )

/** No real proxy network is wider than 10.0.0.0/8, or than fc00::/7 with IPv6. */
const LEAST_PREFIX = { ipv4: 8, ipv6: 7 }

const isTooWide = (network: string): boolean => {
  const [address = '', prefix] = network.split('/')
  const least = address.includes(':') ? LEAST_PREFIX.ipv6 : LEAST_PREFIX.ipv4
  return prefix !== undefined && /^\d+$/u.test(prefix) && Number(prefix) < least
}

/**
 * Addresses and networks of trusted proxies. A network that contains nearly every address would let
 * each client choose its address.
 */
export const proxyNetworks: Kind<ReadonlyArray<string>> = {
  ...words('addresses and networks such as 192.0.2.0/28, separated by commas'),
  read: (text) =>
    Result.flatMap(words('').read(text), (networks) =>
      networks.some(isTooWide)
        ? Result.fail(`contains a network wider than /${LEAST_PREFIX.ipv4}, which would trust every client`)
        : Result.succeed(networks),
    ),
}

/** Reads `key=value`, separated by commas. Both are percent-encoded. Source: OpenTelemetry, W3C Baggage 3.2.1. */
const readPairs = (text: string): Result.Result<ReadonlyArray<readonly [string, string]>, string> =>
  Result.all(
    text
      .split(',')
      .filter((pair) => pair.trim() !== '')
      .map((pair) => {
        const [, key = '', value = ''] = /^([^=]+)=(.*)$/su.exec(pair) ?? []
        return Result.try({
          try: () => [decodeURIComponent(key.trim()), decodeURIComponent(value.trim())] as const,
          catch: () => 'has a % that does not begin a percent-encoded octet',
        }).pipe(Result.flatMap((read) => onlyIf(read[0] !== '', read)))
      }),
  )

const PAIRS = 'key=value, more than one separated by commas, both percent-encoded'

export const pairs: Kind<Readonly<Record<string, string>>> = kind('words', PAIRS, (text) =>
  Result.map(readPairs(text), Object.fromEntries<string>),
)

/** `auth` is the token itself. Sources: RFC 7628, 3.1; KIP-342. */
const isSaslExtension = ([name, value]: readonly [string, string]): boolean =>
  /^[A-Za-z]+$/u.test(name) && name !== 'auth' && /^[\u0020-\u007e]+$/u.test(value)

/** Extensions of SASL/OAUTHBEARER. */
export const saslExtensions: Kind<Readonly<Record<string, string>>> = kind(
  'words',
  'name=value, more than one separated by commas',
  (text) =>
    Result.flatMap(readPairs(text), (all) =>
      onlyIf(all.every(isSaslExtension), Object.fromEntries<string>(all)),
    ),
)

/** A host name, an IPv4 address or an IPv6 address in brackets, and a port. */
const HOST_AND_PORT = /^(?:\[[0-9a-fA-F:.]+\]|[^\s:/@[\]]+):(?<port>\d{1,5})$/u

/** `host:port`, separated by commas, at least one. */
export const brokers: Kind<ReadonlyArray<string>> = kind(
  'hosts',
  'host:port, more than one separated by commas',
  (text) => {
    const all = text
      .split(',')
      .map((broker) => broker.trim())
      .filter((broker) => broker !== '')
    const areRight = all.every((broker) => {
      const number = Number(HOST_AND_PORT.exec(broker)?.groups?.['port'] ?? 0)
      return number >= 1 && number <= 65_535
    })
    return onlyIf(all.length > 0 && areRight, all)
  },
)

const beginnings = (schemes: ReadonlyArray<string>): string =>
  schemes.map((scheme) => `${scheme}://`).join(' or ')

/** A URL with one of these schemes and no password. The text is not normalized. */
export const url = (...schemes: ReadonlyArray<string>): Kind<string> => ({
  ...kind('url', `a URL that begins with ${beginnings(schemes)}, without a password`, (text) => {
    const read = URL.parse(text)
    if (read === null || !schemes.includes(read.protocol.slice(0, -1)) || read.hostname === '') {
      return Result.fail(INVALID)
    }
    return read.password === '' ? Result.succeed(text) : Result.fail('has a password in it')
  }),
  permitted: schemes,
})

/** A URL with a place for a value, such as `{trace_id}`. */
export const urlTemplate = (place: string, ...schemes: ReadonlyArray<string>): Kind<string> => {
  const { expected, read } = url(...schemes)
  const withPlace = kind('url', `${expected}, with ${place} in it`, (text) =>
    text.includes(place) ? read(text) : Result.fail(`has no ${place} in it`),
  )
  return { ...withPlace, permitted: schemes }
}

const secretKind = <A>(
  expected: string,
  read: (text: string) => Result.Result<A, string>,
): Kind<Redacted.Redacted<A>> => ({
  type: 'secret',
  expected,
  secret: true,
  // Not trimmed: a space may be part of a secret. A final line break is a frequent mistake.
  read: (text) =>
    // eslint-disable-next-line no-control-regex
    /[\u0000-\u001f\u007f]/u.test(text)
      ? Result.fail('has a control character in it, perhaps a line break at its end')
      : Result.map(read(text), (value) => Redacted.make(value)),
})

export const secret = (options: {
  readonly least: number
  readonly most?: number
}): Kind<Redacted.Redacted<string>> => {
  const { least, most = Number.POSITIVE_INFINITY } = options
  const expected =
    most === Number.POSITIVE_INFINITY ? `${least} characters or more` : `${least} to ${most} characters`
  return secretKind(expected, (text) =>
    text.length < least
      ? Result.fail('is too short')
      : text.length > most
        ? Result.fail('is too long')
        : Result.succeed(text),
  )
}

/** A frequent mistake in files of secrets. */
export const hasOuterSpace = (text: string): boolean => text !== text.trim()

/** A URL with a password. Only its scheme is checked: drivers accept several hosts. */
export const secretUrl = (...schemes: ReadonlyArray<string>): Kind<Redacted.Redacted<string>> =>
  secretKind(`a URL that begins with ${beginnings(schemes)}`, (text) =>
    hasOuterSpace(text)
      ? Result.fail('begins or ends with a space')
      : onlyIf(
          schemes.some((scheme) => text.startsWith(`${scheme}://`)),
          text,
        ),
  )

/** The address of Redis, with its passwords. */
export const redisUrl: Kind<Redacted.Redacted<string>> = secretKind(
  'a URL that begins with redis://, redis+sentinel:// or redis+cluster://, or the same with rediss for TLS',
  (text) =>
    hasOuterSpace(text)
      ? Result.fail('begins or ends with a space')
      : Result.map(readRedisServers(text), () => text),
)

/** HTTP headers, of which one may be a password. */
export const headers: Kind<Redacted.Redacted<Readonly<Record<string, string>>>> = secretKind(PAIRS, (text) =>
  Result.flatMap(readPairs(text), (all) =>
    Result.try({
      try: () => Object.fromEntries(new Headers(all.map(([name, value]) => [name, value]))),
      catch: () => 'has a name or a value that no HTTP header can have',
    }),
  ),
)

const KEY_BYTES = 32
const keyOf = (text: string): Result.Result<Buffer, string> => {
  const bytes = Buffer.from(text.trim(), 'base64')
  return onlyIf(bytes.length === KEY_BYTES, bytes)
}

/** A key of 32 bytes. */
export const key: Kind<Redacted.Redacted<Buffer>> = secretKind(`${KEY_BYTES} bytes in base64`, keyOf)

/** Several keys, separated by commas. */
export const keys: Kind<Redacted.Redacted<ReadonlyArray<Buffer>>> = secretKind(
  `${KEY_BYTES} bytes in base64 each, separated by commas`,
  (text) =>
    Result.all(
      text
        .split(',')
        .filter((part) => part.trim() !== '')
        .map(keyOf),
    ),
)
