/** Who takes the messages of live keys, from the environment: an operator that speaks SMPP, one that speaks HTTP, or nobody. */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import {
  BIND_MODES,
  HTTP,
  ID_FORMATS,
  parseSmppErrors,
  SMPP,
  SMPP_DEFAULTS,
  type SmppErrors,
  type SmppSettings,
} from '@hub/operator'
import { Config, Effect, Redacted, Result } from 'effect'
import { wrong } from './config.ts'

/** An operator that calls back. */
export interface HttpOperatorSettings {
  readonly url: URL
  readonly secret: Redacted.Redacted<string>
  /** Where it calls back; `null` when somebody else receives its reports. */
  readonly callback: { readonly host: string; readonly port: number } | null
}

export type LiveOperator =
  | { readonly name: typeof SMPP; readonly settings: SmppSettings }
  | { readonly name: typeof HTTP; readonly settings: HttpOperatorSettings }

const given = (name: string) => Config.String(name).pipe(Config.withDefault(''))

const httpSettings: Effect.Effect<HttpOperatorSettings, Config.ConfigError> = Effect.gen(function* () {
  return {
    url: yield* Config.URL('HUB_OPERATOR_HTTP_URL'),
    secret: yield* Config.Redacted('HUB_OPERATOR_HTTP_SECRET'),
    callback: {
      host: yield* Config.String('HUB_OPERATOR_CALLBACK_HOST').pipe(Config.withDefault('127.0.0.1')),
      port: yield* Config.Port('HUB_OPERATOR_CALLBACK_PORT'),
    },
  }
})

/** Longer ones are cut or refused by centres. Source: SMPP 3.4, 4.1.5: 15 and 8 characters, and a NUL. */
const MAX_SYSTEM_ID = 15
const MAX_PASSWORD = 8
/** Source: SMPP 3.4, 5.2.3: 12 characters and a NUL. */
const MAX_SYSTEM_TYPE = 12
/** Time zones lie between 12 hours behind UTC and 14 ahead of it. */
const MAX_OFFSET_MINUTES = 14 * 60

/** More would be a mistake: centres allow an account a handful of binds, and windows of some hundreds. */
const MAX_BINDS = 32
const MAX_WINDOW = 10_000
const MAX_PARTS_PER_SECOND = 1_000_000

/** A whole number from 1 to `most`, or the default where there is none. */
const count = <A>(name: string, most: number, otherwise: A): Effect.Effect<number | A, Config.ConfigError> =>
  Effect.flatMap(given(name), (text): Effect.Effect<number | A, Config.ConfigError> => {
    if (text === '') return Effect.succeed(otherwise)
    const number = /^\d{1,9}$/u.test(text) ? Number(text) : 0
    return number >= 1 && number <= most
      ? Effect.succeed(number)
      : wrong(`${name} must be a whole number from 1 to ${most}`)
  })

const oneOf = <const A extends string>(name: string, values: ReadonlyArray<A>, otherwise: A) =>
  Effect.flatMap(given(name), (text): Effect.Effect<A, Config.ConfigError> => {
    const found = text === '' ? otherwise : values.find((value) => value === text)
    return found === undefined ? wrong(`${name} must be one of ${values.join(', ')}`) : Effect.succeed(found)
  })

const smppUrl: Effect.Effect<URL, Config.ConfigError> = Effect.gen(function* () {
  const url = yield* Config.URL('HUB_OPERATOR_SMPP_URL')
  const isUrl =
    ['smpp:', 'smpps:'].includes(url.protocol) &&
    url.hostname !== '' &&
    url.password === '' &&
    url.username !== '' &&
    decodeURIComponent(url.username).length <= MAX_SYSTEM_ID
  return isUrl
    ? url
    : yield* wrong(
        `HUB_OPERATOR_SMPP_URL must be smpp://system_id@host:port, or smpps:// for TLS, with a system id of 1 to ${MAX_SYSTEM_ID} characters and no password (that is HUB_OPERATOR_SMPP_PASSWORD)`,
      )
})

const smppErrors: Effect.Effect<SmppErrors, Config.ConfigError> = Effect.flatMap(
  given('HUB_OPERATOR_SMPP_ERRORS'),
  (json) => {
    if (json === '') return Effect.succeed(SMPP_DEFAULTS.errors)
    const parsed = parseSmppErrors(json)
    return Result.isSuccess(parsed)
      ? Effect.succeed(parsed.success)
      : wrong(`HUB_OPERATOR_SMPP_ERRORS is no mapping of codes: ${parsed.failure.detail}`)
  },
)

const authorities: Effect.Effect<string | null, Config.ConfigError> = Effect.flatMap(
  given('HUB_OPERATOR_SMPP_CA_FILE'),
  (file) =>
    file === ''
      ? Effect.succeed(null)
      : Effect.try({
          try: () => readFileSync(file, 'utf8'),
          catch: () => 'HUB_OPERATOR_SMPP_CA_FILE cannot be read',
        }).pipe(
          // TLS takes anything for a list of authorities, and then trusts nobody.
          Effect.tap((pem) =>
            Effect.try({
              try: () => new X509Certificate(pem),
              catch: () => 'HUB_OPERATOR_SMPP_CA_FILE holds no certificate in PEM',
            }),
          ),
          Effect.catch(wrong),
        ),
)

const systemType: Effect.Effect<string, Config.ConfigError> = Effect.flatMap(
  given('HUB_OPERATOR_SMPP_SYSTEM_TYPE'),
  (text) =>
    /^[\x20-\x7e]*$/u.test(text) && text.length <= MAX_SYSTEM_TYPE
      ? Effect.succeed(text)
      : wrong(`HUB_OPERATOR_SMPP_SYSTEM_TYPE must have at most ${MAX_SYSTEM_TYPE} ASCII characters`),
)

/** Type of number and numbering plan, `ton/npi`. */
const numericSender: Effect.Effect<SmppSettings['numericSender'], Config.ConfigError> = Effect.flatMap(
  given('HUB_OPERATOR_SMPP_NUMERIC_SENDER'),
  (text) => {
    if (text === '') return Effect.succeed(SMPP_DEFAULTS.numericSender)
    const [, ton, npi] = /^([0-6])\/([0-9]|1[0-8])$/u.exec(text) ?? []
    return ton === undefined || npi === undefined
      ? wrong('HUB_OPERATOR_SMPP_NUMERIC_SENDER must be type of number and numbering plan, for example 1/1')
      : Effect.succeed({ ton: Number(ton), npi: Number(npi) })
  },
)

const receiptOffset: Effect.Effect<number | null, Config.ConfigError> = Effect.flatMap(
  given('HUB_OPERATOR_SMPP_RECEIPT_OFFSET_MINUTES'),
  (text) => {
    if (text === '') return Effect.succeed(SMPP_DEFAULTS.receiptOffsetMinutes)
    const minutes = /^-?\d{1,3}$/u.test(text) ? Number(text) : Number.NaN
    return Math.abs(minutes) <= MAX_OFFSET_MINUTES
      ? Effect.succeed(minutes)
      : wrong('HUB_OPERATOR_SMPP_RECEIPT_OFFSET_MINUTES must be an offset from UTC, for example 180')
  },
)

const smppSettings: Effect.Effect<SmppSettings, Config.ConfigError> = Effect.gen(function* () {
  const password = yield* Config.Redacted('HUB_OPERATOR_SMPP_PASSWORD')
  if (Redacted.value(password).length > MAX_PASSWORD) {
    return yield* wrong(`HUB_OPERATOR_SMPP_PASSWORD must have at most ${MAX_PASSWORD} characters`)
  }
  return {
    ...SMPP_DEFAULTS,
    url: yield* smppUrl,
    password,
    ca: yield* authorities,
    binds: yield* count('HUB_OPERATOR_SMPP_BINDS', MAX_BINDS, SMPP_DEFAULTS.binds),
    bindMode: yield* oneOf('HUB_OPERATOR_SMPP_BIND_MODE', BIND_MODES, SMPP_DEFAULTS.bindMode),
    window: yield* count('HUB_OPERATOR_SMPP_WINDOW', MAX_WINDOW, SMPP_DEFAULTS.window),
    partsPerSecond: yield* count(
      'HUB_OPERATOR_SMPP_PARTS_PER_SECOND',
      MAX_PARTS_PER_SECOND,
      SMPP_DEFAULTS.partsPerSecond,
    ),
    idFormat: yield* oneOf('HUB_OPERATOR_SMPP_ID_FORMAT', ID_FORMATS, SMPP_DEFAULTS.idFormat),
    errors: yield* smppErrors,
    systemType: yield* systemType,
    numericSender: yield* numericSender,
    receiptOffsetMinutes: yield* receiptOffset,
  }
})

/**
 * The operator of live keys; `null` where none is configured: their messages then wait until their lifetime ends.
 *
 * Over SMPP: `HUB_OPERATOR_SMPP_URL` (`smpp://system_id@host:port`, `smpps://` for TLS) and `HUB_OPERATOR_SMPP_PASSWORD`; and where the
 * defaults of `SMPP_DEFAULTS` do not fit, `HUB_OPERATOR_SMPP_BINDS`, `HUB_OPERATOR_SMPP_BIND_MODE` (`transceiver`,
 * `transmitter_receiver`), `HUB_OPERATOR_SMPP_WINDOW` (parts without an answer, each bind), `HUB_OPERATOR_SMPP_PARTS_PER_SECOND`,
 * `HUB_OPERATOR_SMPP_ID_FORMAT` (see `IdFormat`), `HUB_OPERATOR_SMPP_ERRORS` (see `parseSmppErrors`), `HUB_OPERATOR_SMPP_CA_FILE` (PEM),
 * `HUB_OPERATOR_SMPP_SYSTEM_TYPE`, `HUB_OPERATOR_SMPP_NUMERIC_SENDER` (`ton/npi`), `HUB_OPERATOR_SMPP_RECEIPT_OFFSET_MINUTES` (of the
 * dates in receipts, from UTC).
 *
 * Over HTTP: `HUB_OPERATOR_HTTP_URL`, `HUB_OPERATOR_HTTP_SECRET` and `HUB_OPERATOR_CALLBACK_PORT` (on `HUB_OPERATOR_CALLBACK_HOST`,
 * default 127.0.0.1: who can reach it is the deployment's decision).
 */
export const liveOperator: Effect.Effect<LiveOperator | null, Config.ConfigError> = Effect.gen(function* () {
  const smpp = yield* given('HUB_OPERATOR_SMPP_URL')
  const http = yield* given('HUB_OPERATOR_HTTP_URL')
  if (smpp !== '' && http !== '') {
    return yield* wrong(
      'HUB_OPERATOR_SMPP_URL and HUB_OPERATOR_HTTP_URL are both set, and live keys have one operator: unset one of them',
    )
  }
  if (smpp !== '') return { name: SMPP, settings: yield* smppSettings }
  if (http !== '') return { name: HTTP, settings: yield* httpSettings }
  return null
})
