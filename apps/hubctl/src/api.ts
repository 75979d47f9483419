/** `hubctl --api`: performs use cases through the operations API, without the servers of the hub. */
import { isPrivateAddress, refused, unavailable, usageError } from '@hub/command-line'
import { settings } from '@hub/config'
import { OperationRefused, OperationUnavailable, type UseCase } from '@hub/operations'
import { HubError, readJson } from '@sms-delivery-hub/client/answer'
import { ConfigProvider, Effect, Layer, Redacted, Schema } from 'effect'
import { Flag, GlobalFlag } from 'effect/cli'
import { Environment } from './config.ts'

/** `--api`, a flag of every command. */
export const Api = GlobalFlag.Setting('api')({
  flag: Flag.String('api').pipe(
    Flag.withDescription('Use this operations API instead of the servers (default: HUBCTL_API_URL)'),
    Flag.withMetavar('URL'),
    Flag.withDefault(''),
  ),
})

interface OperationsApi {
  readonly url: string
  readonly token: Redacted.Redacted<string>
}

/** Longer than any deadline of the API. */
const WITHIN_MS = 30_000

const readSettings = Effect.gen(function* () {
  const environment = ConfigProvider.fromEnv({ env: yield* Environment })
  return yield* Effect.all({
    url: settings.hubctlApiUrl.config,
    token: settings.hubctlApiToken.config,
  }).pipe(Effect.provideService(ConfigProvider.ConfigProvider, environment))
})

/** The API to use; `null`: the servers. */
export const selectedApi = Effect.gen(function* () {
  const given = yield* Api
  const { token, url } = yield* readSettings
  const address = given === '' ? url : given
  if (address === null) return null
  const parsed = URL.parse(address)
  if (parsed === null || !/^https?:$/u.test(parsed.protocol)) {
    return yield* usageError('The address of the operations API must begin with https://.')
  }
  if (!isPrivateAddress(parsed)) {
    return yield* usageError('The operations API must have an https address: others could read the token.')
  }
  if (token === null) {
    return yield* unavailable(
      'no_token',
      'HUBCTL_API_TOKEN is not set. It contains an access token of the identity provider.',
    )
  }
  const api: OperationsApi = { url: address, token }
  return api
})

const notOverApi = (why: string) => refused('not_over_api', `This command does not work with --api: ${why}.`)

/** The connections of a command that the operations API does not have. With the API, it fails. */
export const withoutApi = <A, E, R>(why: string, servers: Layer.Layer<A, E, R>) =>
  Layer.unwrap(
    Effect.flatMap(selectedApi, (api) => (api === null ? Effect.succeed(servers) : notOverApi(why))),
  )

/**
 * Stands for the servers of a command that uses the API: whatever the command does with them itself fails
 * with a sentence.
 */
export const noServers: object = new Proxy(
  {},
  { get: () => () => notOverApi('it needs the servers of the hub') },
)

interface ErrorEnvelope {
  readonly error?: { readonly code?: string; readonly message?: string; readonly param?: string }
}

const failureOf = (status: number, body: unknown): OperationRefused | OperationUnavailable => {
  const { code, message, param } = (body as ErrorEnvelope | null)?.error ?? {}
  if (code === undefined || message === undefined || status >= 500) {
    return new OperationUnavailable({
      code: code ?? 'api_unavailable',
      message: message ?? `The operations API answers ${status}.`,
    })
  }
  return new OperationRefused({ code, message, ...(param === undefined ? {} : { param }) })
}

/** An answer without JSON, such as that of a proxy, has only its status. */
const unlessTooLong = (error: unknown): null => {
  if (error instanceof HubError) throw error
  return null
}

/** Performs a use case through the API. */
export const performOverApi = <Input, Output, E, R>(
  { token, url }: OperationsApi,
  { input: inputSchema, name, output }: UseCase<Input, Output, E, R>,
  input: Input,
): Effect.Effect<Output, OperationRefused | OperationUnavailable> =>
  Effect.gen(function* () {
    const encoded = yield* Effect.orDie(Schema.encodeEffect(Schema.toCodecJson(inputSchema))(input))
    const [status, body] = yield* Effect.tryPromise({
      try: async (signal) => {
        const response = await fetch(new URL('/v1/perform', url), {
          method: 'POST',
          redirect: 'error',
          headers: {
            authorization: `Bearer ${Redacted.value(token)}`,
            'content-type': 'application/json',
          },
          body: JSON.stringify({ use_case: name, input: encoded }),
          signal: AbortSignal.any([signal, AbortSignal.timeout(WITHIN_MS)]),
        })
        return [response.status, await readJson(response).catch(unlessTooLong)] as const
      },
      catch: (error) =>
        error instanceof HubError
          ? new OperationUnavailable({
              code: error.code,
              message: `${error.message} If the command changes something, see the audit trail.`,
            })
          : new OperationUnavailable({
              code: 'api_unavailable',
              message:
                'The operations API does not answer. If the command changes something, see the audit trail.',
            }),
    })
    if (status !== 200) return yield* failureOf(status, body)
    // Another version of the hub may answer in another form.
    return yield* Effect.mapError(
      Schema.decodeUnknownEffect(Schema.toCodecJson(output))(body),
      () =>
        new OperationUnavailable({
          code: 'api_unavailable',
          message: 'The operations API has another version than hubctl.',
        }),
    )
  })
