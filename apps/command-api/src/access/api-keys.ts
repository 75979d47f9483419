/** API keys: the account, mode and scopes of a request. Source: AUTH-4 to AUTH-7, AUTH-16, GEN-10. */
import {
  API_KEY_PATTERN,
  apiKeyDigest,
  CACHE_TTL_MS,
  encodeId,
  type KeyScopes,
  type Mode,
  type StoredSettings,
} from '@hub/domain'
import { CommandApiKeys, Sql, type StorageError } from '@hub/store'
import { Context, Effect, Layer, Result } from 'effect'
import { NetAddress } from 'effect/net'
import type { Caller } from '../accounts/account.ts'
import { Accounts, settingsColumns } from '../accounts/accounts.ts'
import { makeRefreshedCache } from '../accounts/refreshed-cache.ts'
import { STATEMENT_DEADLINE } from '../deadlines.ts'
import { type ClientAddress, isWithin, networkFrom, type Networks } from './client-address.ts'
import { makeKeyUse } from './key-use.ts'

const BEARER = /^bearer +(\S+) *$/i

/** A new key must work at once, so a miss is cached only against rapid repeats. Milliseconds. */
const INVALID_MS = 250
/** Cached keys; some 300 bytes each. */
const CAPACITY = 10_000

interface KeyRow {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  /** In CIDR notation; `null` allows every address. */
  readonly allowed: ReadonlyArray<string> | null
  readonly scopes: KeyScopes
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
    scopes: row.scopes,
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
    const accounts = yield* Accounts
    const use = yield* makeKeyUse
    // A key in use is read again before its time ends. Otherwise all of its requests would wait for
    // PostgreSQL at once, and each of them would be an attempt of the login gate.
    const cache = yield* makeRefreshedCache({
      capacity: CAPACITY,
      lifetimeMs: (known: KnownKey | null) => (known === null ? INVALID_MS : CACHE_TTL_MS.apiKey),
      // The cache contains hashes, so that a heap dump reveals no key. The settings of its account are
      // needed next.
      read: (digest: string) =>
        sql
          .run(
            (q) => q<(KeyRow & StoredSettings)[]>`
              SELECT k.id, k.account, k.mode, k.allowed, k.scopes, ${settingsColumns(q)}
                FROM (SELECT id, account, mode, allowed_addresses::text[] AS allowed, scopes FROM command.api_keys
                       WHERE ${CommandApiKeys.isKey(q, digest)} AND ${CommandApiKeys.works(q)}) AS k
                JOIN command.accounts a ON a.id = k.account
                LEFT JOIN command.account_settings s ON s.account = k.account AND s.mode = k.mode`,
            STATEMENT_DEADLINE,
          )
          .pipe(
            Effect.flatMap(([row]): Effect.Effect<KnownKey | null> => {
              if (row === undefined) return Effect.succeed(null)
              const known = knownKey(row)
              return Effect.as(accounts.rememberSettings(known.caller, row), known)
            }),
          ),
    })
    const keyIn = (authorization: string): string | null => {
      const key = BEARER.exec(authorization)?.[1]
      return key === undefined || !API_KEY_PATTERN.test(key) ? null : key
    }
    const mayUse = ({ allowed }: KnownKey, address: ClientAddress): boolean =>
      allowed === null || isWithin(allowed, address)
    const callerOf = (known: KnownKey | null, address: ClientAddress): Caller | null => {
      if (known === null || !mayUse(known, address)) return null
      use.note(known.uuid, address)
      return known.caller
    }
    return {
      /** Like `identify`, from the cache only: `null` also for a key that is not cached. */
      known: (authorization: string, address: ClientAddress): Effect.Effect<Caller | null> => {
        const key = keyIn(authorization)
        if (key === null) return Effect.succeed(null)
        return Effect.map(cache.cached(apiKeyDigest(key)), (found) => callerOf(found, address))
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
        return Effect.flatMap(cache.get(apiKeyDigest(key)), (known) => {
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
