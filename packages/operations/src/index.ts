/**
 * The operations of hub staff: use cases with their permission and their line in the audit trail.
 * hubctl and the operations API call them with `perform`. One namespace for each subject.
 */
export * as Accounts from './accounts.ts'
export { type Actor, type Role, ROLES } from './actor.ts'
export { audited, auditedAfterwards, type AuditedOperation } from './audit-trail.ts'
export * as Certification from './certification.ts'
export { failureCode, Forbidden, INPUT_INVALID, OperationRefused, OperationUnavailable } from './failures.ts'
export { isPlainLine, MAX_LINE_LENGTH } from './fields.ts'
export * as Keys from './keys.ts'
export { perform } from './perform.ts'
export { allowingRole, type Permission, PERMISSION_NAMES, rolesWith } from './permission.ts'
export * as Deliveries from './webhooks/deliveries.ts'
export * as Erasures from './erasures.ts'
export * as Messages from './messages/index.ts'
export * as OptOutHistory from './opt-out-history.ts'
export * as Senders from './senders.ts'
export { type AuditFacts, type AuditRow, readNewest as readNewestAudit } from './tables/audit.ts'
export { stuck, StuckWork } from './stuck.ts'
export * as Templates from './templates.ts'
export * as Usage from './usage/index.ts'
export * as Webhooks from './webhooks/index.ts'
export { defineUseCase, type UseCase } from './use-case.ts'
