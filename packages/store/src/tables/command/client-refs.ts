/** `command.client_refs`: the used `client_ref`s, for three years. Owner: command-api. */
import type { Mode } from '@hub/domain'
import type { Queries } from '../../pool.ts'

/** The messages (UUIDs) that an account (UUID) sent with a `client_ref`, in one mode or both. */
export const findMessages = async (
  q: Queries,
  account: string,
  mode: Mode | null,
  clientRef: string,
): Promise<ReadonlyArray<string>> => {
  const rows = await q<{ message_id: string }[]>`
    SELECT message_id FROM command.client_refs
     WHERE account = ${account} AND mode = ANY (${mode === null ? ['live', 'test'] : [mode]}::command.mode[])
       AND client_ref = ${clientRef}`
  return rows.map(({ message_id }) => message_id)
}

/** The messages (UUIDs) with a `client_ref` of all accounts and modes: at most one of each. */
export const findInAllAccounts = async (
  q: Queries,
  clientRef: string,
  limit: number,
): Promise<ReadonlyArray<string>> => {
  const rows = await q<{ message_id: string }[]>`
    SELECT r.message_id
      FROM command.accounts a
     CROSS JOIN unnest(enum_range(NULL::command.mode)) AS m (mode)
     CROSS JOIN LATERAL (
           SELECT message_id FROM command.client_refs
            WHERE account = a.id AND mode = m.mode AND client_ref = ${clientRef} LIMIT 1) AS r
     LIMIT ${limit}`
  return rows.map(({ message_id }) => message_id)
}
