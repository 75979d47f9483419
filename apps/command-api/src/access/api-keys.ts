/** API keys: the account and mode of a request. Source: specification, Authentication. */
import { API_KEY_PATTERN, apiKeyDigest, CACHE_TTL_MS, encodeId, type Mode } from '@hub/domain'
import { CommandApiKeys, Sql, type StorageError } from '@hub/store'
import { Cache, Context, Duration, Effect, Exit, Layer, Option, Result } from 'effect'
import { NetAddress } from 'effect/net'
import type { Caller } from '../accounts/account.ts'
import { type ClientAddress, isWithin, networkFrom, type Networks } from './client-address.ts'
import { makeKeyUse } from './key-use.ts'

const BEARER = /^bearer +(\S+) *$/i

const VALID_TTL = Duration.millis(CACHE_TTL_MS.apiKey)
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
  readonly uuid: string
  readonly caller: Caller
  /** Networks that may use the key; `null` allows every address, an empty list none. */
  readonly allowed: Networks | null
}

const knownKey = (row: KeyRow): KnownKey => ({
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
    const cache = yield* Cache.makeWith(
      // The cache contains hashes, so that a heap dump reveals no key.
      (digest: string) =>
        Effect.map(
          sql.run(
            (q) => q<KeyRow[]>`
              SELECT id, account, mode, allowed_addresses::text[] AS allowed FROM command.api_keys
               WHERE hash = decode(${digest}, 'hex') AND ${CommandApiKeys.works(q)}`,
            DEADLINE,
          ),
          ([row]) => (row === undefined ? null : knownKey(row)),
        ),
      {
        capacity: CAPACITY,
        timeToLive: (exit) =>
          Exit.isFailure(exit) ? Duration.zero : exit.value === null ? INVALID_TTL : VALID_TTL,
      },
    )
    const keyIn = (authorization: string): string | null => {
      const key = BEARER.exec(authorization)?.[1]
      return key === undefined || !API_KEY_PATTERN.test(key) ? null : key
    }
    const mayUse = ({ allowed }: KnownKey, address: ClientAddress): boolean =>
      allowed === null || isWithin(allowed, address)
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
        return Effect.map(Cache.getSuccess(cache, apiKeyDigest(key)), (found) =>
          callerOf(Option.getOrNull(found), address),
        )
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
