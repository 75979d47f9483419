/**
 * From a record to what the fold takes. What gets through here cannot make the fold or an event fail; what
 * does not is a dead letter, with a reason that names the fault and never the content.
 */
import { decodeId, type MessageFact } from '@hub/domain'
import { type BatchSealed, decodeRecord, type IncomingRecord } from '@hub/kafka'
import { Result } from 'effect'

/** What a record means to this projection. */
export type Admitted =
  | { readonly kind: 'fact'; readonly fact: MessageFact }
  /** Claims of a lower epoch behind it are void. */
  | { readonly kind: 'fence'; readonly epoch: number }
  /** Nothing will join the batch any more. */
  | { readonly kind: 'seal'; readonly seal: BatchSealed }
  /** It repeats what the log has said before. */
  | { readonly kind: 'repetition' }
  /** It will never be read. `reason` is a code. */
  | { readonly kind: 'dead'; readonly reason: string }

/** The last millisecond that ISO 8601 writes with four digits of year, as the contract's timestamps do. */
const LATEST = Date.UTC(9999, 11, 31, 23, 59, 59, 999)
const AMOUNT = /^\d{1,10}\.\d{2}$/u
/** ISO 4217. */
const CURRENCY = /^[A-Z]{3}$/u
const HASH = /^[0-9a-f]{64}$/u
/** `attempts` and `parts` are `smallint`. */
const SMALL = 32_767

const isMoment = (at: number): boolean => Number.isInteger(at) && at >= 0 && at <= LATEST
const isCount = (count: number): boolean => count >= 0 && count <= SMALL
/** Counts of a batch are `integer`. */
const isBatchCount = (count: number): boolean => count >= 0 && count <= 2_147_483_647

/** The name of the first field that cannot be what it says, or `null`. */
const faultOf = (fact: MessageFact): string | null => {
  if (decodeId('msg', fact.messageId) === null) return 'message_id'
  if (!isMoment(fact.at)) return 'at'
  switch (fact.type) {
    case 'MessageAccepted':
      if (decodeId('acc', fact.account) === null) return 'account'
      if (fact.batch !== null && decodeId('bat', fact.batch) === null) return 'batch'
      if (!HASH.test(fact.recipient)) return 'recipient'
      if (!AMOUNT.test(fact.price.amount) || !CURRENCY.test(fact.price.currency)) return 'price'
      return isCount(fact.parts) ? null : 'parts'
    case 'HandoverStarted':
      return isCount(fact.attempt) ? null : 'attempt'
    case 'OpenMessageCarried':
      return isMoment(fact.sentAt) ? null : 'sent_at'
    default:
      return null
  }
}

const faultOfSeal = (seal: BatchSealed): string | null => {
  if (decodeId('bat', seal.batch) === null) return 'batch'
  if (decodeId('acc', seal.account) === null) return 'account'
  if (!isMoment(seal.at)) return 'at'
  if (!isMoment(seal.createdAt)) return 'created_at'
  for (const count of ['total', 'accepted', 'duplicate', 'rejected'] as const) {
    if (!isBatchCount(seal[count])) return count
  }
  return null
}

/** Reads a record of a lane or of the log. */
export const admit = (record: IncomingRecord): Admitted => {
  const decoded = decodeRecord(record.value)
  if (Result.isFailure(decoded)) return { kind: 'dead', reason: decoded.failure.reason }
  const content = decoded.success
  switch (content.type) {
    case 'ShardOpened':
      return { kind: 'fence', epoch: content.epoch }
    case 'BatchSealed': {
      const fault = faultOfSeal(content)
      return fault === null ? { kind: 'seal', seal: content } : { kind: 'dead', reason: `invalid_${fault}` }
    }
    case 'OpenMessagesCarried':
      return { kind: 'repetition' }
    case 'SubscriptionChanged':
    case 'EventRecorded':
    case 'DeliveryReportReceived':
    case 'InboundMessageReceived':
      return { kind: 'dead', reason: 'unexpected_type' }
    default: {
      const fault = faultOf(content)
      return fault === null ? { kind: 'fact', fact: content } : { kind: 'dead', reason: `invalid_${fault}` }
    }
  }
}
