/**
 * The port of the master key. A provider encrypts under a master key, which it may have itself
 * (`configured-keys.ts`) or which another server has (`transit-keys.ts`). `master-key-encryption.ts` chooses.
 *
 * Values are encrypted at once, without a wait, because the statements of a transaction contain them. Keys are
 * wrapped by the master key itself, which may be a request to another server.
 */
import { Data, type Effect, type Result } from 'effect'
import type { StorageUnavailable } from '../sql.ts'

/** What a master key encrypts. These texts are part of the key derivation and must not change. */
export type ValuePurpose =
  | 'webhook-secret'
  | 'webhook-headers'
  | 'webhook-client-certificate'
  | 'personal-data'
  | 'idempotent-answer'
  // A sign-in of hub staff in progress, and the id token of their session.
  | 'pending-login'
  | 'id-token'

/** Which keys a master key wraps: one in `command.sealing_keys`, or one in the topics of the payload keys. */
export type KeyPurpose = 'sealing-key' | 'payload-key'

const KEY_PURPOSES: ReadonlySet<string> = new Set<KeyPurpose>(['sealing-key', 'payload-key'])
export const isKeyPurpose = (purpose: string): purpose is KeyPurpose => KEY_PURPOSES.has(purpose)

export type EncryptionPurpose = ValuePurpose | KeyPurpose

/** `aad`: the public id of the owner, to which the ciphertext is bound. */
export interface Owned {
  readonly aad: string
  readonly bytes: Uint8Array
}

/**
 * `unknown_master_key`: this process does not have its master key. `damaged`: the key is right, and the
 * bytes, the purpose or the row are not, so every process fails in the same way. Callers may give up what is
 * damaged, so a provider that is not sure fails with `StorageUnavailable` or says `unknown_master_key`.
 */
export type DecryptionProblem = 'unknown_master_key' | 'damaged'

/**
 * The ciphertext cannot be decrypted in this process. That does not prove that it is unreadable for
 * ever: another process may have its master key. Only a key that retention has destroyed proves it;
 * `PayloadEncryption.decrypt` returns `null` for that.
 */
export class DecryptionFailed extends Data.TaggedError('DecryptionFailed')<{
  readonly purpose: string
  readonly reason: DecryptionProblem
}> {}

/** The length of the first bytes of every ciphertext, which name its master key. */
export const PREFIX_BYTES = 5

/** Begins the check value of a key in a transit engine, so that the proof can say which setting is wrong. */
export const TRANSIT_CHECK_VALUE = 'transit:'

/** A master key, as the database of the hub records it. */
export interface RecordedKey {
  /** Proves that two processes have the same key. It is not the key. */
  readonly checkValue: string
  /** A check key, wrapped by this master key; `null`: the check value is derived from the key itself. */
  readonly wrappedCheckKey: Uint8Array | null
}

/** A master key that this process can use. */
export interface UsableKey extends RecordedKey {
  /** Whether the first bytes are those of a ciphertext under this key. */
  readonly made: (prefix: Uint8Array) => boolean
}

/** Every effect has a deadline. `StorageUnavailable`: the server with the master key does not answer now. */
export interface KeyProvider {
  /** Whether the first bytes are those of a ciphertext of this kind of provider. */
  readonly made: (prefix: Uint8Array) => boolean
  /** Succeeds when `encrypt` can be used. Providers with the key itself are always ready. */
  readonly ready: Effect.Effect<void, StorageUnavailable>
  readonly encrypt: (purpose: ValuePurpose, aad: string, plain: Uint8Array) => Buffer
  readonly decrypt: (
    purpose: ValuePurpose,
    aad: string,
    ciphertext: Uint8Array,
  ) => Effect.Effect<Buffer, DecryptionFailed | StorageUnavailable>
  /** Encrypts keys of 32 bytes. The results are in the order of the keys. */
  readonly wrap: (
    purpose: KeyPurpose,
    keys: ReadonlyArray<Owned>,
  ) => Effect.Effect<ReadonlyArray<Buffer>, StorageUnavailable>
  readonly unwrap: (
    purpose: KeyPurpose,
    wrapped: ReadonlyArray<Owned>,
  ) => Effect.Effect<ReadonlyArray<Result.Result<Buffer, DecryptionProblem>>, StorageUnavailable>
  /**
   * The first bytes of every new ciphertext. Ciphertexts of this provider with others are under an earlier version
   * of its key.
   */
  readonly currentPrefix: Effect.Effect<Buffer, StorageUnavailable>
  /**
   * Puts own ciphertexts, or wrapped check keys, under the newest version of the key. `null`: the ciphertext cannot
   * be decrypted. Absent: the key has no versions.
   */
  readonly renew?: (
    purpose: EncryptionPurpose | 'check-key',
    ciphertexts: ReadonlyArray<Uint8Array>,
  ) => Effect.Effect<ReadonlyArray<Buffer | null>, StorageUnavailable>
  /** The keys, the current one first. `recorded`: the keys of the hub. */
  readonly identify: (
    recorded: ReadonlyArray<RecordedKey>,
  ) => Effect.Effect<ReadonlyArray<UsableKey>, StorageUnavailable>
}

/** Why a payload key cannot be used. `not_found`: it should exist, but nobody has it. */
export const PAYLOAD_KEY_PROBLEMS = ['unknown_master_key', 'damaged', 'not_found'] as const
export type PayloadKeyProblem = (typeof PAYLOAD_KEY_PROBLEMS)[number]

/** A payload key that was not destroyed cannot be used now. A later attempt may succeed. */
export class PayloadKeyUnusable extends Data.TaggedError('PayloadKeyUnusable')<{
  readonly keyId: string
  readonly reason: PayloadKeyProblem
}> {}
