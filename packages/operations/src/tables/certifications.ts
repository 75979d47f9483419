/** `command.certifications`: the accounts that may have live keys. Account ids are UUIDs. */
import type { Confirmation } from '@hub/domain'
import type { Queries } from '@hub/store'

export interface Certification {
  readonly account: string
  readonly granted_at: Date
  readonly granted_by: string
  readonly confirmed: ReadonlyArray<Confirmation>
}

/** The certifications of accounts, by account. */
export const read = async (
  q: Queries,
  accounts: ReadonlyArray<string>,
): Promise<ReadonlyMap<string, Certification>> => {
  const rows = await q<Certification[]>`
    SELECT account, granted_at, granted_by, confirmed FROM command.certifications
     WHERE account = ANY (${[...accounts]}::uuid[])`
  return new Map(rows.map((row) => [row.account, row]))
}

export const upsert = async (
  q: Queries,
  account: string,
  grantedBy: string,
  confirmed: ReadonlyArray<Confirmation>,
): Promise<void> => {
  await q`
    INSERT INTO command.certifications (account, granted_by, confirmed)
    VALUES (${account}, ${grantedBy}, ${[...confirmed]}::text[])
    ON CONFLICT (account) DO UPDATE
      SET granted_at = now(), granted_by = excluded.granted_by, confirmed = excluded.confirmed`
}

export const remove = async (q: Queries, account: string): Promise<void> => {
  await q`DELETE FROM command.certifications WHERE account = ${account}`
}
