/** `command.account_members`: engineers of clients, and the accounts that they see. Accounts are UUIDs. */
import type { Queries } from '@hub/store'

export interface AccountMember {
  readonly account: string
  /** The identity of the person. */
  readonly person_id: string
  readonly name: string
  readonly added_at: Date
}

/** The accounts of a person, the oldest first. */
export const readAccounts = async (q: Queries, person: string): Promise<ReadonlyArray<string>> => {
  const rows = await q<Pick<AccountMember, 'account'>[]>`
    SELECT account FROM command.account_members WHERE person_id = ${person} ORDER BY added_at, account`
  return rows.map(({ account }) => account)
}

/** Members by account and identity. `account`: only of this one. `after`: the last row of the page before. */
export const readPage = (
  q: Queries,
  account: string | null,
  after: Pick<AccountMember, 'account' | 'person_id'> | null,
  limit: number,
): Promise<ReadonlyArray<AccountMember>> =>
  q<AccountMember[]>`
    SELECT account, person_id, name, added_at FROM command.account_members
     WHERE (${account}::uuid IS NULL OR account = ${account}::uuid)
       AND (${after === null} OR (account, person_id) > (${after?.account ?? null}::uuid, ${after?.person_id ?? null}::text))
     ORDER BY account, person_id LIMIT ${limit}`

/** Adds a member, or renames them. False: they were a member before. */
export const upsert = async (
  q: Queries,
  { account, name, person_id }: Omit<AccountMember, 'added_at'>,
): Promise<boolean> => {
  const [row] = await q<{ inserted: boolean }[]>`
    INSERT INTO command.account_members (account, person_id, name) VALUES (${account}, ${person_id}, ${name})
    ON CONFLICT (account, person_id) DO UPDATE SET name = excluded.name
    RETURNING xmax = 0 AS inserted`
  return row?.inserted ?? false
}

/** False: there was no such member. */
export const remove = async (q: Queries, account: string, person: string): Promise<boolean> => {
  const rows = await q`
    DELETE FROM command.account_members WHERE account = ${account} AND person_id = ${person}`
  return rows.count > 0
}
