/**
 * The rules of the hub as pure functions: no clock, no randomness, no I/O.
 * Each file exports only what belongs to this public interface or to another file of the domain.
 */

// Values and identifiers
export * from './values/classification.ts'
export * from './values/money.ts'
export * from './values/text.ts'
export * from './values/timestamp.ts'
export * from './id/id.ts'

// Message: commands → decide → facts → evolve → state
export * from './message/command.ts'
export * from './message/fact.ts'
export * from './message/state.ts'
export * from './message/errors.ts'
export * from './message/decide.ts'
export * from './message/evolve.ts'
export * from './message/accept.ts'
export * from './message/lifetimes.ts'
export * from './message/step.ts'
export * from './message/events.ts'

// Batch
export * from './batch/batch.ts'

// Recipient
export * from './recipient/recipient.ts'
export * from './recipient/opt-out.ts'
export * from './recipient/sandbox.ts'
export * from './recipient/written-number.ts'

// Text of a message: templates and SMS parts
export * from './template/template.ts'
export * from './template/admission.ts'
export * from './template/moderation.ts'
export * from './sms/sms.ts'

// Account
export * from './account/api-key.ts'
export * from './account/certification.ts'
export * from './account/scope.ts'
export * from './account/settings.ts'
export * from './account/spend.ts'

// Public events
export * from './event/event.ts'

// Webhook subscription
export * from './subscription/delivery.ts'
export * from './subscription/expiry.ts'
export * from './subscription/health.ts'
export * from './subscription/retry.ts'
export * from './subscription/rotation.ts'
export * from './subscription/signature.ts'
export * from './subscription/subscription.ts'

// Statistics: what is unusual in them
export * from './statistics/hours.ts'
export * from './statistics/suspicious-requests.ts'
export * from './statistics/unusual-delivery.ts'
