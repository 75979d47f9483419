/**
 * How long payload keys are used and kept, by class. The topics of the keys enforce the retention
 * (docs/decisions/encryption.md#payload-keys).
 */
import type { MessageClass } from '@hub/domain'

const MINUTE = 60_000
const HOUR = 60 * MINUTE

export interface PayloadKeyPeriods {
  /** A new key replaces a key of this age, ms. */
  readonly replacedAfterMs: number
  /** While Kafka is unavailable, a key stays in use up to this age, ms. */
  readonly usedAtMostMs: number
  /** Kafka keeps a key at least this long, ms. Readers ignore older keys. */
  readonly retentionMs: number
  /** Kafka starts a new segment after this time, ms. It deletes only whole segments. */
  readonly segmentMs: number
}

/**
 * A code is valuable to a thief for minutes, another message for longer. Retention minus the
 * longest use is the time in which the last message can be submitted: 30 minutes for `otp`, whose
 * lifetime is minutes, and 24 hours for `service`.
 */
export const PAYLOAD_KEY_PERIODS: Readonly<Record<MessageClass, PayloadKeyPeriods>> = {
  otp: {
    replacedAfterMs: 5 * MINUTE,
    usedAtMostMs: 30 * MINUTE,
    retentionMs: HOUR,
    segmentMs: 10 * MINUTE,
  },
  service: {
    replacedAfterMs: HOUR,
    usedAtMostMs: 24 * HOUR,
    retentionMs: 48 * HOUR,
    segmentMs: HOUR,
  },
}

/** How long the broker keeps the file of a deleted segment, ms. The default of Kafka. */
export const FILE_DELETE_DELAY_MS = MINUTE

/**
 * The longest permitted `log.retention.check.interval.ms` of the brokers, ms: the default of Kafka.
 * A topic cannot set it.
 */
const RETENTION_CHECK_MS = 5 * MINUTE

/** When a key that was created at a time no longer exists in any file of Kafka, ms. */
export const payloadKeyGoneAt = (messageClass: MessageClass, createdAt: number): number => {
  const { retentionMs, segmentMs } = PAYLOAD_KEY_PERIODS[messageClass]
  return createdAt + retentionMs + segmentMs + RETENTION_CHECK_MS + FILE_DELETE_DELAY_MS
}
