/**
 * What the environment says, read and checked as a whole: a start that fails names every mistake, not the first one. What is wrong is
 * told by the name of its variable and what it must be, never by its value.
 */
import { catalogueConfig, kafkaConnectionConfig } from '@hub/kafka'
import { masterKeyConfig, previousMasterKeysConfig } from '@hub/store'
import { allowedHostsConfig } from '@hub/webhooks'
import { Config, ConfigProvider, Data, Effect, Redacted, Result } from 'effect'
import { networksFrom } from './access/client-address.ts'

/** The process cannot start. A retry with the same environment fails in the same way. */
export class ConfigurationInvalid extends Data.TaggedError('ConfigurationInvalid')<{
  /** One sentence a mistake. */
  readonly problems: ReadonlyArray<string>
}> {
  override readonly message = `the environment is not as it should be: ${this.problems.join('; ')}`
}

/** A hash secret shorter than its digest would be the easier of the two to guess. */
const MIN_HASH_SECRET = 32

/** Only a sentence of ours, so that no value is told. */
const wrong = (words: string): Effect.Effect<never, Config.ConfigError> =>
  Effect.fail(new Config.ConfigError(new ConfigProvider.SourceError({ message: words })))

const checked =
  <A>(isRight: (value: A) => boolean, words: string) =>
  (config: Config.Config<A>): Config.Config<A> =>
    Config.mapEffect(config, (value) => (isRight(value) ? Effect.succeed(value) : wrong(words)))

const isUrl =
  (...schemes: ReadonlyArray<string>) =>
  (text: string): boolean =>
    URL.canParse(text) && schemes.includes(new URL(text).protocol)

/** Only its beginning is looked at: drivers take more than one host, which is no URL to anybody else. */
const secretUrl = (name: string, ...beginnings: ReadonlyArray<string>) =>
  Config.Redacted(name).pipe(
    checked(
      (value) => beginnings.some((beginning) => Redacted.value(value).startsWith(beginning)),
      `${name} must be a URL that begins with ${beginnings.join(' or ')}`,
    ),
  )

/** `null` where the variable is absent or empty. */
const optional = (name: string) =>
  Config.String(name).pipe(
    Config.withDefault(''),
    Config.map((text) => (text.trim() === '' ? null : text.trim())),
  )

const trustedProxies = Config.String('HUB_TRUSTED_PROXIES').pipe(
  Config.withDefault(''),
  Config.mapEffect((text) => {
    const networks = networksFrom(text)
    return Result.isSuccess(networks)
      ? Effect.succeed(networks.success)
      : wrong('HUB_TRUSTED_PROXIES must be addresses and networks such as 10.0.0.0/8, separated by commas')
  }),
)

type Values<C extends Readonly<Record<string, Config.Config<unknown>>>> = {
  readonly [Name in keyof C]: C[Name] extends Config.Config<infer A> ? A : never
}

/** How the configuration library words it: what it expected, then where. */
const EXPECTED = /^Expected (?<what>.+?)\s+at \["(?<name>[^"]+)"\]$/su

/** What is wrong with a variable, in a sentence that names it. */
const told = (error: Config.ConfigError): string => {
  const { message } = error.cause
  const { name, what } = EXPECTED.exec(message)?.groups ?? {}
  return name === undefined ? message : `${name} is missing or is not what it must be: ${what}`
}

/** Every value, or every mistake. */
export const readAll = <const C extends Readonly<Record<string, Config.Config<unknown>>>>(
  configs: C,
): Effect.Effect<Values<C>, ConfigurationInvalid> =>
  Effect.gen(function* () {
    const values: Record<string, unknown> = {}
    const problems: Array<string> = []
    for (const [name, config] of Object.entries(configs)) {
      const value = yield* Effect.result(config)
      if (Result.isSuccess(value)) values[name] = value.success
      else problems.push(told(value.failure))
    }
    return problems.length === 0
      ? // Each name has its config's value.
        (values as Values<C>)
      : yield* new ConfigurationInvalid({ problems })
  })

/** Both files or neither. */
const tlsFiles = Config.all({ cert: optional('HUB_TLS_CERT_FILE'), key: optional('HUB_TLS_KEY_FILE') }).pipe(
  Config.mapEffect(({ cert, key }) => {
    if (cert !== null && key !== null) return Effect.succeed({ certFile: cert, keyFile: key })
    return cert === null && key === null
      ? Effect.succeed(null)
      : wrong('HUB_TLS_CERT_FILE and HUB_TLS_KEY_FILE go together')
  }),
)

const settings = {
  port: Config.Port('HUB_PORT'),
  baseUrl: Config.String('HUB_BASE_URL').pipe(
    checked(isUrl('https:', 'http:'), 'HUB_BASE_URL must be a URL that begins with https:// or http://'),
  ),
  hashSecret: Config.Redacted('HUB_NUMBER_HASH_SECRET').pipe(
    checked(
      (secret) => Redacted.value(secret).length >= MIN_HASH_SECRET,
      `HUB_NUMBER_HASH_SECRET must have at least ${MIN_HASH_SECRET} characters`,
    ),
  ),
  trustedProxies,
  tls: tlsFiles,
  connection: kafkaConnectionConfig('command-api').pipe(
    checked(
      ({ brokers }) => brokers.length > 0,
      'HUB_KAFKA_BROKERS must name at least one broker as host:port',
    ),
  ),
  catalogue: catalogueConfig,
  // What the parts read themselves. It is looked at here so that its mistakes are told together with ours.
  databaseUrl: secretUrl('HUB_DATABASE_URL', 'postgres://', 'postgresql://'),
  databasePool: Config.Int('HUB_DATABASE_POOL').pipe(Config.withDefault(10)),
  redisUrl: secretUrl('HUB_REDIS_URL', 'redis://', 'rediss://'),
  masterKey: masterKeyConfig,
  previousMasterKeys: previousMasterKeysConfig,
  adminPort: Config.Port('HUB_ADMIN_PORT'),
  logLevel: Config.LogLevel('HUB_LOG_LEVEL').pipe(Config.withDefault('Info')),
  allowedHosts: allowedHostsConfig,
}

/** The settings of the process, or all that is wrong with them. */
export const configuration = readAll(settings)
