/**
 * Encryption at rest under the master key, which no database stores: the one place that chooses its provider
 * (`HUB_KEY_PROVIDER`). New ciphertexts are under the key of this provider. Every ciphertext names its provider, so
 * those of other configured keys can be decrypted too.
 *
 * To change the master key, or its provider: give every process the new one for decryption. Then exchange the
 * settings. Then wait until the log says that the previous key is no longer needed (`reencryptColumn`).
 */
import { caFileConfig, NOT_SET, settingError, settings } from '@hub/config'
import { Config, ConfigProvider, Context, Effect, Layer, Redacted, Result, type Scope } from 'effect'
import { makeConfiguredKeys } from './key-providers/configured-keys.ts'
import {
  DecryptionFailed,
  type DecryptionProblem,
  type EncryptionPurpose,
  isKeyPurpose,
  type KeyProvider,
  type Owned,
  type RecordedKey,
} from './key-providers/key-provider.port.ts'
import { makeTransitClient } from './key-providers/transit-client.ts'
import { makeTransitKeys } from './key-providers/transit-keys.ts'
import { keepToken } from './key-providers/transit-token.ts'
import type { StorageUnavailable } from './sql.ts'

export class MasterKeyEncryption extends Context.Service<
  MasterKeyEncryption,
  /**
   * Encrypts under the current key, and decrypts under each key of this process. `ready` and `currentPrefix` are of
   * the current key. A process proves that it belongs to its hub before it encrypts, and waits for `ready` then.
   */
  Pick<KeyProvider, 'encrypt' | 'decrypt' | 'wrap' | 'unwrap' | 'currentPrefix' | 'identify' | 'ready'> & {
    /** Puts ciphertexts under the current key. `null`: no configured key decrypts the ciphertext. */
    readonly reencrypt: (
      purpose: EncryptionPurpose,
      ciphertexts: ReadonlyArray<Owned>,
    ) => Effect.Effect<ReadonlyArray<Buffer | null>, StorageUnavailable>
    /** Puts the wrapped check key of a recorded key under its newest version; `null`: it is not of the current key. */
    readonly renewCheckKey: (key: RecordedKey) => Effect.Effect<Buffer | null, StorageUnavailable>
    /**
     * Which ciphertexts under other keys may exist. `always`: the current key gets new versions without a change of
     * settings. `now`: there are previous keys in the settings.
     */
    readonly olderCiphertexts: 'never' | 'now' | 'always'
  }
>()('@hub/store/MasterKeyEncryption') {
  /** Settings: `keyProvider`, `masterKey`, `previousMasterKeys`, and those of the transit engine. */
  static readonly layer: Layer.Layer<MasterKeyEncryption, Config.ConfigError> = Layer.effect(
    MasterKeyEncryption,
    Effect.gen(function* () {
      const choice = yield* settings.keyProvider.config
      const configured = yield* configuredKeys(choice === 'environment')
      const transit = yield* transitKeys
      if (choice === 'environment') {
        const hasOthers = configured.hasPrevious || transit !== null
        return encryptionOf(
          configured.provider,
          transit === null ? [] : [transit],
          hasOthers ? 'now' : 'never',
        )
      }
      if (transit === null) return yield* Effect.fail(settingError(settings.transitUrl, NOT_SET))
      return encryptionOf(transit, [configured.provider], 'always')
    }),
  )
}

/** The keys of the settings. `isCurrent`: the first one is `HUB_MASTER_KEY`. */
const configuredKeys = Effect.fnUntraced(function* (isCurrent: boolean) {
  const current = isCurrent ? yield* settings.masterKey.config : null
  if (isCurrent && current === null) return yield* Effect.fail(settingError(settings.masterKey, NOT_SET))
  const others = yield* settings.previousMasterKeys.config
  const previous = others === null ? [] : Redacted.value(others)
  const provider = makeConfiguredKeys([...(current === null ? [] : [Redacted.value(current)]), ...previous])
  return { provider, hasPrevious: previous.length > 0 }
})

/** `null`: no transit engine is configured. */
const transitKeys: Effect.Effect<KeyProvider | null, Config.ConfigError, Scope.Scope> = Effect.gen(
  function* () {
    const url = yield* settings.transitUrl.config
    if (url === null) return null
    const key = yield* settings.transitKeyName.config
    if (key === null) return yield* Effect.fail(settingError(settings.transitKeyName, NOT_SET))
    const provider = yield* ConfigProvider.ConfigProvider
    let last = yield* settings.transitToken.config
    if (last === null) return yield* Effect.fail(settingError(settings.transitToken, NOT_SET))
    const client = yield* makeTransitClient({
      url,
      key,
      mount: yield* settings.transitMount.config,
      namespace: yield* settings.transitNamespace.config,
      ca: yield* caFileConfig(settings.transitCaFile),
      // Reads the file again. While another program replaces it, the last token stays in use.
      token: Effect.map(
        Effect.orElseSucceed(settings.transitToken.config.parse(provider), () => null),
        (read) => (last = read ?? last),
      ),
    })
    yield* Effect.forkScoped(keepToken(client))
    return yield* makeTransitKeys(client)
  },
)

/** `current` encrypts. The others only decrypt. */
const encryptionOf = (
  current: KeyProvider,
  others: ReadonlyArray<KeyProvider>,
  olderCiphertexts: MasterKeyEncryption['Service']['olderCiphertexts'],
): MasterKeyEncryption['Service'] => {
  const providers = [current, ...others]
  const providerOf = (ciphertext: Uint8Array) => providers.find(({ made }) => made(ciphertext))

  const decrypt: MasterKeyEncryption['Service']['decrypt'] = (purpose, aad, ciphertext) =>
    providerOf(ciphertext)?.decrypt(purpose, aad, ciphertext) ??
    Effect.fail(new DecryptionFailed({ purpose, reason: 'unknown_master_key' }))

  /** Gives each provider its own items at once. An item of none has the result `otherwise`. */
  const byProvider = <A>(
    items: ReadonlyArray<Owned>,
    otherwise: A,
    call: (
      provider: KeyProvider,
      own: ReadonlyArray<Owned>,
    ) => Effect.Effect<ReadonlyArray<A>, StorageUnavailable>,
  ): Effect.Effect<ReadonlyArray<A>, StorageUnavailable> =>
    Effect.gen(function* () {
      const results = items.map(() => otherwise)
      for (const provider of providers) {
        const own = items.flatMap((item, index) =>
          providerOf(item.bytes) === provider ? [{ item, index }] : [],
        )
        if (own.length === 0) continue
        const answers = yield* call(
          provider,
          own.map(({ item }) => item),
        )
        own.forEach(({ index }, at) => (results[index] = answers[at] ?? otherwise))
      }
      return results
    })

  const unwrap: MasterKeyEncryption['Service']['unwrap'] = (purpose, wrapped) =>
    byProvider(
      wrapped,
      Result.fail<DecryptionProblem>('unknown_master_key') as Result.Result<Buffer, DecryptionProblem>,
      (provider, own) => provider.unwrap(purpose, own),
    )

  /** Decrypts and encrypts. */
  const replace = Effect.fnUntraced(function* (
    purpose: EncryptionPurpose,
    ciphertexts: ReadonlyArray<Owned>,
  ) {
    if (!isKeyPurpose(purpose)) {
      return yield* Effect.forEach(ciphertexts, ({ aad, bytes }) =>
        decrypt(purpose, aad, bytes).pipe(
          Effect.map((plain) => current.encrypt(purpose, aad, plain)),
          Effect.catchTag('DecryptionFailed', () => Effect.succeed(null)),
        ),
      )
    }
    const plain = yield* unwrap(purpose, ciphertexts)
    const readable = plain.flatMap((result, index) =>
      Result.isSuccess(result)
        ? [{ index, key: { aad: ciphertexts[index]!.aad, bytes: result.success } }]
        : [],
    )
    const wrapped = yield* current.wrap(
      purpose,
      readable.map(({ key }) => key),
    )
    const results: Array<Buffer | null> = ciphertexts.map(() => null)
    readable.forEach(({ index }, at) => (results[index] = wrapped[at] ?? null))
    return results
  })

  return {
    encrypt: current.encrypt,
    decrypt,
    wrap: current.wrap,
    unwrap,
    reencrypt: (purpose, ciphertexts) =>
      byProvider<Buffer | null>(ciphertexts, null, (provider, own) =>
        provider === current && current.renew !== undefined
          ? current.renew(
              purpose,
              own.map(({ bytes }) => bytes),
            )
          : replace(purpose, own),
      ),
    renewCheckKey: ({ wrappedCheckKey }) =>
      wrappedCheckKey === null || current.renew === undefined
        ? Effect.succeed(null)
        : Effect.map(current.renew('check-key', [wrappedCheckKey]), ([renewed]) => renewed ?? null),
    currentPrefix: current.currentPrefix,
    identify: (recorded) =>
      Effect.map(
        Effect.forEach(providers, ({ identify }) => identify(recorded)),
        (keys) => keys.flat(),
      ),
    ready: current.ready,
    olderCiphertexts,
  }
}
