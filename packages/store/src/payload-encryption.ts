/**
 * Payload encryption: Kafka and the ledger contain recipient number and text only encrypted under
 * short-lived payload keys, which `message-keys.ts` keeps in Kafka. `command.sealing_keys` stores
 * the keys of reports and of data at rest. All are wrapped by the master key.
 *
 * A key is destroyed when its messages can no longer be submitted, or when their retention ends.
 * Then its ciphertexts are unreadable.
 */
import { createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import type { MessageClass } from '@hub/domain'
import { PAYLOAD_KEY_PERIODS, type PayloadKeyTopics } from '@hub/kafka'
import { Clock, Context, Effect, Layer, Result, Semaphore } from 'effect'
import { decryptWithKey, encryptWithKey } from './aes-gcm.ts'
import { recordKeyAge } from './key-age.ts'
import { DecryptionFailed, PayloadKeyUnusable } from './key-providers/key-provider.port.ts'
import { MasterKeyEncryption } from './master-key-encryption.ts'
import { isMessageKey, makeMessageKeys } from './message-keys.ts'
import { Sql, type StorageError } from './sql.ts'

/** Payloads of a class, reports and inbound messages (`report`), or data at rest (`personal`). */
export type PayloadKeyPurpose = 'otp' | 'service' | 'report' | 'personal'

/** The purposes whose keys PostgreSQL stores. */
type StoredPurpose = Exclude<PayloadKeyPurpose, MessageClass>

const HOUR = 3_600_000
const DAY = 24 * HOUR

/** How long one key encrypts new data, ms. Data that is kept for months is destroyed to the day. */
const USED_FOR: Record<StoredPurpose, number> = {
  report: DAY,
  personal: DAY,
}

/**
 * When a key is destroyed, from the end of its use; both in ms since the epoch. Raw operator
 * reports and inbound messages: 90 days. Numbers and texts: one year (RET-1; docs/security.md, Retention).
 */
const DESTROYED_AT: Record<StoredPurpose, (usableUntil: number) => number> = {
  report: (end) => end + 90 * DAY,
  personal: (end) => {
    const date = new Date(end)
    return date.setUTCFullYear(date.getUTCFullYear() + 1)
  },
}

/**
 * Reports are kept for months but must be erasable for one recipient. So recipients are divided
 * into shares, and each share has its own `report` key. An erasure then also destroys the reports
 * of 1/256 of the other recipients, at most 90 days of them (docs/decisions/erasure.md).
 */
export const RECIPIENT_SHARES = 256

/** The share of a recipient hash (hexadecimal). The shares are even, because the hash is. */
export const recipientShareOf = (recipient: string): number =>
  // Text that is not hexadecimal falls into share 0.
  (Number.parseInt(recipient.slice(0, 2), 16) || 0) % RECIPIENT_SHARES

/** Enough for the `personal` keys of a year and the `report` keys in use. */
const CACHE_SIZE = 1024

/** How long the cache uses a key without a check in PostgreSQL that nobody has destroyed it. */
const CACHED_FOR = HOUR

interface KeyRow {
  readonly id: string
  readonly wrapped: Buffer
  readonly destroy_after: Date
}

/** Times in ms since the epoch. */
interface CachedKey {
  readonly key: KeyObject
  /** When the key is checked in PostgreSQL again. */
  readonly until: number
  readonly destroyedAt: number
  /** The row of the key had these bytes. */
  readonly wrapped: Buffer
}

/** A payload key in use. */
export interface PayloadKey {
  readonly id: string
  /** When a new key replaces it for new payloads, ms since the epoch. */
  readonly usableUntil: number
  /** `aad` names the owner: the message id; for reports see the report sink. */
  readonly encrypt: (aad: string, plain: Uint8Array) => Buffer
}

export class PayloadEncryption extends Context.Service<
  PayloadEncryption,
  {
    /**
     * The key for new payloads of a purpose. Creates it for a new period. For messages, it fails
     * without Kafka when the last key is too old (docs/decisions/encryption.md#payload-keys).
     */
    readonly currentKey: (
      purpose: PayloadKeyPurpose,
    ) => Effect.Effect<PayloadKey, StorageError | PayloadKeyUnusable>
    /**
     * Decrypts a payload. Returns `null` when the key was destroyed: only then is the payload unreadable
     * for ever. Fails with `PayloadKeyUnusable` when the key cannot be used now, and with
     * `DecryptionFailed` when the key is right and the ciphertext is not.
     */
    readonly decrypt: (
      keyId: string,
      aad: string,
      ciphertext: Uint8Array,
    ) => Effect.Effect<Buffer | null, StorageError | PayloadKeyUnusable | DecryptionFailed>
    /** The `personal` key for messages of a time (ms); `null` if that is over a year ago. */
    readonly keyOfDay: (at: number) => Effect.Effect<PayloadKey | null, StorageError | PayloadKeyUnusable>
    /** The `report` keys of today, indexed by `recipientShareOf`. */
    readonly recipientShareKeys: Effect.Effect<ReadonlyArray<PayloadKey>, StorageError | PayloadKeyUnusable>
    /**
     * Keeps keys for new messages ready, and those of other processes known, so that an outage of
     * Kafka stops neither sends nor reads. Never ends.
     */
    readonly keepReady: Effect.Effect<never>
  }
>()('@hub/store/PayloadEncryption') {
  static readonly layer: Layer.Layer<PayloadEncryption, never, Sql | MasterKeyEncryption | PayloadKeyTopics> =
    Layer.effect(
      PayloadEncryption,
      Effect.gen(function* () {
        const sql = yield* Sql
        const masterKey = yield* MasterKeyEncryption
        const messageKeys = yield* makeMessageKeys
        const cache = new Map<string, CachedKey>()
        // When a period ends, concurrent callers create its key with one query.
        const creation = yield* Semaphore.make(1)

        const remember = (id: string, entry: CachedKey): KeyObject => {
          cache.delete(id)
          if (cache.size >= CACHE_SIZE) {
            const oldest = cache.keys().next().value
            if (oldest !== undefined) cache.delete(oldest)
          }
          cache.set(id, entry)
          return entry.key
        }

        /** Unwraps all keys at once. One that was only checked again is not unwrapped again. */
        const unwrap = Effect.fnUntraced(function* (rows: ReadonlyArray<KeyRow>) {
          const keys = new Map<string, KeyObject>()
          const unknown: Array<KeyRow> = []
          const now = yield* Clock.currentTimeMillis
          const use = (row: KeyRow, key: KeyObject) => {
            const destroyedAt = row.destroy_after.getTime()
            const until = Math.min(destroyedAt, now + CACHED_FOR)
            keys.set(row.id, remember(row.id, { key, until, destroyedAt, wrapped: row.wrapped }))
          }
          for (const row of rows) {
            const entry = cache.get(row.id)
            if (row.destroy_after.getTime() <= now) continue
            if (entry?.wrapped.equals(row.wrapped) === true) use(row, entry.key)
            else unknown.push(row)
          }
          if (unknown.length === 0) return keys
          const opened = yield* masterKey.unwrap(
            'sealing-key',
            unknown.map(({ id, wrapped }) => ({ aad: id, bytes: wrapped })),
          )
          for (const [index, row] of unknown.entries()) {
            const result = opened[index]
            if (result === undefined || Result.isFailure(result)) {
              return yield* new PayloadKeyUnusable({ keyId: row.id, reason: result?.failure ?? 'damaged' })
            }
            use(row, createSecretKey(result.success))
          }
          return keys
        })

        const load = Effect.fnUntraced(function* (ids: ReadonlyArray<string>) {
          const rows = yield* sql.run(
            (q) => q<KeyRow[]>`
            SELECT id, wrapped, destroy_after FROM command.sealing_keys WHERE id = ANY (${[...ids]})`,
          )
          for (const id of ids) if (!rows.some((row) => row.id === id)) cache.delete(id)
          return yield* unwrap(rows)
        })

        /** A key from the cache, which never keeps a key beyond `destroy_after`. */
        const cached = (id: string, now: number): KeyObject | null => {
          const entry = cache.get(id)
          if (entry === undefined) return null
          if (entry.destroyedAt <= now) cache.delete(id)
          return entry.until > now ? entry.key : null
        }

        const keyById = Effect.fnUntraced(function* (id: string) {
          if (isMessageKey(id)) return yield* messageKeys.byId(id)
          const key = cached(id, yield* Clock.currentTimeMillis)
          return key ?? (yield* load([id])).get(id) ?? null
        })

        /** Creates missing keys of the period that begins at `start`. Returns all by id. */
        const create = Effect.fnUntraced(function* (
          purpose: StoredPurpose,
          start: number,
          wanted: ReadonlyArray<{ readonly id: string; readonly share: number | null }>,
        ) {
          const usableUntil = start + USED_FOR[purpose]
          const ids = wanted.map(({ id }) => id)
          // Another process may have created them. Then no new key is necessary.
          const existing = yield* load(ids)
          const missing = wanted.filter(({ id }) => !existing.has(id))
          if (missing.length === 0) return existing
          const wrapped = yield* masterKey.wrap(
            'sealing-key',
            missing.map(({ id }) => ({ aad: id, bytes: randomBytes(32) })),
          )
          const rows = missing.map(({ id, share }, index) => ({
            id,
            class: purpose,
            wrapped: wrapped[index]!,
            usable_until: new Date(usableUntil),
            destroy_after: new Date(DESTROYED_AT[purpose](usableUntil)),
            share,
          }))
          yield* sql.run((q) => q`INSERT INTO command.sealing_keys ${q(rows)} ON CONFLICT (id) DO NOTHING`)
          return yield* load(ids)
        })

        const idOf = (purpose: StoredPurpose, start: number) =>
          `${purpose}-${new Date(start).toISOString().slice(0, 16)}Z`
        const payloadKeyOf = (id: string, key: KeyObject, usableUntil: number): PayloadKey => ({
          id,
          usableUntil,
          encrypt: (aad, plain) => encryptWithKey(key, aad, plain),
        })
        const destroyedEarly = Effect.die(
          new Error('A payload key was deleted from command.sealing_keys while it was created'),
        )

        const keyAt = Effect.fnUntraced(function* (purpose: StoredPurpose, at: number) {
          const start = at - (at % USED_FOR[purpose])
          const id = idOf(purpose, start)
          const now = yield* Clock.currentTimeMillis
          const key =
            cached(id, now) ??
            (yield* creation.withPermits(1)(
              Effect.suspend(() => {
                const created = cached(id, now)
                return created === null
                  ? Effect.map(create(purpose, start, [{ id, share: null }]), (keys) => keys.get(id))
                  : Effect.succeed(created)
              }),
            ))
          yield* recordKeyAge(purpose, (now - start) / 1000)
          return key === undefined ? yield* destroyedEarly : payloadKeyOf(id, key, start + USED_FOR[purpose])
        })

        const messageKey = Effect.fnUntraced(function* (messageClass: MessageClass) {
          const { at, id, key } = yield* messageKeys.current(messageClass)
          return payloadKeyOf(id, key, at + PAYLOAD_KEY_PERIODS[messageClass].replacedAfterMs)
        })

        return {
          currentKey: (purpose) =>
            purpose === 'otp' || purpose === 'service'
              ? messageKey(purpose)
              : Effect.flatMap(Clock.currentTimeMillis, (now) => keyAt(purpose, now)),
          keepReady: messageKeys.keepReady,
          keyOfDay: Effect.fnUntraced(function* (at) {
            const end = at - (at % USED_FOR.personal) + USED_FOR.personal
            const isOver = DESTROYED_AT.personal(end) <= (yield* Clock.currentTimeMillis)
            return isOver ? null : yield* keyAt('personal', at)
          }),
          recipientShareKeys: Effect.gen(function* () {
            const now = yield* Clock.currentTimeMillis
            const start = now - (now % USED_FOR.report)
            const wanted = Array.from({ length: RECIPIENT_SHARES }, (_, share) => ({
              id: `${idOf('report', start)}-${share}`,
              share,
            }))
            const keys = yield* creation.withPermits(1)(
              wanted.every(({ id }) => cached(id, now) !== null)
                ? Effect.succeed(new Map(wanted.map(({ id }) => [id, cached(id, now)] as const)))
                : create('report', start, wanted),
            )
            return yield* Effect.forEach(wanted, ({ id }) => {
              const key = keys.get(id)
              return key === undefined || key === null
                ? destroyedEarly
                : Effect.succeed(payloadKeyOf(id, key, start + USED_FOR.report))
            })
          }),
          decrypt: (keyId, aad, ciphertext) =>
            Effect.gen(function* () {
              const key = yield* keyById(keyId)
              if (key === null) return null
              const plain = decryptWithKey(key, aad, ciphertext)
              return plain ?? (yield* new DecryptionFailed({ purpose: 'payload', reason: 'damaged' }))
            }),
        }
      }),
    )
}
