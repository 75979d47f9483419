/**
 * The HTTP interface of the transit engine of OpenBao and HashiCorp Vault: encrypts and decrypts with a key that
 * never leaves the server, and renews the token. Source: https://openbao.org/api-docs/secret/transit/ and
 * https://openbao.org/api-docs/auth/token/.
 */
import { Agent as HttpAgent, request as httpRequest } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { Array as Arr, Effect, Option, Redacted, Result, Schema, type Scope } from 'effect'
import { StorageUnavailable } from '../sql.ts'
import type { DecryptionProblem } from './key-provider.port.ts'

/** What the engine has encrypted. */
export interface TransitCiphertext {
  /** The version of the key, from 1. */
  readonly version: number
  readonly bytes: Uint8Array
}

interface TokenState {
  /** Until the token ends; `null`: it never ends. */
  readonly ttlSeconds: number | null
  readonly isRenewable: boolean
}
interface LookedUpToken extends TokenState {
  /** The time that the token was created with, and that a full renewal gives it; `null`: the server does not say. */
  readonly createdForSeconds: number | null
}

/** Every effect ends within `REQUEST_WITHIN_MS` for each request. No error contains a key or the token. */
export interface TransitClient {
  readonly encrypt: (
    plain: ReadonlyArray<Uint8Array>,
  ) => Effect.Effect<ReadonlyArray<TransitCiphertext>, StorageUnavailable>
  readonly decrypt: (
    ciphertexts: ReadonlyArray<TransitCiphertext>,
  ) => Effect.Effect<ReadonlyArray<Result.Result<Buffer, DecryptionProblem>>, StorageUnavailable>
  /** Encrypts again under the newest version, inside of the server. */
  readonly rewrap: (
    ciphertexts: ReadonlyArray<TransitCiphertext>,
  ) => Effect.Effect<ReadonlyArray<Result.Result<TransitCiphertext, DecryptionProblem>>, StorageUnavailable>
  readonly lookUpToken: Effect.Effect<LookedUpToken, StorageUnavailable>
  readonly renewToken: Effect.Effect<TokenState, StorageUnavailable>
}

export interface TransitOptions {
  /** Of the server: `https://vault:8200`. */
  readonly url: string
  readonly mount: string
  readonly key: string
  readonly namespace: string | null
  /** PEM; `null`: the default authorities. */
  readonly ca: string | null
  /** Is asked for each request. `null`: there is none now. */
  readonly token: Effect.Effect<Redacted.Redacted<string> | null>
}

/** The contract promises clients an answer within 3 s. */
const REQUEST_WITHIN_MS = 2500
/** Of one request. OpenBao 2.7 refuses a request with more than 1,000 texts, and an item has two of them. */
const ITEMS_PER_REQUEST = 200
/** No answer is larger, so a larger one is of another server. */
const MAX_ANSWER_BYTES = 4 * 1024 * 1024
/** Requests at the same time. More would only wait in the server. */
const MAX_CONNECTIONS = 8

const unavailable = (code: string, reason: StorageUnavailable['reason'] = 'unreachable') =>
  new StorageUnavailable({ reason, detail: code })
/** The engine answers, but with an error. */
const failed = (code: string) => unavailable(code, 'failed')

/** Codes of OpenSSL and of Node for a certificate that cannot be verified. */
const UNTRUSTED = /^(?:CERT_|ERR_TLS_CERT|ERR_SSL_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_)/u

/** Keeps only codes: messages contain addresses. */
const failureOf = (error: unknown): StorageUnavailable => {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const isLate = error instanceof Error && (error.name === 'TimeoutError' || error.name === 'AbortError')
  if (UNTRUSTED.test(code)) return unavailable('TRANSIT_UNTRUSTED')
  // The token is the only header that can have a character that no header may have.
  if (code === 'ERR_INVALID_CHAR') return failed('TRANSIT_DENIED')
  return isLate ? unavailable('TRANSIT_UNREACHABLE', 'timeout') : unavailable('TRANSIT_UNREACHABLE')
}

/** Statuses of errors. Source: https://openbao.org/api-docs/#http-status-codes. */
const FAILURES: Readonly<Record<number, string>> = {
  400: 'TRANSIT_REJECTED',
  403: 'TRANSIT_DENIED',
  404: 'TRANSIT_NOT_FOUND',
  503: 'TRANSIT_SEALED',
}

const Batch = Schema.Struct({
  data: Schema.Struct({
    batch_results: Schema.Array(
      Schema.Struct({
        ciphertext: Schema.optional(Schema.String),
        plaintext: Schema.optional(Schema.String),
        error: Schema.optional(Schema.String),
      }),
    ),
  }),
})
type Item = (typeof Batch.Type)['data']['batch_results'][number]

const LookedUp = Schema.Struct({
  data: Schema.Struct({
    ttl: Schema.Number,
    renewable: Schema.optional(Schema.Boolean),
    creation_ttl: Schema.optional(Schema.Number),
  }),
})
const Renewed = Schema.Struct({
  auth: Schema.Struct({ lease_duration: Schema.Number, renewable: Schema.Boolean }),
})

/** `vault:v<version>:<base64>`, also of OpenBao. */
const CIPHERTEXT = /^vault:v(?<version>[1-9]\d{0,8}):(?<bytes>[A-Za-z0-9+/]+=*)$/u

const toText = ({ bytes, version }: TransitCiphertext): string =>
  `vault:v${version}:${Buffer.from(bytes).toString('base64')}`
const ofText = (text: string): TransitCiphertext | null => {
  const { bytes, version } = CIPHERTEXT.exec(text)?.groups ?? {}
  return bytes === undefined ? null : { version: Number(version), bytes: Buffer.from(bytes, 'base64') }
}

/**
 * What the engine says about a ciphertext. It says so only in words; other words are about the key, for example
 * that it was deleted. Source: `DecryptWithFactory` in sdk/helper/keysutil/policy.go of OpenBao and Vault.
 */
const PROBLEMS: ReadonlyArray<readonly [words: RegExp, problem: DecryptionProblem]> = [
  // The server has no such version of the key, or decrypts with it no longer.
  [/too (?:new|old)/u, 'unknown_master_key'],
  [/invalid ciphertext|message authentication failed/u, 'damaged'],
]

interface Answer {
  readonly status: number
  readonly body: unknown
}

export const makeTransitClient = Effect.fnUntraced(function* (
  options: TransitOptions,
): Effect.fn.Return<TransitClient, never, Scope.Scope> {
  const { ca, key, mount, namespace, token, url } = options
  const base = url.replace(/\/+$/u, '')
  const isHttps = base.startsWith('https:')
  const agent = isHttps
    ? new HttpsAgent({ keepAlive: true, maxSockets: MAX_CONNECTIONS, ...(ca === null ? {} : { ca }) })
    : new HttpAgent({ keepAlive: true, maxSockets: MAX_CONNECTIONS })
  yield* Effect.addFinalizer(() => Effect.sync(() => agent.destroy()))

  const send = (
    method: string,
    path: string,
    secret: string,
    body: object | null,
    signal: AbortSignal,
  ): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const text = body === null ? '' : JSON.stringify(body)
      const request = (isHttps ? httpsRequest : httpRequest)(
        `${base}/v1/${path}`,
        {
          method,
          agent,
          signal,
          headers: {
            'X-Vault-Token': secret,
            'X-Vault-Request': 'true',
            ...(namespace === null ? {} : { 'X-Vault-Namespace': namespace }),
            ...(body === null ? {} : { 'Content-Type': 'application/json' }),
            'Content-Length': Buffer.byteLength(text),
          },
        },
        (response) => {
          const { statusCode: status = 0 } = response
          const parts: Array<Buffer> = []
          let size = 0
          response.on('data', (part: Buffer) => {
            size += part.length
            if (size <= MAX_ANSWER_BYTES) return parts.push(part)
            resolve({ status, body: null })
            return request.destroy()
          })
          response.on('error', reject)
          response.on('end', () => {
            const answer = Result.try((): unknown => JSON.parse(Buffer.concat(parts).toString('utf8')))
            resolve({ status, body: Result.getOrElse(answer, () => null) })
          })
        },
      )
      // The server may have closed a kept connection meanwhile. No operation does harm if it is repeated.
      request.on('error', (error) => {
        if (request.reusedSocket && !signal.aborted) resolve(send(method, path, secret, body, signal))
        else reject(error)
      })
      request.end(text)
    })

  /** The body of an answer of the given form, also of one with status 400. */
  const call = Effect.fnUntraced(function* <A>(
    method: 'GET' | 'POST',
    path: string,
    body: object | null,
    form: Schema.Codec<A, unknown>,
  ) {
    const secret = yield* token
    if (secret === null) return yield* failed('TRANSIT_DENIED')
    const { body: answer, status } = yield* Effect.tryPromise({
      try: (interrupted) =>
        send(
          method,
          path,
          Redacted.value(secret),
          body,
          AbortSignal.any([interrupted, AbortSignal.timeout(REQUEST_WITHIN_MS)]),
        ),
      catch: failureOf,
    })
    if (status !== 200 && status !== 400) {
      return yield* failed(FAILURES[status] ?? `TRANSIT_${status}`)
    }
    const read = Schema.decodeUnknownOption(form)(answer)
    if (Option.isSome(read)) return read.value
    return yield* failed(FAILURES[status] ?? 'TRANSIT_UNEXPECTED')
  })

  /** One request for at most `ITEMS_PER_REQUEST` items. Each has a result of its own. */
  const batch = (operation: 'encrypt' | 'decrypt' | 'rewrap', items: ReadonlyArray<object>) =>
    Effect.map(
      Effect.forEach(Arr.chunksOf(items, ITEMS_PER_REQUEST), (chunk) =>
        Effect.flatMap(
          call('POST', `${mount}/${operation}/${key}`, { batch_input: chunk }, Batch),
          ({ data: { batch_results: results } }) =>
            results.length === chunk.length
              ? Effect.succeed(results)
              : Effect.fail(failed('TRANSIT_UNEXPECTED')),
        ),
      ),
      (all) => all.flat(),
    )

  const isFailure = ({ error }: Item): boolean => error !== undefined && error !== ''
  const ciphertextOf = ({ ciphertext }: Item): TransitCiphertext | null => ofText(ciphertext ?? '')
  const plaintextOf = ({ plaintext }: Item): Buffer | null =>
    plaintext === undefined ? null : Buffer.from(plaintext, 'base64')

  /** The result for one ciphertext, or its problem. Fails if the engine has another problem than this ciphertext. */
  const resultOf =
    <A>(read: (item: Item) => A | null) =>
    (item: Item): Effect.Effect<Result.Result<A, DecryptionProblem>, StorageUnavailable> => {
      if (isFailure(item)) {
        const problem = PROBLEMS.find(([words]) => words.test(item.error ?? ''))?.[1]
        return problem === undefined
          ? Effect.fail(failed('TRANSIT_REJECTED'))
          : Effect.succeed(Result.fail(problem))
      }
      const result = read(item)
      return result === null
        ? Effect.fail(failed('TRANSIT_UNEXPECTED'))
        : Effect.succeed(Result.succeed(result))
    }
  const ofCiphertexts = <A>(
    operation: 'decrypt' | 'rewrap',
    ciphertexts: ReadonlyArray<TransitCiphertext>,
    read: (item: Item) => A | null,
  ) =>
    Effect.flatMap(
      batch(
        operation,
        ciphertexts.map((ciphertext) => ({ ciphertext: toText(ciphertext) })),
      ),
      Effect.forEach(resultOf(read)),
    )

  return {
    encrypt: (plain) =>
      Effect.flatMap(
        batch(
          'encrypt',
          plain.map((bytes) => ({ plaintext: Buffer.from(bytes).toString('base64') })),
        ),
        Effect.forEach((item) => {
          if (isFailure(item)) return Effect.fail(failed('TRANSIT_REJECTED'))
          const ciphertext = ciphertextOf(item)
          return ciphertext === null ? Effect.fail(failed('TRANSIT_UNEXPECTED')) : Effect.succeed(ciphertext)
        }),
      ),
    decrypt: (ciphertexts) => ofCiphertexts('decrypt', ciphertexts, plaintextOf),
    rewrap: (ciphertexts) => ofCiphertexts('rewrap', ciphertexts, ciphertextOf),
    lookUpToken: Effect.map(call('GET', 'auth/token/lookup-self', null, LookedUp), ({ data }) => ({
      ttlSeconds: data.ttl === 0 ? null : data.ttl,
      isRenewable: data.renewable ?? false,
      createdForSeconds: data.creation_ttl ?? null,
    })),
    renewToken: Effect.map(call('POST', 'auth/token/renew-self', {}, Renewed), ({ auth }) => ({
      ttlSeconds: auth.lease_duration === 0 ? null : auth.lease_duration,
      isRenewable: auth.renewable,
    })),
  }
})
