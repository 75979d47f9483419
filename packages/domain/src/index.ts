/**
 * The rules of the hub, and nothing else: no clock, no randomness, no I/O. What is not exported here is nobody's business.
 */

// Words and values
export {
  addMoney,
  characterCount,
  fromTimestamp,
  hasControlCharacters,
  MESSAGE_CLASSES,
  type MessageClass,
  minorUnits,
  type Mode,
  MODES,
  type Money,
  moneyOf,
  multiplyMoney,
  toTimestamp,
  zeroMoney,
} from './vocabulary.ts'
export {
  decodeId,
  encodeId,
  eventBatchId,
  eventId,
  factId,
  ID_PREFIXES,
  type IdPrefix,
  NEW_ID_RANDOM_BYTES,
  newId,
  newUuid,
} from './id/id.ts'

// Recipient
export {
  checkRecipient,
  isRecipientNumber,
  maskNumber,
  RECIPIENT_NUMBER_PATTERN,
  recipientHash,
  RecipientInvalid,
} from './recipient/recipient.ts'
export {
  type AppliedWords,
  decideOptOut,
  DEFAULT_START_WORDS,
  DEFAULT_STOP_WORDS,
  type OptOut,
  type OptOutDecision,
  type OptOutVocabulary,
  optOutVocabulary,
  type OptOutWord,
  optOutWordOf,
  type ReceivedWord,
} from './recipient/opt-out.ts'
export { SANDBOX_SCENARIOS, sandboxScenario, type SandboxScenario } from './recipient/sandbox.ts'

// Text
export {
  countParts,
  type Encoding,
  encodingOf,
  fromSeptets,
  type PartCount,
  splitParts,
  toSeptets,
} from './sms/sms.ts'
export {
  parseTemplate,
  render,
  type Rendered,
  type RenderError,
  type Template,
  TemplateInvalid,
  TemplateTextTooLong,
  TemplateVariableInvalid,
  TemplateVariableMissing,
  TemplateVariableUnknown,
  TEXT_MAX_PARTS,
  VARIABLE_MAX_LENGTH,
} from './template/template.ts'
export {
  type AdmissibleTemplate,
  type AdmissionError,
  admitTemplate,
  SENDER_STATUSES,
  SenderNotRegistered,
  type SenderStatus,
  TEMPLATE_STATUSES,
  TemplateClassMismatch,
  TemplateDeclined,
  TemplateNotApproved,
  TemplateNotFound,
  type TemplateStatus,
} from './template/admission.ts'
export {
  type ModerationState,
  moderateTemplate,
  newSenderStatus,
  newTemplateStatus,
  moderateSender,
  senderDecided,
  type DecidedSender,
  templateDecided,
  type DecidedTemplate,
  type ModerationDecision,
} from './template/moderation.ts'

// Message
export {
  epochOf,
  EXPIRED_REASONS,
  type ExpiredReason,
  type HandoverRefused,
  type HandoverStarted,
  type LogFact,
  type MessageAccepted,
  type MessageDelivered,
  type MessageExpired,
  type MessageFact,
  type MessageRejected,
  type MessageSeen,
  type MessageSent,
  type MessageUndelivered,
  type OpenMessageCarried,
  type ReasonCode,
  REJECTED_REASONS,
  type RejectedReason,
  UNDELIVERED_REASONS,
  withEpoch,
  type UndeliveredReason,
} from './message/fact.ts'
export type {
  AssumeSent,
  HandOver,
  MessageCommand,
  PassDeadline,
  RecordReadReceipt,
  RecordRefusal,
  RecordRejection,
  RecordReport,
  RecordSubmitted,
  ReportOutcome,
} from './message/command.ts'
export {
  deadlineOf,
  initialState,
  isBilled,
  isFinal,
  type MessageState,
  rank,
  remainingLifetime,
  type Stage,
  type Status,
  STATUSES,
  supersedes,
} from './message/state.ts'
export {
  AcceptanceUnknown,
  AlreadyHandedOver,
  LifetimeExpired,
  type MessageError,
  MessageUnknown,
  NotHandedOver,
  RetryNotDue,
  OutcomeUnknown,
} from './message/errors.ts'
export { reappendOpen, reappendRefusal, decide, type Decision } from './message/decide.ts'
export { evolve, statusOf } from './message/evolve.ts'
export { factIdOf, stepOf } from './message/step.ts'
export { DEFAULT_LIFETIMES, expiresAt, type Lifetimes, reportDeadline } from './message/lifetimes.ts'
export { accept, type Acceptance, chargeOf, priceOf, republish } from './message/accept.ts'
export {
  type AcceptedMessage,
  eventsOf,
  type MessageEvent,
  type MessageEventObject,
  billedPrice,
} from './message/events.ts'

// Batch
export {
  batchCompleted,
  type BatchCounts,
  batchObject,
  type BatchObject,
  type BatchTally,
} from './batch/batch.ts'

// Account
export {
  API_KEY_PATTERN,
  API_KEY_RANDOM_BYTES,
  apiKeyDigest,
  apiKeyEnding,
  apiKeyFrom,
} from './account/api-key.ts'
export {
  certificationChecklist,
  type CertificationCheck,
  type Confirmation,
  CONFIRMATION_NAMES,
  CONFIRMATIONS,
  type ObservedActivity,
} from './account/certification.ts'
export {
  type AccountOverrides,
  type AccountSettings,
  CACHE_TTL_MS,
  CURRENCY,
  DEFAULT_SETTINGS,
  effectiveSettings,
} from './account/settings.ts'
export {
  DEFAULT_SOFT_THRESHOLD_PERCENT,
  type Spending,
  spendLimitObject,
  type SpendLimitObject,
  type SpendPeriod,
  spendPeriodOf,
  spendThresholdCrossed,
  spendThresholdEventId,
} from './account/spend.ts'

// Public events
export {
  envelopeOf,
  EVENT_TYPES,
  type EventEnvelope,
  eventIdOf,
  type EventType,
  isEventType,
  MESSAGE_EVENT_TYPES,
  type MessageEventType,
  type PublicEvent,
} from './event/event.ts'

// Webhook subscription
export {
  type BatchDeliveryState,
  DELIVERY_RULES,
  type DeliveryOutcome,
  type DeliveryRules,
  type DeliveryDecision,
  dueAction,
  EARLY_ATTEMPTS,
  enableSubscription,
  resetEarlyAttempts,
  applyOutcome,
  newEndpointHealth,
  newBatchDelivery,
  type EndpointHealth,
  windowClosed,
} from './subscription/delivery.ts'
export {
  type AttemptOutcome,
  DISABLE_AFTER_FAILURES,
  DISABLE_AFTER_MS,
  enable,
  type HealthAction,
  type HealthDecision,
  healthy,
  applyAttempt,
  SUBSCRIPTION_STATUSES,
  type SubscriptionHealth,
  type SubscriptionStatus,
} from './subscription/health.ts'
export { nextAttemptAt, RETRY_WINDOW_MS, retryInterval, retryWindowExpired } from './subscription/retry.ts'
export { SIGNATURE_TOLERANCE_SECONDS, signatureHeader, verifySignature } from './subscription/signature.ts'
export {
  SECRET_ROTATION_MS,
  subscriptionDisabled,
  subscriptionObject,
  type SubscriptionObject,
  type SubscriptionView,
  testDeliveryEvent,
} from './subscription/subscription.ts'
