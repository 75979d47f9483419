/**
 * `command.accounts`: the clients of the hub.
 *
 * Owner: command-api. Hub staff create accounts. Ids here are UUIDs.
 */
import type { Queries } from '../../pool.ts'
import { works } from './api-keys.ts'

export interface AccountWithKeys {
  readonly id: string
  readonly name: string
  readonly created_at: Date
  /** Keys that work. */
  readonly test_keys: number
  readonly live_keys: number
  /** `null`: the default. */
  readonly test_weight: number | null
  readonly live_weight: number | null
}

/** Returns whether the account was inserted. An existing one does not change. */
export const insert = async (
  q: Queries,
  { id, name }: Pick<AccountWithKeys, 'id' | 'name'>,
): Promise<boolean> => {
  const inserted = await q`
    INSERT INTO command.accounts (id, name) VALUES (${id}, ${name}) ON CONFLICT DO NOTHING`
  return inserted.count > 0
}

/** `null` if the account does not exist. */
export const readName = async (q: Queries, id: string): Promise<string | null> => {
  const [row] = await q<{ name: string }[]>`SELECT name FROM command.accounts WHERE id = ${id}`
  return row?.name ?? null
}

/** The names of accounts (UUIDs). */
export const readNames = async (
  q: Queries,
  ids: ReadonlyArray<string>,
): Promise<ReadonlyMap<string, string>> => {
  const rows = await q<{ id: string; name: string }[]>`
    SELECT id, name FROM command.accounts WHERE id = ANY (${[...ids]}::uuid[])`
  return new Map(rows.map(({ id, name }) => [id, name]))
}

interface AccountPage {
  /** Only accounts behind this one; `null`: from the newest on. */
  readonly before: Pick<AccountWithKeys, 'created_at' | 'id'> | null
  /** Only these accounts; `null`: all. */
  readonly only: ReadonlyArray<string> | null
  readonly limit: number
}

/** The newest accounts, with the numbers of their keys and their weights. */
export const readNewest = async (
  q: Queries,
  { before, limit, only }: AccountPage,
): Promise<ReadonlyArray<AccountWithKeys>> =>
  q<AccountWithKeys[]>`
    SELECT a.id, a.name, a.created_at,
           count(k.id) FILTER (WHERE k.mode = 'test')::integer AS test_keys,
           count(k.id) FILTER (WHERE k.mode = 'live')::integer AS live_keys,
           (SELECT weight FROM command.account_settings s WHERE s.account = a.id AND s.mode = 'test') AS test_weight,
           (SELECT weight FROM command.account_settings s WHERE s.account = a.id AND s.mode = 'live') AS live_weight
      FROM command.accounts a
      LEFT JOIN command.api_keys k ON k.account = a.id AND ${works(q)}
     WHERE (${before?.id ?? null}::uuid IS NULL
            OR (a.created_at, a.id) < (${before?.created_at ?? null}, ${before?.id ?? null}))
       AND (${only === null} OR a.id = ANY (${only === null ? [] : [...only]}::uuid[]))
     GROUP BY a.id ORDER BY a.created_at DESC, a.id DESC LIMIT ${limit}`
