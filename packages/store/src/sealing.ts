/**
 * Sealed payloads: number and text travel through Kafka encrypted under short-lived keys that are kept here,
 * wrapped by the master key, and destroyed when nothing sealed with them can still be handed over, or when its
 * retention is over. A destroyed key makes every sealed copy in the log unreadable; a record whose key is gone has
 * expired.
 */
import { createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import { Clock, Context, Effect, Layer, Semaphore } from 'effect'
import { Sql, type StorageError } from './sql.ts'
import { BoxUnreadable, openBox, sealBox, Vault } from './vault.ts'

/** What a key seals: payloads of a class, or what operators and recipients have said (`report`). */
export type SealedPurpose = 'otp' | 'service' | 'report'

/** For how long new payloads are sealed with one key, ms. A code is worth stealing for minutes, a message for longer. */
const USED_FOR: Record<SealedPurpose, number> = { otp: 5 * 60_000, service: 60 * 60_000, report: 60 * 60_000 }

/**
 * For how long after its last use a key opens what it sealed, ms: the lifetime before hand-over (otp 5 min,
 * service 24 h) and as much again as a projector may lag behind without a message losing its text. Raw operator
 * responses and inbound messages: 90 days (specification, Retention).
 */
const OPENS_FOR: Record<SealedPurpose, number> = {
  otp: 15 * 60_000,
  service: 48 * 3_600_000,
  report: 90 * 24 * 3_600_000,
}

/** Keys held in memory: a day of service keys and the few otp keys that still open anything, and some more. */
const CACHE_SIZE = 256

/** A payload key in use. */
export interface SealingKey {
  readonly id: string
  /** Until when new payloads are sealed with it, milliseconds since the epoch. */
  readonly usableUntil: number
  /** `aad` says what the payload belongs to: the message id; for reports see the dispatcher's sink. */
  readonly seal: (aad: string, plain: Uint8Array) => Buffer
}

export class Sealing extends Context.Service<
  Sealing,
  {
    /** The key for new payloads of a purpose; made when its period has begun and nobody has made it yet. */
    readonly current: (purpose: SealedPurpose) => Effect.Effect<SealingKey, StorageError | BoxUnreadable>
    /**
     * Opens a payload. `null` when the key was destroyed: what it sealed has expired. `BoxUnreadable` when the
     * key is there but the box does not open.
     */
    readonly open: (
      keyId: string,
      aad: string,
      sealed: Uint8Array,
    ) => Effect.Effect<Buffer | null, StorageError | BoxUnreadable>
    /** Destroys the keys that nothing can need any more. Answers how many. */
    readonly destroyExpired: Effect.Effect<number, StorageError>
  }
>()('@hub/store/Sealing') {
  static readonly layer: Layer.Layer<Sealing, never, Sql | Vault> = Layer.effect(
    Sealing,
    Effect.gen(function* () {
      const sql = yield* Sql
      const vault = yield* Vault
      const cache = new Map<string, { readonly key: KeyObject; readonly until: number }>()
      // Concurrent flushes at the turn of a period ask PostgreSQL once.
      const turn = yield* Semaphore.make(1)

      const remember = (id: string, key: KeyObject, until: number) => {
        if (cache.size >= CACHE_SIZE) {
          const oldest = cache.keys().next().value
          if (oldest !== undefined) cache.delete(oldest)
        }
        cache.set(id, { key, until })
        return key
      }

      const load = (id: string): Effect.Effect<KeyObject | null, StorageError | BoxUnreadable> =>
        Effect.gen(function* () {
          const [row] = yield* sql.run(
            (q) => q<{ wrapped: Buffer; destroy_after: Date }[]>`
              SELECT wrapped, destroy_after FROM command.sealing_keys WHERE id = ${id}`,
          )
          if (row === undefined) return null
          const key = createSecretKey(yield* vault.open('sealing-key', id, row.wrapped))
          return remember(id, key, row.destroy_after.getTime())
        })

      const keyById = (id: string): Effect.Effect<KeyObject | null, StorageError | BoxUnreadable> =>
        Effect.gen(function* () {
          const known = cache.get(id)
          if (known === undefined) return yield* load(id)
          // A cached copy must not outlive the row: destroying means destroyed everywhere.
          if (known.until > (yield* Clock.currentTimeMillis)) return known.key
          cache.delete(id)
          return null
        })

      const make = (id: string, purpose: SealedPurpose, begins: number) =>
        Effect.gen(function* () {
          const usableUntil = begins + USED_FOR[purpose]
          yield* sql.run(
            (q) => q`
              INSERT INTO command.sealing_keys (id, class, wrapped, usable_until, destroy_after)
              VALUES (${id}, ${purpose}, ${vault.seal('sealing-key', id, randomBytes(32))},
                      ${new Date(usableUntil)}, ${new Date(usableUntil + OPENS_FOR[purpose])})
              ON CONFLICT (id) DO NOTHING`,
          )
          const key = yield* load(id)
          return key ?? (yield* Effect.die(new Error('a sealing key vanished as it was made')))
        })

      return {
        current: (purpose) =>
          Effect.gen(function* () {
            const now = yield* Clock.currentTimeMillis
            const begins = now - (now % USED_FOR[purpose])
            const id = `${purpose}-${new Date(begins).toISOString().slice(0, 16)}Z`
            const known = cache.get(id)
            const key =
              known?.key ??
              (yield* turn.withPermits(1)(
                Effect.suspend(() => {
                  const made = cache.get(id)
                  return made === undefined ? make(id, purpose, begins) : Effect.succeed(made.key)
                }),
              ))
            return {
              id,
              usableUntil: begins + USED_FOR[purpose],
              seal: (aad, plain) => sealBox(key, aad, plain),
            }
          }),
        open: (keyId, aad, sealed) =>
          Effect.gen(function* () {
            const key = yield* keyById(keyId)
            if (key === null) return null
            const plain = openBox(key, aad, sealed)
            return plain ?? (yield* new BoxUnreadable({ purpose: 'payload' }))
          }),
        destroyExpired: Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          for (const [id, entry] of cache) if (entry.until <= now) cache.delete(id)
          const gone = yield* sql.run(
            (q) => q`DELETE FROM command.sealing_keys WHERE destroy_after < ${new Date(now)}`,
          )
          return gone.count
        }),
      }
    }),
  )
}
