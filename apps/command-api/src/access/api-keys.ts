/** API keys: the account and mode of a request. Source: specification, Authentication. */
import { API_KEY_PATTERN, apiKeyDigest, CACHE_TTL_MS, encodeId, type Mode } from '@hub/domain'
import { CommandApiKeys, Sql, type StorageError } from '@hub/store'
import { Cache, Clock, Context, Duration, Effect, Exit, Layer, Option, Result } from 'effect'
import { NetAddress } from 'effect/net'
import type { Caller } from '../accounts/account.ts'
import { type ClientAddress, isWithin, networkFrom, type Networks } from './client-address.ts'
import { makeKeyUse } from './key-use.ts'

const BEARER = /^bearer +(\S+) *$/i

const VALID_TTL = Duration.millis(CACHE_TTL_MS.apiKey)
/**
 * A key in use is checked again before its time ends, in the background. Otherwise all of its requests
 * would wait for the check at once, and each of them would be an attempt of the login gate.
 */
const CHECK_AGAIN_AFTER_MS = CACHE_TTL_MS.apiKey / 2
/** A new key must work at once, so a miss is cached only against rapid repeats. */
const INVALID_TTL = Duration.millis(250)
/** Cached keys; some 300 bytes each. */
const CAPACITY = 10_000

const DEADLINE = { deadline: Duration.millis(1000) }

interface KeyRow {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  /** In CIDR notation; `null` allows every address. */
  readonly allowed: ReadonlyArray<string> | null
}

interface KnownKey {
  /** Milliseconds since the epoch. */
  readonly checkedAt: number
  readonly uuid: string
  readonly caller: Caller
  /** Networks that may use the key; `null` allows every address, an empty list none. */
  readonly allowed: Networks | null
}

const knownKey = (row: KeyRow, checkedAt: number): KnownKey => ({
  checkedAt,
  uuid: row.id,
  caller: {
    account: encodeId('acc', row.account),
    accountUuid: row.account,
    mode: row.mode,
    key: encodeId('key', row.id),
  },
  allowed:
    row.allowed?.flatMap((text) => {
      const network = networkFrom(text)
      return Result.isSuccess(network) ? [network.success] : []
    }) ?? null,
})

export class ApiKeys extends Context.Service<ApiKeys>()('@hub/command-api/ApiKeys', {
  make: Effect.gen(function* () {
    const sql = yield* Sql
    const use = yield* makeKeyUse
    const scope = yield* Effect.scope
    const check = Effect.fnUntraced(function* (digest: string) {
      const now = yield* Clock.currentTimeMillis
      const [row] = yield* sql.run(
        (q) => q<KeyRow[]>`
          SELECT id, account, mode, allowed_addresses::text[] AS allowed FROM command.api_keys
           WHERE hash = decode(${digest}, 'hex') AND ${CommandApiKeys.works(q)}`,
        DEADLINE,
      )
      return row === undefined ? null : knownKey(row, now)
    })
    // The cache contains hashes, so that a heap dump reveals no key.
    const cache = yield* Cache.makeWith(check, {
      capacity: CAPACITY,
      timeToLive: (exit) =>
        Exit.isFailure(exit) ? Duration.zero : exit.value === null ? INVALID_TTL : VALID_TTL,
    })
    const keyIn = (authorization: string): string | null => {
      const key = BEARER.exec(authorization)?.[1]
      return key === undefined || !API_KEY_PATTERN.test(key) ? null : key
    }
    const mayUse = ({ allowed }: KnownKey, address: ClientAddress): boolean =>
      allowed === null || isWithin(allowed, address)
    const checkingAgain = new Set<string>()
    const checkAgain = (digest: string): Effect.Effect<void> => {
      if (checkingAgain.has(digest)) return Effect.void
      checkingAgain.add(digest)
      return check(digest).pipe(
        Effect.flatMap((known) => Cache.set(cache, digest, known)),
        // The result of the earlier check stays valid for its time.
        Effect.ignore,
        Effect.ensuring(Effect.sync(() => checkingAgain.delete(digest))),
        Effect.forkIn(scope),
        Effect.asVoid,
      )
    }
    const callerOf = (known: KnownKey | null, address: ClientAddress): Caller | null => {
      if (known === null || !mayUse(known, address)) return null
      use.note(known.uuid)
      return known.caller
    }
    return {
      /** Like `identify`, from the cache only: `null` also for a key that is not cached. */
      known: (authorization: string, address: ClientAddress): Effect.Effect<Caller | null> => {
        const key = keyIn(authorization)
        if (key === null) return Effect.succeed(null)
        const digest = apiKeyDigest(key)
        return Effect.gen(function* () {
          const known = Option.getOrNull(yield* Cache.getSuccess(cache, digest))
          if (known !== null) {
            const age = (yield* Clock.currentTimeMillis) - known.checkedAt
            if (age > CHECK_AGAIN_AFTER_MS) yield* checkAgain(digest)
          }
          return callerOf(known, address)
        })
      },

      /**
       * The caller by the value of `Authorization`; `null` for an invalid key and for a key that this
       * address may not use. Clients must not be able to distinguish the two.
       */
      identify: (
        authorization: string,
        address: ClientAddress,
      ): Effect.Effect<Caller | null, StorageError> => {
        const key = keyIn(authorization)
        if (key === null) return Effect.succeed(null)
        return Effect.flatMap(Cache.get(cache, apiKeyDigest(key)), (known) => {
          const caller = callerOf(known, address)
          return known === null || caller !== null || address === null
            ? Effect.succeed(caller)
            : Effect.as(use.refusedAddress(known.caller, NetAddress.formatIp(address)), null)
        })
      },
    }
  }),
}) {
  static readonly layer = Layer.effect(this, this.make)
}
