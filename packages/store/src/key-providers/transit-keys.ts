/**
 * The provider whose master key is in a transit engine (`transit-client.ts`), and never in this process.
 *
 * - A key is wrapped by the engine: `3 | version of the transit key (4) | bytes of the engine`.
 * - A value is encrypted with a data key, which the engine has wrapped: `3 | version (4) | length (2) | wrapped data
 *   key | AES-256-GCM`. Each process makes data keys of its own, and one is used for a day.
 *
 * What the engine encrypts ends with a digest of purpose and owner, which binds it like additional data. Additional
 * data of the engine itself is no help: its `rewrap` does not know it.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { Clock, Deferred, Duration, Effect, Result, type Scope, Semaphore } from 'effect'
import { decryptWithKey, encryptWithKey } from '../aes-gcm.ts'
import type { StorageUnavailable } from '../sql.ts'
import { DerivedKeys } from './derived-keys.ts'
import {
  DecryptionFailed,
  type DecryptionProblem,
  type EncryptionPurpose,
  isKeyPurpose,
  type KeyProvider,
  type KeyPurpose,
  type Owned,
  PREFIX_BYTES,
  type RecordedKey,
  TRANSIT_CHECK_VALUE,
} from './key-provider.port.ts'
import type { TransitCiphertext, TransitClient } from './transit-client.ts'

/** The first byte of a ciphertext. */
const BY_TRANSIT = 3
/** The length of a wrapped data key follows the prefix. */
const HEADER = PREFIX_BYTES + 2
const KEY = 32
const DIGEST = 32

/** AES-256-GCM permits 2^32 values for a key with random nonces: 49,000 each second of a day. */
const DATA_KEY_USED_FOR = Duration.toMillis('1 day')
/** Data keys in memory: those of a year of one process, or of a month of twelve. */
const CACHED_DATA_KEYS = 365
/** How often the age of the data key is checked. It stays in use while the engine does not answer. */
const CHECK_EVERY = Duration.hours(1)
/** How often `identify` asks whether the server still has the key: as often as a process looks at its Kafka cluster. */
const CHECK_KEY_EVERY = Duration.toMillis('1 minute')

type Purpose = KeyPurpose | 'data-key' | 'check-key'

const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

const bindingOf = (purpose: Purpose, aad: string): Buffer =>
  createHash('sha256').update(`sms-delivery-hub/${purpose}\n${aad}`).digest()

const prefixOf = (version: number): Buffer => {
  const prefix = Buffer.alloc(PREFIX_BYTES)
  prefix.writeUInt8(BY_TRANSIT)
  prefix.writeUInt32BE(version, 1)
  return prefix
}
const made = ([first]: Uint8Array): boolean => first === BY_TRANSIT

const toBytes = ({ bytes, version }: TransitCiphertext): Buffer => Buffer.concat([prefixOf(version), bytes])
/** `null`: no wrapped key has this form. */
const ofBytes = (ciphertext: Uint8Array): TransitCiphertext | null => {
  if (!made(ciphertext) || ciphertext.length <= PREFIX_BYTES) return null
  const version = Buffer.from(ciphertext.subarray(0, PREFIX_BYTES)).readUInt32BE(1)
  // Versions begin at 1. The engine would take 0 as 1.
  if (version === 0) return null
  return { version, bytes: ciphertext.subarray(PREFIX_BYTES) }
}

/** The wrapped data key and the rest of a value; `null`: it is too short. */
const partsOf = (value: Uint8Array) => {
  if (!made(value) || value.length < HEADER) return null
  const end = HEADER + Buffer.from(value.subarray(PREFIX_BYTES, HEADER)).readUInt16BE(0)
  if (value.length < end || end === HEADER) return null
  return {
    wrapped: Buffer.concat([value.subarray(0, PREFIX_BYTES), value.subarray(HEADER, end)]),
    header: value.subarray(0, end),
    rest: value.subarray(end),
  }
}
/** The first bytes of a value under a data key. */
const headerOf = (wrapped: Uint8Array): Buffer => {
  const length = Buffer.alloc(2)
  length.writeUInt16BE(wrapped.length - PREFIX_BYTES)
  return Buffer.concat([wrapped.subarray(0, PREFIX_BYTES), length, wrapped.subarray(PREFIX_BYTES)])
}

/** A data key in use. */
interface DataKey {
  readonly keys: DerivedKeys
  /** The first bytes of each value under it. */
  readonly header: Buffer
  readonly version: number
  readonly at: number
}

const checkValueOf = (checkKey: Uint8Array): string =>
  `${TRANSIT_CHECK_VALUE}${new DerivedKeys(checkKey).checkValue}`

export const makeTransitKeys = Effect.fnUntraced(function* (
  transit: TransitClient,
): Effect.fn.Return<KeyProvider, never, Scope.Scope> {
  const scope = yield* Effect.scope

  const wrapBytes = (purpose: Purpose, keys: ReadonlyArray<Owned>) =>
    Effect.map(
      transit.encrypt(keys.map(({ aad, bytes }) => Buffer.concat([bytes, bindingOf(purpose, aad)]))),
      (all) => all.map(toBytes),
    )

  const opened = (
    purpose: Purpose,
    aad: string,
    plain: Result.Result<Buffer, DecryptionProblem>,
  ): Result.Result<Buffer, DecryptionProblem> =>
    Result.flatMap(plain, (bytes) =>
      bytes.length === KEY + DIGEST && timingSafeEqual(bytes.subarray(KEY), bindingOf(purpose, aad))
        ? Result.succeed(bytes.subarray(0, KEY))
        : Result.fail('damaged' as const),
    )

  /** As the engine says it. */
  const decryptBytes = Effect.fnUntraced(function* (purpose: Purpose, wrapped: ReadonlyArray<Owned>) {
    const ciphertexts = wrapped.map(({ bytes }) => ofBytes(bytes))
    const plain = yield* transit.decrypt(ciphertexts.filter((ciphertext) => ciphertext !== null))
    let next = 0
    return wrapped.map(({ aad }, index) =>
      ciphertexts[index] === null
        ? Result.fail<DecryptionProblem>('damaged')
        : opened(purpose, aad, plain[next++] ?? Result.fail('damaged')),
    )
  })

  /** The check key of this transit key, and which check keys are of others. */
  let own: RecordedKey | null = null
  let ownCheckedAt = 0
  const foreign = new Set<string>()
  /** `null`: the check key is of the transit key. `damaged`: it is of another one. */
  const problemOf = Effect.fnUntraced(function* ({ checkValue, wrappedCheckKey }: RecordedKey) {
    if (wrappedCheckKey === null) return 'damaged'
    const [result] = yield* decryptBytes('check-key', [{ aad: '', bytes: wrappedCheckKey }])
    if (result === undefined) return 'damaged'
    if (Result.isFailure(result)) return result.failure
    return checkValueOf(result.success) === checkValue ? null : 'damaged'
  })

  /**
   * Callers give up what is damaged. A server with another key would call everything damaged, so its word counts
   * only if it opens the check key of this process, too.
   */
  const unwrapBytes = Effect.fnUntraced(function* (purpose: Purpose, wrapped: ReadonlyArray<Owned>) {
    const results = yield* decryptBytes(purpose, wrapped)
    const isDamaged = (result: (typeof results)[number]) =>
      Result.isFailure(result) && result.failure === 'damaged'
    if (own === null || !results.some(isDamaged) || (yield* problemOf(own)) === null) return results
    return results.map((result) =>
      isDamaged(result) ? Result.fail<DecryptionProblem>('unknown_master_key') : result,
    )
  })

  /** Many messages under a new key arrive at once: they share one request, which no interruption ends. */
  const requests = new Map<
    string,
    Deferred.Deferred<Result.Result<Buffer, DecryptionProblem>, StorageUnavailable>
  >()
  const unwrapOne = (purpose: Purpose, owned: Owned) =>
    // An interruption between the entry and its request would leave an entry that nothing ends.
    Effect.uninterruptibleMask((restore) => {
      const id = `${purpose} ${owned.aad} ${hexOf(owned.bytes)}`
      const running = requests.get(id)
      if (running !== undefined) return restore(Deferred.await(running))
      const answer = Deferred.makeUnsafe<Result.Result<Buffer, DecryptionProblem>, StorageUnavailable>()
      requests.set(id, answer)
      return Effect.map(
        unwrapBytes(purpose, [owned]),
        ([result = Result.fail<DecryptionProblem>('damaged')]) => result,
      ).pipe(
        Effect.onExit((exit) =>
          Effect.suspend(() => {
            requests.delete(id)
            return Deferred.done(answer, exit)
          }),
        ),
        Effect.forkIn(scope),
        Effect.andThen(restore(Deferred.await(answer))),
      )
    })

  let held: DataKey | null = null
  /** By the header of their values. */
  const dataKeys = new Map<string, DerivedKeys>()
  const remember = (header: Uint8Array, keys: DerivedKeys): DerivedKeys => {
    const [oldest] = dataKeys.keys()
    if (oldest !== undefined && dataKeys.size >= CACHED_DATA_KEYS) dataKeys.delete(oldest)
    dataKeys.set(hexOf(header), keys)
    return keys
  }

  const refreshing = yield* Semaphore.make(1)
  /** Makes a data key, and uses it if the last one is too old or under another version of the transit key. */
  const refresh = refreshing.withPermits(1)(
    Effect.gen(function* () {
      const secret = randomBytes(KEY)
      const [wrapped] = yield* wrapBytes('data-key', [{ aad: '', bytes: secret }])
      const version = ofBytes(wrapped!)!.version
      const at = yield* Clock.currentTimeMillis
      if (held?.version === version && at - held.at < DATA_KEY_USED_FOR) return held
      held = { keys: new DerivedKeys(secret), header: headerOf(wrapped!), version, at }
      remember(held.header, held.keys)
      return held
    }),
  )

  const dataKeyOf = Effect.fnUntraced(function* (header: Uint8Array, wrapped: Buffer) {
    const known = dataKeys.get(hexOf(header))
    if (known !== undefined) return Result.succeed(known)
    return Result.map(yield* unwrapOne('data-key', { aad: '', bytes: wrapped }), (secret) =>
      remember(header, new DerivedKeys(secret)),
    )
  })

  const decrypt = Effect.fnUntraced(function* (
    purpose: EncryptionPurpose,
    aad: string,
    ciphertext: Uint8Array,
  ) {
    const parts = partsOf(ciphertext)
    if (parts === null) return Result.fail<DecryptionProblem>('damaged')
    return Result.flatMap(yield* dataKeyOf(parts.header, parts.wrapped), (keys) => {
      const plain = decryptWithKey(keys.keyOf(purpose), aad, parts.rest)
      return plain === null ? Result.fail<DecryptionProblem>('damaged') : Result.succeed(plain)
    })
  })

  const identifying = yield* Semaphore.make(1)
  const isOwn = Effect.fnUntraced(function* (key: RecordedKey) {
    if (foreign.has(key.checkValue)) return false
    const isRight = (yield* problemOf(key)) === null
    if (!isRight) foreign.add(key.checkValue)
    return isRight
  })
  /** Looks now and then whether the server still has the key. While it does not say so, nothing changes. */
  const isStillOwn = Effect.fnUntraced(function* (key: RecordedKey) {
    const now = yield* Clock.currentTimeMillis
    if (now - ownCheckedAt < CHECK_KEY_EVERY) return true
    ownCheckedAt = now
    return yield* Effect.match(problemOf(key), {
      onSuccess: (problem) => problem !== 'damaged',
      onFailure: () => true,
    })
  })
  const makeCheckKey = Effect.gen(function* () {
    const secret = randomBytes(KEY)
    const [wrapped] = yield* wrapBytes('check-key', [{ aad: '', bytes: secret }])
    return { checkValue: checkValueOf(secret), wrappedCheckKey: wrapped! }
  })

  yield* Effect.sleep(CHECK_EVERY).pipe(
    Effect.andThen(
      Effect.suspend(() =>
        held === null
          ? Effect.void
          : Effect.catch(Effect.asVoid(refresh), (error) =>
              Effect.logDebug('transit engine: the data key stays in use', error),
            ),
      ),
    ),
    Effect.forever,
    Effect.forkScoped,
  )

  return {
    made,
    ready: Effect.suspend(() => (held === null ? Effect.asVoid(refresh) : Effect.void)),
    encrypt: (purpose, aad, plain) => {
      if (held === null) throw new Error('The transit engine has not answered yet')
      return Buffer.concat([held.header, encryptWithKey(held.keys.keyOf(purpose), aad, plain)])
    },
    decrypt: (purpose, aad, ciphertext) =>
      Effect.flatMap(decrypt(purpose, aad, ciphertext), (result) =>
        Effect.mapError(Effect.fromResult(result), (reason) => new DecryptionFailed({ purpose, reason })),
      ),
    wrap: wrapBytes,
    unwrap: (purpose, wrapped) => {
      const [first, ...others] = wrapped
      return first !== undefined && others.length === 0
        ? Effect.map(unwrapOne(purpose, first), (result) => [result])
        : unwrapBytes(purpose, wrapped)
    },
    currentPrefix: Effect.map(refresh, ({ version }) => prefixOf(version)),
    renew: Effect.fnUntraced(function* (purpose, ciphertexts) {
      const all = ciphertexts.map((bytes) =>
        purpose === 'check-key' || isKeyPurpose(purpose) ? { wrapped: bytes, rest: null } : partsOf(bytes),
      )
      // Values share data keys, so there are fewer of them.
      const wrapped = new Map(
        all.flatMap((part) => (part === null ? [] : [[hexOf(part.wrapped), part.wrapped]])),
      )
      const readable = [...wrapped].flatMap(([id, bytes]) => {
        const ciphertext = ofBytes(bytes)
        return ciphertext === null ? [] : [{ id, ciphertext }]
      })
      const renewed = yield* transit.rewrap(readable.map(({ ciphertext }) => ciphertext))
      const newest = new Map(readable.map(({ id }, index) => [id, renewed[index]]))
      return all.map((part) => {
        const result = part === null ? undefined : newest.get(hexOf(part.wrapped))
        if (part === null || result === undefined || Result.isFailure(result)) return null
        const bytes = toBytes(result.success)
        return part.rest === null ? bytes : Buffer.concat([headerOf(bytes), part.rest])
      })
    }),
    identify: (recorded) =>
      identifying.withPermits(1)(
        Effect.gen(function* () {
          // Another process may have wrapped it again.
          let found = recorded.find(({ checkValue }) => checkValue === own?.checkValue) ?? null
          if (found !== null && !(yield* isStillOwn(found))) found = own = null
          for (const key of found === null ? recorded : []) {
            if (!(yield* isOwn(key))) continue
            found = key
            ownCheckedAt = yield* Clock.currentTimeMillis
            break
          }
          own = found ?? own ?? (yield* makeCheckKey)
          return [{ ...own, made }]
        }),
      ),
  }
})
