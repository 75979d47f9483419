/** `command.key_requests`: live keys that one person requests and another one confirms. Ids are UUIDs. */
import type { KeyScopes } from '@hub/domain'
import { CommandApiKeys, CONFIRMED_WITHIN_SECONDS, type Person, type Queries } from '@hub/store'

export interface KeyRequest {
  readonly id: string
  readonly account: string
  readonly allowed: ReadonlyArray<string> | null
  /** Of the requested key: those of the key that it replaces, if any. */
  readonly scopes: KeyScopes
  readonly expires_after_seconds: number | null
  readonly requested_by: string
  /** `null`: an earlier version recorded the request. */
  readonly requested_by_id: string | null
  readonly requested_at: Date
  readonly expires_at: Date
  readonly confirmed_by: string | null
  readonly confirmed_at: Date | null
  /** The issued key; `null`: not confirmed. */
  readonly key: string | null
  /** The key that the requested one replaces; `null`: none. */
  readonly replaces: string | null
  /** How long both keys work; `null`: it replaces none. */
  readonly overlap_seconds: number | null
  /** It can be confirmed, by the clock of PostgreSQL. */
  readonly is_open: boolean
  /** By the clock of PostgreSQL. */
  readonly is_expired: boolean
}

/** A condition: the request can be confirmed. */
const isOpen = (q: Queries) => q`confirmed_at IS NULL AND expires_at > now() AND requested_by_id IS NOT NULL`

/** A request of an earlier version has no scopes, also where the replaced key has some. */
const columns = (q: Queries) => q`
  id, account, allowed_addresses::text[] AS allowed,
  CASE WHEN replaces IS NULL THEN scopes ELSE ${CommandApiKeys.scopesOf(q, 'key_requests.replaces')} END AS scopes,
  expires_after_seconds, requested_by, requested_by_id, requested_at, expires_at, confirmed_by, confirmed_at, key,
  replaces, overlap_seconds, ${isOpen(q)} AS is_open, expires_at <= now() AS is_expired`

/** PostgreSQL rejects a network whose host bits are set (22P02). */
export const insert = async (
  q: Queries,
  request: Pick<
    KeyRequest,
    'id' | 'account' | 'allowed' | 'scopes' | 'expires_after_seconds' | 'replaces' | 'overlap_seconds'
  >,
  requestedBy: Person,
): Promise<void> => {
  const { account, allowed, expires_after_seconds, id, overlap_seconds, replaces, scopes } = request
  await q`
    INSERT INTO command.key_requests
      (id, account, allowed_addresses, scopes, expires_after_seconds, requested_by, requested_by_id, expires_at,
       replaces, overlap_seconds)
    VALUES (${id}, ${account}, ${allowed === null ? null : [...allowed]}::text[]::cidr[],
            ${scopes === null ? null : [...scopes]}::text[], ${expires_after_seconds}, ${requestedBy.name},
            ${requestedBy.id}, now() + make_interval(secs => ${CONFIRMED_WITHIN_SECONDS}), ${replaces}, ${overlap_seconds})`
}

export const read = async (q: Queries, id: string): Promise<KeyRequest | null> => {
  const [row] = await q<KeyRequest[]>`SELECT ${columns(q)} FROM command.key_requests WHERE id = ${id}`
  return row ?? null
}

/** Reads a request and locks it until the end of the transaction. */
export const readForConfirmation = async (q: Queries, id: string): Promise<KeyRequest | null> => {
  const [row] = await q<KeyRequest[]>`
    SELECT ${columns(q)} FROM command.key_requests WHERE id = ${id} FOR UPDATE`
  return row ?? null
}

/** `key`: the issued one. `replacedEndsAt`: when the replaced key ends; `null`: it replaces none. */
export const setConfirmed = async (
  q: Queries,
  id: string,
  confirmedBy: Person,
  key: Pick<CommandApiKeys.NewApiKey, 'id' | 'scopes'>,
  replacedEndsAt: Date | null,
): Promise<void> => {
  await q`
    UPDATE command.key_requests
       SET confirmed_by = ${confirmedBy.name}, confirmed_by_id = ${confirmedBy.id}, confirmed_at = now(), key = ${key.id},
           issued_scopes = ${key.scopes === null ? null : [...key.scopes]}::text[], replaced_ends_at = ${replacedEndsAt}
     WHERE id = ${id}`
}

/** The newest requests. `open`: only those that can be confirmed. `account`: `null` is any. */
export const readNewest = async (
  q: Queries,
  filter: {
    readonly account: string | null
    readonly open: boolean
    /** Only requests behind this one. */
    readonly before: { readonly created_at: Date; readonly id: string } | null
    readonly limit: number
  },
): Promise<ReadonlyArray<KeyRequest>> => {
  const { account, before, limit, open } = filter
  return q<KeyRequest[]>`
    SELECT ${columns(q)} FROM command.key_requests
     WHERE (${account}::uuid IS NULL OR account = ${account})
       ${open ? q`AND ${isOpen(q)}` : q``}
       ${before === null ? q`` : q`AND (requested_at, id) < (${before.created_at}, ${before.id})`}
     ORDER BY requested_at DESC, id DESC LIMIT ${limit}`
}
