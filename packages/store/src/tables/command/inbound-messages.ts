/**
 * `command.inbound_messages`: what recipients wrote to the hub. Number and text are encrypted with
 * the key of the day of receipt, which is destroyed after a year.
 *
 * Owner: dispatcher. `erasure.ts` and retention remove data of it.
 */
import type { Queries } from '../../sql.ts'

export interface InboundMessageRow {
  /** UUID. */
  readonly id: string
  /** The recipient hash, 64 hexadecimal digits. */
  readonly recipient: string
  readonly operator: string
  readonly service_address: string
  readonly received_at: Date
  /** Null with `sealed`: number and text are a year old, or erased. */
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
    SELECT id, encode(recipient, 'hex') AS recipient, operator, service_address, received_at, sealing_key, sealed
      FROM command.inbound_messages
     WHERE ${recipient === null ? q`true` : q`recipient = decode(${recipient}, 'hex')`}
     ORDER BY received_at DESC, id LIMIT ${limit}`
