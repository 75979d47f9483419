/**
 * `command.api_keys`: API keys, by the hash of the key.
 *
 * Owner: command-api, which authenticates requests. hub staff manage keys with hubctl. Keys are
 * inserted with `insertApiKey`. Ids here are UUIDs.
 */
import type { Mode } from '@hub/domain'
import type { Queries } from '../../pool.ts'

export interface ApiKeyRow {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly last_four: string
  /** Networks in CIDR notation; `null`: any; an empty list: none. */
  readonly allowed: ReadonlyArray<string> | null
  readonly created_at: Date
  readonly revoked_at: Date | null
  /** By the clock of PostgreSQL. */
  readonly works: boolean
}

/** Filters; `null`: any. */
interface ApiKeyFilter {
  readonly account: string | null
  readonly mode: Mode | null
  readonly includeRevoked: boolean
  readonly limit: number
}

const columns = (q: Queries) => q`
  id, account, mode, last_four, allowed_addresses::text[] AS allowed, created_at, revoked_at,
  (revoked_at IS NULL OR revoked_at > now()) AS works`

export const read = async (q: Queries, id: string): Promise<ApiKeyRow | null> => {
  const [row] = await q<ApiKeyRow[]>`SELECT ${columns(q)} FROM command.api_keys WHERE id = ${id}`
  return row ?? null
}

/** The newest keys that match the filter. */
export const readNewest = async (
  q: Queries,
  { account, includeRevoked, limit, mode }: ApiKeyFilter,
): Promise<ReadonlyArray<ApiKeyRow>> =>
  q<ApiKeyRow[]>`
    SELECT ${columns(q)} FROM command.api_keys
     WHERE (${account}::uuid IS NULL OR account = ${account}) AND (${mode}::command.mode IS NULL OR mode = ${mode})
       AND (${includeRevoked} OR revoked_at IS NULL OR revoked_at > now())
     ORDER BY created_at DESC, id DESC LIMIT ${limit}`

/**
 * Revokes a key after some seconds, and returns the time of the revocation. An earlier revocation
 * stays.
 */
export const revoke = async (q: Queries, id: string, afterSeconds: number): Promise<Date | null> => {
  const [row] = await q<{ revoked_at: Date }[]>`
    UPDATE command.api_keys SET revoked_at = least(revoked_at, now() + make_interval(secs => ${afterSeconds}))
     WHERE id = ${id} RETURNING revoked_at`
  return row?.revoked_at ?? null
}

/** `allowed` as in `ApiKeyRow`. PostgreSQL rejects a network whose host bits are set (22P02). */
export const setAllowedAddresses = async (
  q: Queries,
  id: string,
  allowed: ReadonlyArray<string> | null,
): Promise<void> => {
  await q`
    UPDATE command.api_keys SET allowed_addresses = ${allowed === null ? null : [...allowed]}::text[]::cidr[]
     WHERE id = ${id}`
}
