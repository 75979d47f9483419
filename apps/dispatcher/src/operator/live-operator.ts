/** The operator for live keys from the environment: an SMPP operator, an HTTP operator, or none. */
import { caFileConfig, settingError, refineSetting, type Setting, settings } from '@hub/config'
import { HTTP, parseSmppErrors, SMPP, SMPP_DEFAULTS, type SmppErrors, type SmppSettings } from '@hub/operator'
import { type Config, Effect, type Redacted, Result } from 'effect'

export interface HttpSettings {
  readonly url: URL
  readonly secret: Redacted.Redacted<string>
  /** The local address for its callbacks; `null` if another process receives them. */
  readonly callback: { readonly host: string; readonly port: number } | null
}

export type LiveOperator =
  | { readonly name: typeof SMPP; readonly settings: SmppSettings }
  | { readonly name: typeof HTTP; readonly settings: HttpSettings }

const httpSettings = (url: string): Effect.Effect<HttpSettings, Config.ConfigError> =>
  Effect.gen(function* () {
    return {
      url: new URL(url),
      secret: yield* readRequired(settings.operatorHttpSecret),
      callback: {
        host: yield* settings.operatorCallbackHost.config,
        port: yield* readRequired(settings.operatorCallbackPort),
      },
    }
  })

/** A setting that the rules of the catalogue require together with another one. */
const readRequired = <A>(setting: Setting<A | null>): Effect.Effect<A, Config.ConfigError> =>
  Effect.flatMap(setting.config, (value) =>
    value === null ? Effect.fail(settingError(setting, 'is not set')) : Effect.succeed(value),
  )

export const smppErrors: Config.Config<SmppErrors> = refineSetting(settings.operatorSmppErrors, (json) =>
  json === null
    ? Result.succeed(SMPP_DEFAULTS.errors)
    : Result.mapError(parseSmppErrors(json), ({ detail }) => `is not a valid mapping of codes: ${detail}`),
)

/** The certificate authorities in PEM, or `null` for the default ones. */
export const authorities: Config.Config<string | null> = caFileConfig(settings.operatorSmppCaFile)

const smppSettings = (url: URL): Effect.Effect<SmppSettings, Config.ConfigError> =>
  Effect.gen(function* () {
    return {
      ...SMPP_DEFAULTS,
      url,
      password: yield* readRequired(settings.operatorSmppPassword),
      ca: yield* authorities,
      binds: yield* settings.operatorSmppBinds.config,
      bindMode: yield* settings.operatorSmppBindMode.config,
      window: yield* settings.operatorSmppWindow.config,
      partsPerSecond: yield* settings.operatorSmppPartsPerSecond.config,
      idFormat: yield* settings.operatorSmppIdFormat.config,
      errors: yield* smppErrors,
      systemType: yield* settings.operatorSmppSystemType.config,
      numericSender: yield* settings.operatorSmppNumericSender.config,
      enquireDeadlineMs: (yield* settings.operatorSmppEnquireLinkSeconds.config) * 1000,
      receiptOffsetMinutes: yield* settings.operatorSmppReceiptOffsetMinutes.config,
    }
  })

/** The operator for live keys, or `null`. `checkSettings` has already rejected two operators. */
export const liveOperator: Effect.Effect<LiveOperator | null, Config.ConfigError> = Effect.gen(function* () {
  const smpp = yield* settings.operatorSmppUrl.config
  if (smpp !== null) return { name: SMPP, settings: yield* smppSettings(smpp) }
  const http = yield* settings.operatorHttpUrl.config
  if (http !== null) return { name: HTTP, settings: yield* httpSettings(http) }
  return null
})
