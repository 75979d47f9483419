/** Operators: the port, and the adapters behind it. */
export {
  type Capabilities,
  type InboundMessage,
  type OpenSubmission,
  type Operator,
  type OperatorReport,
  ReportSink,
  ReportsNotTaken,
  type Submission,
  type SubmitOutcome,
} from './port.ts'
export { makeSandbox, SANDBOX, SANDBOX_DEFAULTS, type SandboxOptions } from './sandbox/sandbox.ts'
export { type CallbackRefusal, readCallback } from './http/callback.ts'
export { HTTP, HTTP_DEFAULTS, type HttpOperatorOptions, makeHttpOperator } from './http/http.ts'
