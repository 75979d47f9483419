/**
 * Sealed payloads: number and text travel through Kafka encrypted under short-lived keys that are kept here,
 * wrapped by the master key, and destroyed when nothing sealed with them can still be handed over, or when its
 * retention is over. A destroyed key makes every sealed copy in the log unreadable; a record whose key is gone has
 * expired.
 */
import { createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import { Clock, Context, Effect, Layer, Metric, Semaphore } from 'effect'
import { Sql, type StorageError } from './sql.ts'
import { BoxUnreadable, openBox, sealBox, Vault } from './vault.ts'

/**
 * What a key seals: payloads of a class, what operators and recipients have said (`report`), or numbers and texts at rest
 * (`personal`).
 */
export type SealedPurpose = 'otp' | 'service' | 'report' | 'personal'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/**
 * For how long new payloads are sealed with one key, ms. A code is worth stealing for minutes, a message for longer; what is kept for
 * months is destroyed to the day.
 */
const USED_FOR: Record<SealedPurpose, number> = {
  otp: 5 * MINUTE,
  service: HOUR,
  report: DAY,
  personal: DAY,
}

/**
 * Until when a key opens what it sealed, by the end of its use; both in ms since the epoch. The lifetime before hand-over (otp 5 min, service
 * 24 h) and as much again as a projector may lag behind without a message losing its text. Raw operator responses and inbound
 * messages: 90 days; numbers and texts: one year (specification, Retention).
 */
const OPENS_UNTIL: Record<SealedPurpose, (usableUntil: number) => number> = {
  otp: (end) => end + 15 * MINUTE,
  service: (end) => end + 48 * HOUR,
  report: (end) => end + 90 * DAY,
  personal: (end) => {
    const date = new Date(end)
    return date.setUTCFullYear(date.getUTCFullYear() + 1)
  },
}

/**
 * What is sealed for months and must be forgotten for one recipient alone is sealed under keys that belong to a share of the recipients:
 * forgetting one takes the raw words of one in so many others along, at most ninety days of them (docs/decisions/0019). So many keys a
 * day are a small table.
 */
export const RECIPIENT_SHARES = 256

/** The share of a recipient hash (hexadecimal): even, because the hash is. */
export const shareOf = (recipient: string): number =>
  // Whatever else stands there belongs to the first one.
  (Number.parseInt(recipient.slice(0, 2), 16) || 0) % RECIPIENT_SHARES

const keyAge = Metric.gauge('hub_sealing_key_age_seconds', {
  description: 'Age of the key that payloads are sealed with now, by purpose.',
})
/** By purpose, bound once: it is asked for by every flush. */
const keyAges = new Map<SealedPurpose, Metric.Metric<number, unknown>>()
const ageOf = (purpose: SealedPurpose) => {
  const found = keyAges.get(purpose) ?? Metric.withAttributes(keyAge, { purpose })
  keyAges.set(purpose, found)
  return found
}

/** Keys held in memory: those of a year of days, of two days of hours, of the shares of today, and some more. */
const CACHE_SIZE = 1024

/** A key that was destroyed before its time is not used from memory for longer than this. */
const RECHECKED_AFTER = HOUR

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
    /** The key for the number and text of a message accepted at a moment (ms); `null` once that is a year ago. */
    readonly ofDay: (at: number) => Effect.Effect<SealingKey | null, StorageError | BoxUnreadable>
    /** The keys for what operators and recipients say, one for each share of the recipients: see `shareOf`. */
    readonly ofShares: Effect.Effect<ReadonlyArray<SealingKey>, StorageError | BoxUnreadable>
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

      const take = Effect.fnUntraced(function* (row: {
        readonly id: string
        readonly wrapped: Buffer
        readonly destroy_after: Date
      }) {
        const now = yield* Clock.currentTimeMillis
        const until = row.destroy_after.getTime()
        if (until <= now) return null
        const key = createSecretKey(yield* vault.open('sealing-key', row.id, row.wrapped))
        return remember(row.id, key, Math.min(until, now + RECHECKED_AFTER))
      })

      const load = Effect.fnUntraced(function* (ids: ReadonlyArray<string>) {
        const rows = yield* sql.run(
          (q) => q<{ id: string; wrapped: Buffer; destroy_after: Date }[]>`
            SELECT id, wrapped, destroy_after FROM command.sealing_keys WHERE id = ANY (${[...ids]})`,
        )
        const keys = new Map<string, KeyObject>()
        for (const row of rows) {
          const key = yield* take(row)
          if (key !== null) keys.set(row.id, key)
        }
        return keys
      })

      /** A key in memory. A copy must not outlive the row: destroying means destroyed everywhere. */
      const cached = (id: string, now: number): KeyObject | null => {
        const known = cache.get(id)
        if (known === undefined) return null
        if (known.until > now) return known.key
        cache.delete(id)
        return null
      }

      const keyById = Effect.fnUntraced(function* (id: string) {
        const known = cached(id, yield* Clock.currentTimeMillis)
        return known ?? (yield* load([id])).get(id) ?? null
      })

      /** The keys of a period that begins then, by id; those that nobody has made yet are made. */
      const make = Effect.fnUntraced(function* (
        purpose: SealedPurpose,
        begins: number,
        wanted: ReadonlyArray<{ readonly id: string; readonly share: number | null }>,
      ) {
        const usableUntil = begins + USED_FOR[purpose]
        const rows = wanted.map(({ id, share }) => ({
          id,
          class: purpose,
          wrapped: vault.seal('sealing-key', id, randomBytes(32)),
          usable_until: new Date(usableUntil),
          destroy_after: new Date(OPENS_UNTIL[purpose](usableUntil)),
          share,
        }))
        yield* sql.run((q) => q`INSERT INTO command.sealing_keys ${q(rows)} ON CONFLICT (id) DO NOTHING`)
        return yield* load(wanted.map(({ id }) => id))
      })

      const nameOf = (purpose: SealedPurpose, begins: number) =>
        `${purpose}-${new Date(begins).toISOString().slice(0, 16)}Z`
      const keyOf = (id: string, key: KeyObject, usableUntil: number): SealingKey => ({
        id,
        usableUntil,
        seal: (aad, plain) => sealBox(key, aad, plain),
      })
      const vanished = Effect.die(new Error('a sealing key vanished as it was made'))

      const at = Effect.fnUntraced(function* (purpose: SealedPurpose, moment: number) {
        const begins = moment - (moment % USED_FOR[purpose])
        const id = nameOf(purpose, begins)
        const now = yield* Clock.currentTimeMillis
        const key =
          cached(id, now) ??
          (yield* turn.withPermits(1)(
            Effect.suspend(() => {
              const made = cached(id, now)
              return made === null
                ? Effect.map(make(purpose, begins, [{ id, share: null }]), (keys) => keys.get(id))
                : Effect.succeed(made)
            }),
          ))
        yield* Metric.update(ageOf(purpose), (now - begins) / 1000)
        return key === undefined ? yield* vanished : keyOf(id, key, begins + USED_FOR[purpose])
      })

      return {
        current: (purpose) => Effect.flatMap(Clock.currentTimeMillis, (now) => at(purpose, now)),
        ofDay: Effect.fnUntraced(function* (moment) {
          const end = moment - (moment % USED_FOR.personal) + USED_FOR.personal
          const isOver = OPENS_UNTIL.personal(end) <= (yield* Clock.currentTimeMillis)
          return isOver ? null : yield* at('personal', moment)
        }),
        ofShares: Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          const begins = now - (now % USED_FOR.report)
          const wanted = Array.from({ length: RECIPIENT_SHARES }, (_, share) => ({
            id: `${nameOf('report', begins)}-${share}`,
            share,
          }))
          const keys = yield* turn.withPermits(1)(
            wanted.every(({ id }) => cached(id, now) !== null)
              ? Effect.succeed(new Map(wanted.map(({ id }) => [id, cached(id, now)] as const)))
              : make('report', begins, wanted),
          )
          return yield* Effect.forEach(wanted, ({ id }) => {
            const key = keys.get(id)
            return key === undefined || key === null
              ? vanished
              : Effect.succeed(keyOf(id, key, begins + USED_FOR.report))
          })
        }),
        open: (keyId, aad, sealed) =>
          Effect.gen(function* () {
            const key = yield* keyById(keyId)
            if (key === null) return null
            const plain = openBox(key, aad, sealed)
            return plain ?? (yield* new BoxUnreadable({ purpose: 'payload' }))
          }),
      }
    }),
  )
}
