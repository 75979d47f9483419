/**
 * The statement of `command.acceptances`, a table of the ledger, that reads messages before their
 * projection.
 */
import type { MessageClass, Mode } from '@hub/domain'
import type { Queries } from '@hub/store'
import { isAcknowledged } from '../accept/tables/acceptances.ts'

export interface AcceptanceRow {
  /** UUID. */
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly class: MessageClass
  /** The recipient hash. */
  readonly recipient: Buffer
  readonly template: string
  readonly sender: string
  readonly client_ref: string | null
  readonly batch_id: string | null
  readonly parts: number
  readonly price: string
  readonly currency: string
  readonly variables: ReadonlyArray<string>
  readonly created_at: Date
  /** Empty after an erasure of the recipient. */
  readonly to_masked: string
  readonly sealing_key: string | null
  /** The encrypted payload. */
  readonly sealed: Buffer | null
  /** A code that Kafka has acknowledged, because its batch is sealed. */
  readonly acknowledged: boolean
}

/** The acceptances of these messages (UUIDs), whoever owns them. */
export const readAcceptances = async (
  q: Queries,
  ids: ReadonlyArray<string>,
): Promise<ReadonlyArray<AcceptanceRow>> => q<AcceptanceRow[]>`
  SELECT message_id AS id, account, mode, class, recipient, template, sender, client_ref, batch_id, parts, price, currency,
         variables, created_at, to_masked, sealing_key, sealed, ${isAcknowledged(q)} AS acknowledged
    FROM command.acceptances a WHERE message_id = ANY (${[...ids]}::uuid[])`
