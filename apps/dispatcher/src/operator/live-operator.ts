/** Who takes the messages of live keys, from the environment: an operator that speaks SMPP, one that speaks HTTP, or nobody. */
import { caFileConfig, settingError, refineSetting, type Setting, settings } from '@hub/config'
import { HTTP, parseSmppErrors, SMPP, SMPP_DEFAULTS, type SmppErrors, type SmppSettings } from '@hub/operator'
import { type Config, Effect, type Redacted, Result } from 'effect'

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

const httpSettings = (url: string): Effect.Effect<HttpOperatorSettings, Config.ConfigError> =>
  Effect.gen(function* () {
    return {
      url: new URL(url),
      secret: yield* present(settings.operatorHttpSecret),
      callback: {
        host: yield* settings.operatorCallbackHost.config,
        port: yield* present(settings.operatorCallbackPort),
      },
    }
  })

/** A setting that the catalogue's rules ask for beside another one. */
const present = <A>(setting: Setting<A | null>): Effect.Effect<A, Config.ConfigError> =>
  Effect.flatMap(setting.config, (value) =>
    value === null ? Effect.fail(settingError(setting, 'is not set')) : Effect.succeed(value),
  )

/** What the operator's own codes mean. */
export const smppErrors: Config.Config<SmppErrors> = refineSetting(settings.operatorSmppErrors, (json) =>
  json === null
    ? Result.succeed(SMPP_DEFAULTS.errors)
    : Result.mapError(parseSmppErrors(json), ({ detail }) => `is no mapping of codes: ${detail}`),
)

/** PEM, or `null` for the usual authorities. */
export const authorities: Config.Config<string | null> = caFileConfig(settings.operatorSmppCaFile)

const smppSettings = (url: URL): Effect.Effect<SmppSettings, Config.ConfigError> =>
  Effect.gen(function* () {
    return {
      ...SMPP_DEFAULTS,
      url,
      password: yield* present(settings.operatorSmppPassword),
      ca: yield* authorities,
      binds: yield* settings.operatorSmppBinds.config,
      bindMode: yield* settings.operatorSmppBindMode.config,
      window: yield* settings.operatorSmppWindow.config,
      partsPerSecond: yield* settings.operatorSmppPartsPerSecond.config,
      idFormat: yield* settings.operatorSmppIdFormat.config,
      errors: yield* smppErrors,
      systemType: yield* settings.operatorSmppSystemType.config,
      numericSender: yield* settings.operatorSmppNumericSender.config,
      receiptOffsetMinutes: yield* settings.operatorSmppReceiptOffsetMinutes.config,
    }
  })

/**
 * The operator of live keys; `null` where none is configured: their messages then wait until their lifetime ends. That two are configured
 * is refused before (`checkSettings`).
 */
export const liveOperator: Effect.Effect<LiveOperator | null, Config.ConfigError> = Effect.gen(function* () {
  const smpp = yield* settings.operatorSmppUrl.config
  if (smpp !== null) return { name: SMPP, settings: yield* smppSettings(smpp) }
  const http = yield* settings.operatorHttpUrl.config
  if (http !== null) return { name: HTTP, settings: yield* httpSettings(http) }
  return null
})
