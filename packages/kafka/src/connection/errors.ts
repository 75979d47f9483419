/** Translates errors of kafkajs into the errors of the port. */
import type { KafkaUnavailable } from '../port.ts'

export interface FailureReason {
  readonly reason: KafkaUnavailable['reason']
  /** Names of errors only, never the content of a record. */
  readonly detail: string
  /** The same request would get the same answer, so a retry is useless. */
  readonly fatal: boolean
}

const TIMEOUTS: ReadonlySet<string> = new Set([
  'KafkaJSRequestTimeoutError',
  'KafkaJSTimeout',
  'KafkaJSLockTimeout',
])
const CONNECTION_ERRORS: ReadonlySet<string> = new Set([
  'KafkaJSConnectionError',
  'KafkaJSConnectionClosedError',
  'KafkaJSBrokerNotFound',
  'KafkaJSNoBrokerAvailableError',
  'KafkaJSGroupCoordinatorNotFound',
  'KafkaJSMetadataNotLoaded',
  'KafkaJSTopicMetadataNotLoaded',
  'TokenUnavailable',
])
/** Error codes of the protocol. */
const FATAL: ReadonlySet<string> = new Set([
  'INVALID_PARTITIONS',
  'INVALID_CONFIG',
  'INVALID_TOPIC_EXCEPTION',
  'POLICY_VIOLATION',
  'TOPIC_AUTHORIZATION_FAILED',
  'GROUP_AUTHORIZATION_FAILED',
  'CLUSTER_AUTHORIZATION_FAILED',
  'UNSUPPORTED_VERSION',
])

/** Error codes of a broker that does not lead the partition, or not yet. */
const LEADER_MOVED: ReadonlySet<string> = new Set([
  'NOT_LEADER_FOR_PARTITION',
  'LEADER_NOT_AVAILABLE',
  'FENCED_LEADER_EPOCH',
  'UNKNOWN_LEADER_EPOCH',
])

interface KafkaJsError {
  readonly name?: string
  readonly type?: string
  readonly code?: string
  readonly message?: string
  readonly cause?: unknown
  readonly errors?: ReadonlyArray<unknown>
}

const innermost = (thrown: unknown): KafkaJsError | null | undefined => {
  let error = thrown as KafkaJsError | null | undefined
  for (let depth = 0; depth < 8; depth++) {
    const inner = (error?.errors?.[0] ?? error?.cause) as KafkaJsError | null | undefined
    if (inner === undefined || inner === null || inner === error) break
    error = inner
  }
  return error
}

/** A partition has another leader than the metadata says. The same request with new metadata succeeds. */
export const hasLeaderMoved = (thrown: unknown): boolean => LEADER_MOVED.has(innermost(thrown)?.type ?? '')

/** The reason for an error of kafkajs. Its innermost cause decides. */
export const reasonOf = (thrown: unknown): FailureReason => {
  const error = innermost(thrown)
  const name = error?.name ?? 'Error'
  const detail = [name, error?.type ?? error?.code].filter((word) => word !== undefined).join(' ')
  const timedOut =
    TIMEOUTS.has(name) || (name === 'KafkaJSConnectionError' && /timeout/i.test(error?.message ?? ''))
  if (timedOut) return { reason: 'timeout', detail, fatal: false }
  if (CONNECTION_ERRORS.has(name)) return { reason: 'refused', detail, fatal: false }
  return { reason: 'rejected', detail, fatal: error?.type !== undefined && FATAL.has(error.type) }
}
