/** Configuration of the dispatcher, from the environment. */
import { join } from 'node:path'
import { Config, Effect, type Redacted } from 'effect'
import type { HttpOperatorSettings } from './dispatcher.ts'

/** `HUB_DATA_DIR`: where the member id is kept, so that a restarted process ends its own old session. */
export const memberFile = Config.String('HUB_DATA_DIR').pipe(
  Config.withDefault('.local/dispatcher'),
  Config.map((directory) => join(directory, 'member-id')),
)

/**
 * The operator of live keys: `HUB_OPERATOR_HTTP_URL`, and with it `HUB_OPERATOR_HTTP_SECRET` and
 * `HUB_OPERATOR_CALLBACK_PORT` (on `HUB_OPERATOR_CALLBACK_HOST`, default 127.0.0.1: who can reach it is the
 * deployment's decision). `null` without a URL: live messages then wait until their lifetime ends.
 */
export const httpOperator: Effect.Effect<HttpOperatorSettings | null, Config.ConfigError> = Effect.gen(
  function* () {
    const url = yield* Config.String('HUB_OPERATOR_HTTP_URL').pipe(Config.withDefault(''))
    if (url === '') return null
    const secret: Redacted.Redacted<string> = yield* Config.Redacted('HUB_OPERATOR_HTTP_SECRET')
    return {
      url: yield* Config.URL('HUB_OPERATOR_HTTP_URL'),
      secret,
      callback: {
        host: yield* Config.String('HUB_OPERATOR_CALLBACK_HOST').pipe(Config.withDefault('127.0.0.1')),
        port: yield* Config.Port('HUB_OPERATOR_CALLBACK_PORT'),
      },
    }
  },
)
