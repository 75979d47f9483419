/**
 * `command.inbound_messages`: what recipients wrote to the hub. Number and text are encrypted with
 * the key of the day of receipt, which is destroyed after a year.
 *
 * Owner: dispatcher. `erasure.ts` and retention remove data of it.
 */
import type { Queries } from '../../sql.ts'
import { mayShow } from './erasures.ts'

export interface InboundMessageRow {
  /** UUID. */
  readonly id: string
  /** The recipient hash, 64 hexadecimal digits. */
  readonly recipient: string
  readonly operator: string
  readonly service_address: string
  readonly received_at: Date
  /** Null with `sealed`: number and text are deleted, or must not be shown. */
  readonly sealing_key: string | null
  readonly sealed: Buffer | null
}

/** The newest messages, of one recipient or of all (`null`). */
export const readNewest = async (
  q: Queries,
  recipient: string | null,
  limit: number,
): Promise<ReadonlyArray<InboundMessageRow>> =>
  q<InboundMessageRow[]>`
    SELECT id, encode(recipient, 'hex') AS recipient, operator, service_address, received_at,
           CASE WHEN shown.may_show THEN sealing_key END AS sealing_key,
           CASE WHEN shown.may_show THEN sealed END AS sealed
      FROM command.inbound_messages m
     CROSS JOIN LATERAL (SELECT ${mayShow(q, 'm.recipient', 'm.received_at')} AS may_show) AS shown
     WHERE ${recipient === null ? q`true` : q`recipient = decode(${recipient}, 'hex')`}
     ORDER BY received_at DESC, id LIMIT ${limit}`
