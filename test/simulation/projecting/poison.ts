/** Records that can never be applied: nobody can decode them, or PostgreSQL rejects their data. */
import { decodeFact, type IncomingRecord, type OutgoingRecord } from '@hub/kafka'
import type { BatchTransaction } from '@hub/projector'
import { Result } from 'effect'

const UNREADABLE = 'Unreadable'
/** PostgreSQL rejects a message with this template. */
export const REJECTED_TEMPLATE = 'rejected'

/** A record that no schema describes, beside another record. */
export const unreadable = (beside: OutgoingRecord, id: string): OutgoingRecord => ({
  ...beside,
  type: UNREADABLE,
  id,
  value: new Uint8Array([1, 2, 3]),
})

/** Whether PostgreSQL rejects the rows of a transaction. */
export const isRejected = (decided: ReturnType<BatchTransaction['decide']>): boolean =>
  typeof decided !== 'string' &&
  decided.changes.accepted.some(({ fact }) => fact.template === REJECTED_TEMPLATE)

export const isPoison = (record: IncomingRecord): boolean => {
  if (record.type === UNREADABLE) return true
  if (record.type !== 'MessageAccepted') return false
  const fact = decodeFact(record)
  return (
    Result.isSuccess(fact) &&
    fact.success.type === 'MessageAccepted' &&
    fact.success.template === REJECTED_TEMPLATE
  )
}
