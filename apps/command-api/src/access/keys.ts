/** API keys: which account and mode a request speaks for. Source: specification, Authentication. */
import { API_KEY_PATTERN, apiKeyDigest, CACHE_TTL_MS, encodeId, type Mode } from '@hub/domain'
import { Sql, type StorageError } from '@hub/store'
import { Cache, Context, Duration, Effect, Exit, Layer, Result } from 'effect'
import type { Caller } from '../accounts/account.ts'
import { type ClientAddress, isWithin, networkFrom, type Networks } from './client-address.ts'

const BEARER = /^bearer +(\S+) *$/i

const KNOWN_FOR = Duration.millis(CACHE_TTL_MS.apiKey)
/** A key just issued must work at once, so a miss is kept only to take the edge off a client that hammers with a wrong one. */
const UNKNOWN_FOR = Duration.millis(250)
/** Keys in memory; some 300 bytes each. */
const CAPACITY = 10_000

const DEADLINE = { deadline: Duration.millis(1000) }

interface KeyRow {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  /** In CIDR notation; `null` is anywhere. */
  readonly allowed: ReadonlyArray<string> | null
}

interface KnownKey {
  readonly caller: Caller
  /** Where the key may be used; `null` is anywhere, an empty list nowhere. */
  readonly allowed: Networks | null
}

const knownKey = (row: KeyRow): KnownKey => ({
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

export class ApiKeys extends Context.Service<
  ApiKeys,
  {
    /**
     * Who the value of `Authorization` speaks for; `null` when it is no valid key or may not be used from this address, which
     * nobody is to tell apart.
     */
    readonly identify: (
      authorization: string,
      address: ClientAddress,
    ) => Effect.Effect<Caller | null, StorageError>
  }
>()('@hub/command-api/ApiKeys') {
  static readonly layer: Layer.Layer<ApiKeys, never, Sql> = Layer.effect(
    ApiKeys,
    Effect.gen(function* () {
      const sql = yield* Sql
      const cache = yield* Cache.makeWith(
        // The cache holds hashes, not keys: a heap dump gives nobody access.
        (digest: string) =>
          Effect.map(
            sql.run(
              (q) => q<KeyRow[]>`
                SELECT id, account, mode, allowed_addresses::text[] AS allowed FROM command.api_keys
                 WHERE hash = decode(${digest}, 'hex') AND (revoked_at IS NULL OR revoked_at > now())`,
              DEADLINE,
            ),
            ([row]) => (row === undefined ? null : knownKey(row)),
          ),
        {
          capacity: CAPACITY,
          timeToLive: (exit) =>
            Exit.isFailure(exit) ? Duration.zero : exit.value === null ? UNKNOWN_FOR : KNOWN_FOR,
        },
      )
      return {
        identify: (authorization, address) => {
          const key = BEARER.exec(authorization)?.[1]
          if (key === undefined || !API_KEY_PATTERN.test(key)) return Effect.succeed(null)
          return Effect.map(Cache.get(cache, apiKeyDigest(key)), (known) =>
            known !== null && (known.allowed === null || isWithin(known.allowed, address))
              ? known.caller
              : null,
          )
        },
      }
    }),
  )
}
