/**
 * `command.api_keys`: API keys, by the hash of the key. A key with scopes has another hash than one without, so
 * that a process of an earlier version does not find it.
 *
 * Owner: command-api, which authenticates requests. Hub staff manage keys. Ids here are UUIDs.
 */
import { type KeyScopes, type Mode, scopedKeyDigest } from '@hub/domain'
import { firstRow, type Queries, type SqlFragment } from '../../sql.ts'

export interface ApiKeyRow {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly last_four: string
  /** Networks in CIDR notation; `null`: any; an empty list: none. */
  readonly allowed: ReadonlyArray<string> | null
  readonly scopes: KeyScopes
  readonly created_at: Date
  readonly revoked_at: Date | null
  /** `null`: it does not expire. */
  readonly expires_at: Date | null
  /** Lags by some seconds; `null`: it was not used yet. */
  readonly last_used_at: Date | null
  /** The client address of the last use; `null`: not recorded, or the last use is over a year ago. */
  readonly last_used_from: string | null
  /** By the clock of PostgreSQL. */
  readonly works: boolean
}

/** A new API key. The database stores its digest and last characters, never the key itself. */
export interface NewApiKey extends Pick<ApiKeyRow, 'id' | 'account' | 'mode' | 'allowed' | 'scopes'> {
  /** SHA-256 of the key, hexadecimal. */
  readonly digest: string
  /** The last four characters, which clients see. */
  readonly ending: string
  /** Seconds until the key stops working; `null` or absent: it does not expire. */
  readonly expiresAfter?: number | null
}

/** Filters; `null`: any. */
interface ApiKeyFilter {
  readonly account: string | null
  readonly mode: Mode | null
  readonly includeRevoked: boolean
  /** Only keys behind this one; `null`: from the newest on. */
  readonly before: Pick<ApiKeyRow, 'created_at' | 'id'> | null
  readonly limit: number
}

/** Whether a key is neither revoked nor expired. */
export const works = (q: Queries) =>
  q`((revoked_at IS NULL OR revoked_at > now()) AND (expires_at IS NULL OR expires_at > now()))`

const columns = (q: Queries) => q`
  id, account, mode, last_four, allowed_addresses::text[] AS allowed, scopes, created_at, revoked_at,
  expires_at, last_used_at,
  CASE WHEN last_used_at > now() - interval '1 year' THEN host(last_used_from) END AS last_used_from,
  ${works(q)} AS works`

/** A condition: the row is that of the key with this digest, with or without scopes. */
export const isKey = (q: Queries, digest: string) =>
  q`hash IN (decode(${digest}, 'hex'), decode(${scopedKeyDigest(digest)}, 'hex'))`

/** The scopes of the key whose id is in a column of the surrounding statement. */
export const scopesOf = (q: Queries, id: string): SqlFragment =>
  q`(SELECT k.scopes FROM command.api_keys k WHERE k.id = ${q(id)})`

/** Returns whether the key was inserted. An existing one does not change. */
export const insert = async (
  q: Queries,
  { account, allowed, digest, ending, expiresAfter = null, id, mode, scopes }: NewApiKey,
): Promise<boolean> => {
  const hash = scopes === null ? digest : scopedKeyDigest(digest)
  const inserted = await q`
    INSERT INTO command.api_keys (id, account, mode, hash, last_four, allowed_addresses, scopes, expires_at)
    VALUES (${id}, ${account}, ${mode}, decode(${hash}, 'hex'), ${ending},
            ${allowed === null ? null : [...allowed]}::text[]::cidr[], ${scopes === null ? null : [...scopes]}::text[],
            now() + make_interval(secs => ${expiresAfter}))
    ON CONFLICT DO NOTHING`
  return inserted.count > 0
}

export const read = async (q: Queries, id: string): Promise<ApiKeyRow | null> =>
  firstRow(q<ApiKeyRow[]>`SELECT ${columns(q)} FROM command.api_keys WHERE id = ${id}`)

/** The newest keys that match the filter. */
export const readNewest = async (
  q: Queries,
  { account, before, includeRevoked, limit, mode }: ApiKeyFilter,
): Promise<ReadonlyArray<ApiKeyRow>> =>
  q<ApiKeyRow[]>`
    SELECT ${columns(q)} FROM command.api_keys
     WHERE (${account}::uuid IS NULL OR account = ${account}) AND (${mode}::command.mode IS NULL OR mode = ${mode})
       AND (${includeRevoked} OR ${works(q)})
       AND (${before?.id ?? null}::uuid IS NULL
            OR (created_at, id) < (${before?.created_at ?? null}, ${before?.id ?? null}))
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

/** A key that was used, and the client address of this use; `null`: unknown. */
export interface KeyUse {
  readonly id: string
  readonly address: string | null
}

/** Notes that keys were used just now, to the minute. */
export const setLastUses = async (q: Queries, uses: ReadonlyArray<KeyUse>): Promise<void> => {
  const ids = uses.map(({ id }) => id)
  const addresses = uses.map(({ address }) => address)
  await q`
    UPDATE command.api_keys SET last_used_at = now(), last_used_from = used.address
      FROM unnest(${ids}::uuid[], ${addresses}::text[]::inet[]) AS used(id, address)
     WHERE api_keys.id = used.id AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')`
}

/**
 * Sets the networks that may use a key; `allowed` as in `ApiKeyRow`. PostgreSQL rejects a network whose host
 * bits are set (22P02). False: `mayWiden` is false, and a network is not inside of one that the key had.
 */
export const setAllowedAddresses = async (
  q: Queries,
  id: string,
  allowed: ReadonlyArray<string> | null,
  mayWiden: boolean,
): Promise<boolean> => {
  const networks = q`${allowed === null ? null : [...allowed]}::text[]::cidr[]`
  const rows = await q`
    UPDATE command.api_keys k SET allowed_addresses = ${networks}
     WHERE id = ${id}
       AND (${mayWiden} OR k.allowed_addresses IS NULL
            OR (${networks} IS NOT NULL AND NOT EXISTS (
                  SELECT 1 FROM unnest(${networks}) AS wanted (network)
                   WHERE NOT EXISTS (
                         SELECT 1 FROM unnest(k.allowed_addresses) AS old (network)
                          WHERE wanted.network <<= old.network))))
    RETURNING 1`
  return rows.length > 0
}
