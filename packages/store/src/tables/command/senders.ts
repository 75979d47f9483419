/**
 * `command.senders`: the names that recipients see as senders.
 *
 * Owner: command-api. Hub staff record the decisions of the SMS operator. Ids here are UUIDs.
 */
import type { ModerationState, SenderStatus } from '@hub/domain'
import { firstRow, type Queries } from '../../sql.ts'
import {
  type ModeratedRow,
  type ModerationFilter,
  removeModerated,
  type WaitingForDecision,
} from './moderated.ts'

/** A value of a JSON column. */
type Json = null | boolean | number | string | ReadonlyArray<Json> | { readonly [name: string]: Json }

export interface SenderRow extends ModeratedRow {
  readonly registration: Readonly<Record<string, Json>> | null
  readonly status: SenderStatus
}

const columns = (q: Queries) => q`id, account, mode, name, registration, status, reason, created_at`

export const find = async (q: Queries, filter: ModerationFilter): Promise<ReadonlyArray<SenderRow>> =>
  q<SenderRow[]>`
    SELECT ${columns(q)} FROM command.senders
     WHERE (${filter.id}::uuid IS NULL OR id = ${filter.id})
       AND (${filter.account}::uuid IS NULL OR account = ${filter.account})
       AND (${filter.mode}::command.mode IS NULL OR mode = ${filter.mode})
       AND (${filter.status}::text IS NULL OR status = ${filter.status})
       AND (${filter.after?.id ?? null}::uuid IS NULL
            OR (created_at, id) > (${filter.after?.created_at ?? null}, ${filter.after?.id ?? null}))
     ORDER BY created_at, id LIMIT ${filter.limit}`

type NewSender = Pick<SenderRow, 'id' | 'account' | 'mode' | 'name' | 'status'> & {
  /** JSON text. The driver would treat an object as one of its own types. */
  readonly registration: string | null
}

/** Returns `null` if the account has a sender of this name and mode. */
export const insert = async (q: Queries, sender: NewSender): Promise<SenderRow | null> =>
  firstRow(q<SenderRow[]>`
    INSERT INTO command.senders (id, account, mode, name, registration, status)
    VALUES (${sender.id}, ${sender.account}, ${sender.mode}, ${sender.name}, ${sender.registration}::text::jsonb, ${sender.status})
    ON CONFLICT (account, mode, name) DO NOTHING
    RETURNING ${columns(q)}`)

/**
 * Submits a declined sender again under its name: the row gets the new id and registration, and the
 * declined one moves to `command.superseded_senders`. `null`: the sender of the name is not declined.
 */
export const supersede = async (q: Queries, sender: NewSender): Promise<SenderRow | null> =>
  firstRow(q<SenderRow[]>`
    WITH declined AS (
      SELECT ${columns(q)} FROM command.senders
       WHERE account = ${sender.account} AND mode = ${sender.mode} AND name = ${sender.name}
         AND status = 'declined' FOR UPDATE),
    kept AS (
      INSERT INTO command.superseded_senders (${columns(q)}) SELECT * FROM declined),
    changed AS (
      UPDATE command.senders
         SET id = ${sender.id}, registration = ${sender.registration}::text::jsonb, status = ${sender.status},
             reason = NULL, created_at = clock_timestamp()
       WHERE id = (SELECT id FROM declined)
      RETURNING ${columns(q)})
    SELECT * FROM changed`)

/**
 * Removes a sender that is not registered. False: the account has no such sender. Violates the
 * foreign key of `command.templates` if a template names the sender.
 */
export const removeUnregistered = (
  q: Queries,
  sender: Pick<SenderRow, 'account' | 'id' | 'mode'>,
): Promise<boolean> =>
  removeModerated(
    q,
    {
      table: 'command.senders',
      superseded: 'command.superseded_senders',
      removable: q`status <> 'registered'`,
    },
    sender,
  )

/** Locks the row for the rest of the transaction. */
export const lock = async (q: Queries, id: string): Promise<SenderRow | null> =>
  firstRow(q<SenderRow[]>`SELECT ${columns(q)} FROM command.senders WHERE id = ${id} FOR UPDATE`)

export const saveDecision = async (
  q: Queries,
  id: string,
  { reason, status }: ModerationState<SenderStatus>,
): Promise<void> => {
  await q`UPDATE command.senders SET status = ${status}, reason = ${reason} WHERE id = ${id}`
}

/** The live senders that wait for a decision: how many, and since when the oldest. */
export const readWaiting = async (q: Queries): Promise<WaitingForDecision> =>
  (await firstRow(q<WaitingForDecision[]>`
    SELECT count(*)::integer AS rows, min(created_at) AS oldest_at FROM command.senders
     WHERE mode = 'live' AND status = 'pending'`)) ?? { rows: 0, oldest_at: null }
