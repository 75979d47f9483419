/**
 * The operations of hub staff: use cases with their permission and their line in the audit trail.
 * hubctl and the operations API call them with `perform`. One namespace for each subject.
 */
export * as Accounts from './accounts.ts'
export { accountsOf, type Actor, actorId, type Role, ROLES } from './actor.ts'
export * as Audit from './audit.ts'
export { auditedAfterwards } from './audit-trail.ts'
export * as Certification from './certification.ts'
export { csv } from './csv.ts'
export * as DeadLetters from './dead-letters.ts'
export * as Deliveries from './webhooks/deliveries.ts'
export * as Doctor from './doctor/index.ts'
export * as Erasures from './erasures.ts'
export { EXPORT_LIMITS, exportColumns, type ExportedList, exportList, PAGE_PARAMETERS } from './export.ts'
export {
  describeFailure,
  Forbidden,
  INPUT_INVALID,
  LookupLimitReached,
  OperationRefused,
  OperationUnavailable,
} from './failures.ts'
export { addedField, hasNoNumber, isPlainLine, MAX_LINE_LENGTH } from './fields.ts'
export * as Hub from './hub.ts'
export * as Inbound from './inbound.ts'
export * as Insights from './insights/index.ts'
export * as KeyRequests from './key-requests.ts'
export * as Keys from './keys.ts'
export * as Members from './members.ts'
export * as Messages from './messages/index.ts'
export * as OptOutHistory from './opt-out-history.ts'
export * as OptOuts from './opt-outs.ts'
export * as Overview from './overview/index.ts'
export { perform, requirePermission, requireRole } from './perform.ts'
export { allowingRole, type Permission, PERMISSION_NAMES, rolesOf, rolesWith } from './permission.ts'
export * as Projections from './projections.ts'
export * as Ranges from './ranges.ts'
export * as Recipients from './recipients.ts'
export * as Restore from './restore.ts'
export * as Senders from './senders.ts'
export { stuck, StuckWork } from './stuck.ts'
export * as Templates from './templates.ts'
export * as Topics from './topics.ts'
export * as Usage from './usage/index.ts'
export { defineUseCase, type UseCase } from './use-case.ts'
export * as Views from './views.ts'
export * as Webhooks from './webhooks/index.ts'
