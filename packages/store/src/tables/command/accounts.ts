/**
 * `command.accounts`: the clients of the hub.
 *
 * Owner: command-api. Accounts are inserted with `insertAccount`. Ids here are UUIDs.
 */
import type { Queries } from '../../pool.ts'

export interface AccountWithKeys {
  readonly id: string
  readonly name: string
  readonly created_at: Date
  /** Keys that are not revoked. */
  readonly test_keys: number
  readonly live_keys: number
}

/** `null` if the account does not exist. */
export const readName = async (q: Queries, id: string): Promise<string | null> => {
  const [row] = await q<{ name: string }[]>`SELECT name FROM command.accounts WHERE id = ${id}`
  return row?.name ?? null
}

/** The newest accounts, with the numbers of their keys. */
export const readNewest = async (q: Queries, limit: number): Promise<ReadonlyArray<AccountWithKeys>> =>
  q<AccountWithKeys[]>`
    SELECT a.id, a.name, a.created_at,
           count(k.id) FILTER (WHERE k.mode = 'test')::integer AS test_keys,
           count(k.id) FILTER (WHERE k.mode = 'live')::integer AS live_keys
      FROM command.accounts a
      LEFT JOIN command.api_keys k ON k.account = a.id AND (k.revoked_at IS NULL OR k.revoked_at > now())
     GROUP BY a.id ORDER BY a.created_at DESC, a.id DESC LIMIT ${limit}`
