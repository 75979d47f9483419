/** A prepared send: a new or republished message, encrypted, encoded and ready to be recorded. */
import type { OutgoingRecord } from '@hub/kafka'
import type { MessageView } from '../../messages/message.ts'
import type { LedgerEntry } from '../ledger/ledger.port.ts'
import type { SendReservation } from './limits.ts'
import type { PendingSend } from '../request.ts'

export interface PreparedSend {
  readonly send: PendingSend
  readonly reservation: SendReservation
  readonly entry: LedgerEntry
  readonly record: OutgoingRecord
  readonly view: MessageView
  /** A code whose first publication Kafka has not confirmed. It keeps its id. */
  readonly republished: boolean
  /** A republished code that belongs to an earlier request, and to its batch. */
  readonly duplicate: boolean
}
