/**
 * Decodes and validates the records of a transaction batch. A fact that passes cannot make the fold
 * or an event fail. Any other record becomes a dead letter, with a reason code that names the
 * invalid field and never contains its value.
 */
import { decodeId, epochOf, type MessageAccepted, type MessageFact } from '@hub/domain'
import { type BatchSealed, decodeRecord, type IncomingRecord } from '@hub/kafka'
import { Result } from 'effect'
import type { TransactionBatch } from './record-buffer.ts'
import type { RejectedRecords } from './recovery.ts'
import type { TracedRecord } from './traces.ts'
import type { CheckpointAdvance, DecodedBatch } from './transaction.ts'

/** What a record means to the projection. */
type DecodedRecord =
  | { readonly kind: 'fact'; readonly fact: MessageFact }
  /** A new owner of the shard: later facts with a lower epoch are void. */
  | { readonly kind: 'fence'; readonly epoch: number }
  /** The membership of a batch is complete. */
  | { readonly kind: 'seal'; readonly seal: BatchSealed }
  /** It repeats facts that are already in the log. */
  | { readonly kind: 'repetition' }
  /** It can never be applied. `reason` is a code. */
  | { readonly kind: 'invalid'; readonly reason: string }

/** The last millisecond with a four-digit year, as the contract's timestamps have. */
const LATEST = Date.UTC(9999, 11, 31, 23, 59, 59, 999)
const AMOUNT = /^\d{1,10}\.\d{2}$/u
/** ISO 4217. */
const CURRENCY = /^[A-Z]{3}$/u
const HASH = /^[0-9a-f]{64}$/u
/** `attempts` and `parts` are `smallint`. */
const MAX_SMALLINT = 32_767
/** The counts of a batch are `integer`. */
const MAX_INTEGER = 2_147_483_647

const isTimestamp = (at: number): boolean => Number.isInteger(at) && at >= 0 && at <= LATEST
const isSmallint = (count: number): boolean => count >= 0 && count <= MAX_SMALLINT
const isInteger = (count: number): boolean => count >= 0 && count <= MAX_INTEGER

/** The name of the first invalid field, or `null`. */
const invalidFieldOf = (fact: MessageFact): string | null => {
  if (decodeId('msg', fact.messageId) === null) return 'message_id'
  if (!isTimestamp(fact.at)) return 'at'
  switch (fact.type) {
    case 'MessageAccepted':
      if (decodeId('acc', fact.account) === null) return 'account'
      if (fact.batch !== null && decodeId('bat', fact.batch) === null) return 'batch'
      if (!HASH.test(fact.recipient)) return 'recipient'
      if (!AMOUNT.test(fact.price.amount) || !CURRENCY.test(fact.price.currency)) return 'price'
      return isSmallint(fact.parts) ? null : 'parts'
    case 'HandoverStarted':
    case 'HandoverRefused':
      if (!isSmallint(fact.attempt)) return 'attempt'
      return isSmallint(fact.attempt - (fact.unsubmitted ?? 0)) ? null : 'unsubmitted'
    case 'OpenMessageCarried':
      return isTimestamp(fact.sentAt) ? null : 'sent_at'
    default:
      return null
  }
}

const invalidSealFieldOf = (seal: BatchSealed): string | null => {
  if (decodeId('bat', seal.batch) === null) return 'batch'
  if (decodeId('acc', seal.account) === null) return 'account'
  if (!isTimestamp(seal.at)) return 'at'
  if (!isTimestamp(seal.createdAt)) return 'created_at'
  for (const count of ['total', 'accepted', 'duplicate', 'rejected'] as const) {
    if (!isInteger(seal[count])) return count
  }
  return null
}

/** The record as decoded, unless one of its fields is invalid. */
const unlessInvalid = (field: string | null, decoded: DecodedRecord): DecodedRecord =>
  field === null ? decoded : { kind: 'invalid', reason: `invalid_${field}` }

/** Decodes and validates a record of a lane or of the log. */
export const decodeAndValidate = (record: IncomingRecord): DecodedRecord => {
  const decoded = decodeRecord(record.value)
  if (Result.isFailure(decoded)) return { kind: 'invalid', reason: decoded.failure.reason }
  const content = decoded.success
  switch (content.type) {
    case 'ShardOpened':
      return { kind: 'fence', epoch: content.epoch }
    case 'BatchSealed':
      return unlessInvalid(invalidSealFieldOf(content), { kind: 'seal', seal: content })
    case 'OpenMessagesCarried':
      return { kind: 'repetition' }
    case 'SubscriptionChanged':
    case 'EventRecorded':
    case 'DeliveryReportReceived':
    case 'InboundMessageReceived':
    case 'OperatorAnswerReceived':
    case 'SealingKeyCreated':
    case 'RecipientErased':
    case 'DatabaseAccepted':
    case 'MessageOutcome':
      return { kind: 'invalid', reason: 'unexpected_type' }
    default:
      return unlessInvalid(invalidFieldOf(content), { kind: 'fact', fact: content })
  }
}

export interface DecodedRecords extends Omit<DecodedBatch, 'personalData'> {
  readonly accepted: ReadonlyArray<MessageAccepted>
  readonly invalid: ReadonlyArray<{ readonly record: IncomingRecord; readonly reason: string }>
  readonly traced: ReadonlyArray<TracedRecord>
}

/** Decodes the records of a batch, and leaves out facts that a fence made void. Pure. */
export const decodeBatch = (batch: TransactionBatch, rejected: RejectedRecords): DecodedRecords => {
  const advances: Array<CheckpointAdvance> = []
  const accepted: Array<MessageAccepted> = []
  const logFacts: Array<MessageFact> = []
  const seals: Array<BatchSealed> = []
  const invalid: Array<{ record: IncomingRecord; reason: string }> = []
  const traced: Array<TracedRecord> = []
  for (const { owned, records, to } of batch) {
    let fence = owned.fence
    for (const record of records) {
      const reason = rejected.get(record)
      const decoded =
        reason === undefined ? decodeAndValidate(record) : ({ kind: 'invalid', reason } as const)
      switch (decoded.kind) {
        case 'fact': {
          const { fact } = decoded
          if (record.traceparent !== null) traced.push({ record, messageId: fact.messageId })
          if (fact.type === 'MessageAccepted') accepted.push(fact)
          // A fact with a lower epoch comes from a zombie, which submitted nothing.
          else if ((epochOf(fact) ?? fence) >= fence) logFacts.push(fact)
          break
        }
        case 'fence':
          fence = Math.max(fence, decoded.epoch)
          break
        case 'invalid':
          invalid.push({ record, reason: decoded.reason })
          break
        case 'seal':
          seals.push(decoded.seal)
          break
        case 'repetition':
          break
      }
    }
    advances.push({ owned, to, fence })
  }
  return { advances, facts: [...accepted, ...logFacts], accepted, seals, invalid, traced }
}
