export { CHANGELOG_PATH } from './changelog.ts'
export { cleanDescription } from './clean-description.ts'
export { deprecationHeaders } from './api/deprecation.ts'
export * from './api/hub-api.ts'
export { SEND_CODES } from './api/messages.ts'
export { description, descriptionText, LICENSE } from './describe.ts'
export { referredBy, rewriteSchemas } from './describe-details.ts'
export * from './errors.ts'
export { escapeHtml, page } from './html.ts'
export { loggableParam, prepareKnownParameters, requestWarnings } from './known-parameters.ts'
export * from './json.ts'
export * from './limits.ts'
export * from './schemas/account.ts'
export * from './schemas/batches.ts'
export * from './schemas/estimates.ts'
export * from './schemas/event-objects.ts'
export * from './schemas/events.ts'
export * from './schemas/messages.ts'
export * from './schemas/senders.ts'
export * from './schemas/stats.ts'
export * from './schemas/templates.ts'
export * from './schemas/webhook-endpoints.ts'
export * from './requests/body.ts'
export * from './requests/idempotency-key.ts'
export * from './requests/pages.ts'
export * from './requests/senders.ts'
export * from './requests/sends.ts'
export * from './requests/stats.ts'
export * from './requests/templates.ts'
export * from './requests/webhook-endpoints.ts'
export {
  type CachedDocument,
  descriptionDocument,
  changelogPage,
  ERROR_PAGE_PATH,
  errorPage,
  pagePolicy,
  REFERENCE_PATH,
  referencePage,
  renderErrorPage,
} from './reference.ts'
