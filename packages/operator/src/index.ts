/** The operator port and its adapters: sandbox, HTTP, SMPP. */
export {
  type Binds,
  type Capabilities,
  type InboundMessage,
  type OpenSubmission,
  type Operator,
  type OperatorAnswer,
  type OperatorReport,
  ReportSink,
  ReportsNotStored,
  type Submission,
  type SubmitOutcome,
  type UnreadableDelivery,
} from './port.ts'
export { guardOperator, guardSink } from './boundary.ts'
export { makeUnusable } from './unusable.ts'
export { makeSandbox, SANDBOX, SANDBOX_DEFAULTS, type SandboxOptions } from './sandbox/sandbox.ts'
export { readHttpReports, readHttpInbound } from './http/callback.ts'
export { HTTP, HTTP_DEFAULTS, makeHttpOperator } from './http/http.ts'
export { parseSmppErrors, type SmppErrors } from './smpp/errors.ts'
export type { IdFormat } from './smpp/ids.ts'
export { SMPP, SMPP_DEFAULTS, type SmppSettings } from './smpp/settings.ts'
export { makeSmppOperator, type SmppOperator } from './smpp/smpp.ts'
