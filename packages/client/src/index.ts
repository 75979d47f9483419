/** Client of the SMS Delivery Hub: verifies webhooks, and calls the API with types. */
export {
  createHubClient,
  type HubClient,
  type HubClientOptions,
  HubError,
  type ListPath,
  type PathOf,
} from './client.ts'
export type { components, operations, paths } from './contract.ts'
export {
  type HubEvent,
  readEvents,
  type SignatureProblem,
  signForTest,
  TOLERANCE_SECONDS,
  type VerifyOptions,
  verifySignature,
  WebhookSignatureError,
} from './signature.ts'
