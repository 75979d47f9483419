/** Client of the SMS Delivery Hub: verifies webhooks, and calls the API with types. */
export { createHubClient, type HubClient, type HubList } from './client.ts'
export type { components, operations, paths } from './contract.ts'
export {
  HubAuthenticationError,
  HubConflictError,
  HubConnectionError,
  HubError,
  HubInvalidRequestError,
  HubNotFoundError,
  HubOptionError,
  HubRateLimitError,
  HubUnavailableError,
} from './errors.ts'
export type { FollowOptions, HubEvent } from './follow.ts'
export type { HubClientOptions } from './http.ts'
export type { CallOptions, ListPath, PathOf } from './operations.ts'
export type { BatchMessage, SendAllOptions, SendResult } from './send-all.ts'
export {
  headersForTest,
  readEvents,
  type SignatureProblem,
  signForTest,
  TOLERANCE_SECONDS,
  type VerifyOptions,
  WebhookSignatureError,
} from './signature.ts'
